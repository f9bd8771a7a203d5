"""What an inventory publishes, as far as rules ask: which names, of which types, how many devices a node has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dra_operator.api.semver import Semver
from dra_operator.api.slices import AttributeValue, ResourceSlice
from dra_operator.api.slices import Device as SliceDevice
from dra_operator.cel import Device, bind_device
from dra_operator.cel.guards import Access

_TYPES = ((bool, "bool"), (int, "int"), (str, "string"), (Semver, "version"), (tuple, "list"))


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """One device. `node` is the one node that can use it, None where several can."""

    driver: str
    pool: str
    node: str | None
    device: SliceDevice
    view: Device

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device.name}"

    def attribute(self, qualified: str) -> AttributeValue:
        """The value under a fully qualified name, as constraints look it up; None where there is none."""
        if qualified in self.device.attributes:
            return self.device.attributes[qualified]
        domain, _, name = qualified.rpartition("/")
        return self.device.attributes.get(name) if domain == self.driver else None


class Inventory:
    """The devices of the newest generation of each pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.slices = list(slices)
        newest: dict[tuple[str, str], int] = {}
        for item in self.slices:
            newest[item.driver, item.pool] = max(item.generation, newest.get((item.driver, item.pool), 0))
        self.devices = [
            published
            for item in self.slices
            if item.generation == newest[item.driver, item.pool]
            for published in _devices(item)
        ]
        #: Whether it shows without a cluster which nodes can use the devices.
        self.places_known = all(item.node_name or item.all_nodes for item in self.slices)
        self.drivers = {published.driver for published in self.devices}
        self._types: dict[Access, set[str]] = {}
        for published in self.devices:
            for name, value in published.device.attributes.items():
                self._note("attributes", published.driver, name, type_name(value))
            for name in published.device.capacity:
                self._note("capacity", published.driver, name, "quantity")

    def _note(self, kind: str, driver: str, name: str, type: str) -> None:
        domain, _, identifier = name.rpartition("/")
        self._types.setdefault(Access(kind, domain or driver, identifier), set()).add(type)

    def types(self, access: Access) -> set[str]:
        """The types under which an attribute or capacity is published; empty where nobody publishes it."""
        return self._types.get(access, set())

    def names(self, kind: str, domain: str) -> list[str]:
        """The names published in a domain."""
        return sorted(access.name for access in self._types if (access.kind, access.domain) == (kind, domain))

    def domains(self, kind: str) -> list[str]:
        return sorted({access.domain for access in self._types if access.kind == kind})


def type_name(value: AttributeValue) -> str:
    """The type of an attribute as slices name it."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "unknown")


def per_node(devices: Iterable[Published]) -> tuple[dict[str, int], int]:
    """(devices that only one node can use, by node; devices that several nodes can use)."""
    local: dict[str, int] = {}
    anywhere = 0
    for item in devices:
        if item.node is None:
            anywhere += 1
        else:
            local[item.node] = local.get(item.node, 0) + 1
    return local, anywhere


def _devices(item: ResourceSlice) -> Iterable[Published]:
    for device in item.devices:
        node = device.node_name if item.per_device_node_selection else item.node_name
        view = bind_device(item.driver, device.attributes, device.capacity, device.allow_multiple)
        yield Published(item.driver, item.pool, node, device, view)
