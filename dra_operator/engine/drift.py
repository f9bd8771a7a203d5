"""Does an allocated claim still have what it was given? One claim against the classes and devices of now: a pure comparison.

*Lost*: a device is not published any more, or has a NoExecute taint that the claim does not tolerate. *Drifted*: a device no longer
matches the class or the request it was allocated for. What is done about it is for `reallocating`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

import orjson

from dra_operator.api.claims import Allocation, ClaimSpec, DeviceClass, DeviceResult, RequestDetail
from dra_operator.api.slices import Device
from dra_operator.api.taints import Taint
from dra_operator.cel import CompileError, EvaluationError, bind_device, cached_selector
from dra_operator.cel import Device as BoundDevice
from dra_operator.explain.conjuncts import shown, text_of
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.inventory.identity import PoolId


class ClassMark(NamedTuple):
    """A class as it was at some time. `hash` covers what decides about devices and their configuration."""

    name: str
    hash: str
    generation: int

    def __str__(self) -> str:
        return f"generation {self.generation}, {self.hash}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an allocation. `by_class`: by class name what of it no longer matches that class."""

    phase: Literal["Lost", "Drifted"]
    reason: Literal["DeviceGone", "DeviceTainted", "ClassChanged", "ClassDeleted", "DeviceChanged"]
    message: str
    by_class: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """`device_class` None: the request's own selectors."""

    device: DeviceId
    device_class: str | None
    text: str


def mark_of(device_class: DeviceClass) -> ClassMark:
    """The mark of a class as it is. `extendedResourceName` is not in the hash: it says how to ask, not what for."""
    body = [list(device_class.selectors), [item.to_dict() for item in device_class.config]]
    digest = sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return ClassMark(device_class.name, digest[:12], device_class.meta.generation)


def classes_asked(spec: ClaimSpec, allocation: Allocation) -> tuple[str, ...]:
    """The classes that the allocated devices were asked for with."""
    details = _details(spec)
    names = (details[result.request].device_class_name for result in allocation.results if result.request in details)
    return tuple(dict.fromkeys(names))


def examine(
    spec: ClaimSpec,
    allocation: Allocation,
    inventory: Inventory,
    before: Mapping[str, ClassMark],
    missing: Callable[[DeviceId], bool],
) -> Finding | None:
    """None where all is as it should be. `before`: the classes as they were when the devices were chosen.

    `missing`: whether a device that the inventory does not offer is really gone. One that is not, such as in a pool whose driver is
    publishing it anew, is taken to be as it was.
    """
    details = _details(spec)
    gone: list[DeviceId] = []
    tainted: list[tuple[DeviceId, Taint]] = []
    wrong: list[_Mismatch] = []
    for result in allocation.results:
        device_id = DeviceId(result.driver, result.pool, result.device)
        device = inventory.device(device_id)
        if device is None:
            if missing(device_id):
                gone.append(device_id)
            continue
        taint = _expelling(device, result)
        if taint is not None:
            tainted.append((device_id, taint))
        detail = details.get(result.request)
        if detail is not None:
            wrong += _mismatches(device_id, device, detail, inventory.classes)
    by_class = _by_class(wrong, inventory.classes, before)
    if gone:
        names = ", ".join(dict.fromkeys(map(str, gone)))
        return Finding("Lost", "DeviceGone", f"no ResourceSlice publishes {names} any more", by_class)
    if tainted:
        told = ", ".join(f"{device} has the taint {taint}" for device, taint in tainted)
        return Finding("Lost", "DeviceTainted", f"{told}, which the claim does not tolerate", by_class)
    deleted = [name for name in classes_asked(spec, allocation) if name not in inventory.classes]
    if not wrong and not deleted:
        return None
    own = [f"{item.device} no longer matches its request: {item.text}" for item in wrong if item.device_class is None]
    message = "; ".join([*by_class.values(), *own])
    if deleted:
        texts = [f"DeviceClass {name} was deleted" for name in deleted]
        return Finding("Drifted", "ClassDeleted", "; ".join([*texts, *filter(None, [message])]), by_class)
    edited = [name for name in by_class if _edited(name, inventory.classes, before)]
    return Finding("Drifted", "ClassChanged" if edited else "DeviceChanged", message, by_class)


