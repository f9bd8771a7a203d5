"""NetworkDeviceClass (`dra-operator.dev/v1alpha1`): a class of network devices in plain words.

Data only: what it means for the drivers' attributes is for whoever compiles it into a DeviceClass. The schema
stands a second time in `crds/networkdeviceclasses.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from dra_operator.api.errors import inside
from dra_operator.api.meta import ObjectMeta, read_object
from dra_operator.api.schema import DeviceSelector, Flag, Model


class NetworkDeviceClassSpec(Model):
    """Absent fields do not ask. `config` is handed to the driver unread."""

    driver: Annotated[str, Field(strict=True, min_length=1, max_length=63)] | None = None
    min_bandwidth_gbps: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    rdma: Flag | None = None
    low_latency: Flag | None = None
    selectors: Annotated[tuple[DeviceSelector, ...], Field(max_length=32)] = ()
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NetworkDeviceClass:
    """Cluster-scoped; compiled into the DeviceClass of the same name, which it owns."""

    meta: ObjectMeta
    spec: NetworkDeviceClassSpec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NetworkDeviceClass:
        """Raises InvalidObject."""
        return read_object(
            "NetworkDeviceClass",
            data,
            lambda item, meta: cls(meta, inside("spec", item.get("spec"), NetworkDeviceClassSpec.read)),
        )
