"""How far allocated devices are that must be made ready before their pod is bound (`bindingConditions`, KEP-5007).

Fabric-attached devices, say: kube-scheduler reserves them and waits, minutes if need be, until their driver has written the conditions
into the claim's status. It judges by the same conditions; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from dra_operator.api.meta import parse_time
from dra_operator.api.records import record

if TYPE_CHECKING:
    from dra_operator.api.claims import DeviceResult


@record
class Binding:
    """`since`: when the last of the conditions came, seconds since the epoch; None unless `state` is "ready"."""

    state: Literal["pending", "failed", "ready"]
    since: float | None = None


def binding_of(results: Iterable[DeviceResult], devices: Iterable[Mapping[str, Any]]) -> Binding | None:
    """From the results of an allocation and `status.devices`; None where nothing has to be waited for. Raises InvalidField."""
    concerned = [result for result in results if result.binding_conditions]
    if not concerned:
        return None
    told = {
        (item.get("driver"), item.get("pool"), item.get("device")): item.get("conditions") or () for item in devices
    }
    pending = False
    times: list[float] = []
    for result in concerned:
        conditions = told.get((result.driver, result.pool, result.device), ())
        true = {item.get("type"): item.get("lastTransitionTime") for item in conditions if item.get("status") == "True"}
        if any(name in true for name in result.binding_failure_conditions):
            return Binding("failed")
        pending = pending or any(name not in true for name in result.binding_conditions)
        found = (parse_time(true.get(name)) for name in result.binding_conditions)
        times += [time for time in found if time is not None]
    return Binding("pending") if pending else Binding("ready", max(times, default=None))