def presence(device_id: DeviceId, inventory: Inventory) -> bool | None:
    """Is the device published? None where that cannot be told: a pool that is being published anew still names it somewhere."""
    if inventory.device(device_id) is not None:
        return True
    pool = inventory.pools.get(PoolId(device_id.driver, device_id.pool))
    if pool is None or pool.content.usable:
        return False
    # Incomplete, or inconsistent: what it offers is not known, but the driver has not taken the device away.
    named = any(device.name == device_id.device for item in pool.slices.values() for device in item.devices)
    return None if named or pool.content.incomplete is not None else False


def _details(spec: ClaimSpec) -> dict[str, RequestDetail]:
    """By the name that results carry: "request" or "request/subrequest"."""
    return {
        request.name if request.exactly is not None else f"{request.name}/{detail.name}": detail
        for request in spec.requests
        for detail in request.details
    }


def _expelling(device: Device, result: DeviceResult) -> Taint | None:
    """The taint that a pod with this device is evicted for (KEP-5055), as the claim's tolerations stand in its allocation.

    Admin access is no protection. A toleration without an effect is none either (kube-controller-manager 1.37 evicts all the same), but
    it lets such a device be allocated: called lost, it would be given up and taken again for ever.
    """
    for taint in device.taints:
        if taint.effect == "NoExecute" and not any(item.tolerates(taint) for item in result.tolerations):
            return taint
    return None


def _mismatches(
    device_id: DeviceId, device: Device, detail: RequestDetail, classes: Mapping[str, DeviceClass]
) -> Iterator[_Mismatch]:
    bound = bind_device(device_id.driver, device.attributes, device.capacity, device.allow_multiple)
    device_class = classes.get(detail.device_class_name)
    for name, expressions in (
        (detail.device_class_name, () if device_class is None else device_class.selectors),
        (None, detail.selectors),
    ):
        text = next((why for expression in expressions if (why := _why_not(expression, bound)) is not None), None)
        if text is not None:
            yield _Mismatch(device_id, name, text)


def _why_not(expression: str | None, device: BoundDevice) -> str | None:
    """The first term of a selector that does not hold, with the device's value; None if all hold."""
    if expression is None:
        return "a selector without an expression"
    try:
        selector = cached_selector(expression)
        if selector.matches(device):
            return None
    except CompileError as error:
        return f"the selector does not compile: {error}"
    except EvaluationError as error:
        return f"the selector fails: {error}"
    for conjunct in selector.conjuncts:
        try:
            if conjunct.matches(device):
                continue
        except EvaluationError as error:
            return f"{conjunct.text} fails: {error}"
        value = conjunct.seen(device)
        return text_of(conjunct) if value is None else f"{text_of(conjunct)}, it has {shown(value)}"
    return expression


def _by_class(
    wrong: list[_Mismatch], classes: Mapping[str, DeviceClass], before: Mapping[str, ClassMark]
) -> dict[str, str]:
    """By class, which devices do not match it and why, and between which of its versions that came about."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(item.device_class for item in wrong if item.device_class is not None):
        mine = [item for item in wrong if item.device_class == name]
        texts = dict.fromkeys(f"{item.device} ({item.text})" for item in mine)
        change = ""
        if _edited(name, classes, before):
            change = f", edited since the allocation ({before[name]} → {mark_of(classes[name])})"
        found[name] = f"{', '.join(texts)} no longer {'matches' if len(texts) == 1 else 'match'} class {name}{change}"
    return found


def _edited(name: str, classes: Mapping[str, DeviceClass], before: Mapping[str, ClassMark]) -> bool:
    return name in before and name in classes and mark_of(classes[name]).hash != before[name].hash
