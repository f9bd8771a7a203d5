"""What there is of a device class and how it is used: the numbers of a DeviceClassReport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.api.taints import BLOCKING_EFFECTS
from dra_operator.cel import CompileError, Device, EvaluationError, Selector, bind_device, compile_selector
from dra_operator.inventory import DeviceId, Snapshot


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Devices that match the class. total = allocated + free + tainted + incomplete.

    `largest_free_group`: the most free devices on one node. `fragmentation`: the percentage of the free devices that are on nodes
    with fewer free ones than the largest power of two that some node's devices of this class could serve when empty.
    """

    total: int = 0
    allocated: int = 0
    free: int = 0
    tainted: int = 0
    incomplete: int = 0
    largest_free_group: int = 0
    fragmentation: int = 0
    message: str = ""


def count_class(snapshot: Snapshot, name: str, on_free: Callable[[DeviceId], object] = lambda _: None) -> ClassCount:
    """Count every published device once; one on which a selector errors does not match, and is mentioned.

    `on_free` is called for each free one.
    """
    inventory = snapshot.inventory
    try:
        selectors = [compile_selector(text or "") for text in inventory.classes[name].selectors]
    except CompileError as error:
        return ClassCount(message=f"a selector does not compile: {error.message}")
    verdicts: dict[object, bool | str] = {}
    allocated = free = tainted = 0
    free_at: Counter[str] = Counter()
    size_at: Counter[str] = Counter()
    message = ""
    for offer in inventory.offers():
        bound = bind_device(
            offer.id.driver, offer.device.attributes, offer.device.capacity, offer.device.allow_multiple
        )
        key = tuple(selector.projection(bound) for selector in selectors)
        if key not in verdicts:
            verdicts[key] = _matches(selectors, bound)
        verdict = verdicts[key]
        if isinstance(verdict, str):
            message = message or f"a selector errors on device {offer.id}: {verdict}"
            continue
        if not verdict:
            continue
        place = offer.home or ""
        size_at[place] += 1
        if inventory.users(offer.id):
            allocated += 1
        elif any(taint.effect in BLOCKING_EFFECTS for taint in offer.taints):
            tainted += 1
        else:
            free += 1
            on_free(offer.id)
            free_at[place] += 1
    incomplete = _count_unusable(snapshot, selectors)
    largest = max((count for place, count in free_at.items() if place), default=free_at.get("", 0))
    return ClassCount(
        total=allocated + free + tainted + incomplete,
        allocated=allocated,
        free=free,
        tainted=tainted,
        incomplete=incomplete,
        largest_free_group=largest,
        fragmentation=_fragmentation(free_at, size_at),
        message=message,
    )


def _matches(selectors: list[Selector], device: Device) -> bool | str:
    try:
        return all(selector.matches(device) for selector in selectors)
    except EvaluationError as error:
        return str(error)


def _count_unusable(snapshot: Snapshot, selectors: list[Selector]) -> int:
    """Devices of pools that are incomplete or invalid, and so offer nothing."""
    count = 0
    for pool in snapshot.inventory.pools.values():
        if pool.content.usable:
            continue
        for published in pool.content.slices:
            for device in published.devices:
                bound = bind_device(pool.id.driver, device.attributes, device.capacity, device.allow_multiple)
                count += _matches(selectors, bound) is True
    return count


def _fragmentation(free_at: Counter[str], size_at: Counter[str]) -> int:
    free = sum(count for place, count in free_at.items() if place)
    largest = max((size for place, size in size_at.items() if place), default=0)
    if not free or largest < 2:
        return 0
    group = 1 << (largest.bit_length() - 1)
    stranded = sum(count % group for place, count in free_at.items() if place)
    return round(100 * stranded / free)
