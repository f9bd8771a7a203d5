"""Is a small problem solvable at all? Every combination of devices is tried and judged by the validator.

Slow and without any idea; it decides who is right where two allocators disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from uuid import UUID

from dra_operator.allocator import validate
from dra_operator.allocator.capacity import CapacityError, consumption
from dra_operator.allocator.document import Document
from dra_operator.allocator.validating_devices import Published, published_device
from dra_operator.allocator.validation import _Check
from dra_operator.api.claims import NO_CAPACITY, Allocation, DeviceRequest, DeviceResult, RequestDetail, ResourceClaim
from dra_operator.api.selectors import NodeSelector, node_by_name
from dra_operator.inventory import DeviceId, Inventory

#: More combinations than this are not tried.
LIMIT = 10_000


class TooLarge(Exception):
    """The problem has more combinations than LIMIT."""


def solution(document: Document) -> tuple[str, tuple[Allocation, ...]] | None:
    """A node and allocations that break no rule, or None if there are none. Raises TooLarge."""
    spent = 0
    for node in document.nodes:
        options = [_claim_options(document.inventory, claim, node) for claim in document.claims]
        size = 1
        for option in options:
            size *= max(len(option), 1)
        if size > LIMIT:
            raise TooLarge
        for picked in product(*options):
            spent += 1
            if spent > LIMIT:
                raise TooLarge
            if not validate(document.inventory.snapshot(), document.claims, picked, node):
                return node, picked
    return None


def _claim_options(inventory: Inventory, claim: ResourceClaim, node: str) -> list[Allocation]:
    """Allocations of one claim that are right by themselves."""
    options = []
    per_request = [list(_request_options(inventory, claim, request, node)) for request in claim.spec.requests]
    size = 1
    for found in per_request:
        size *= max(len(found), 1)
    if size > LIMIT:
        raise TooLarge
    selector = NodeSelector.from_dict(node_by_name(node))
    for picked in product(*per_request):
        allocation = Allocation(tuple(result for results in picked for result in results), (), selector)
        if not validate(inventory.snapshot(), [claim], [allocation], node):
            options.append(allocation)
    return options


def _request_options(
    inventory: Inventory, claim: ResourceClaim, request: DeviceRequest, node: str
) -> Iterator[tuple[DeviceResult, ...]]:
    record = inventory.nodes[node]
    checker = _Check(inventory, [claim], [], node)
    for detail in request.details:
        name = request.name if request.exactly is not None else f"{request.name}/{detail.name}"
        usable = []
        for device_id in {
            DeviceId(resource_slice.driver, resource_slice.pool, device.name)
            for pool in inventory.pools.values()
            for resource_slice in pool.slices.values()
            for device in resource_slice.devices
        }:
            device = published_device(inventory, device_id, record.node)
            if isinstance(device, str) or checker._mismatch(detail, device) is not None:
                continue
            try:
                usable.append(_result(inventory, detail, name, device))
            except CapacityError:
                continue
        usable = [item for item in usable if item is not None]
        counts = range(1, len(usable) + 1) if detail.allocation_mode == "All" else (detail.count,)
        for count in counts:
            yield from combinations(sorted(usable, key=lambda item: (item.pool, item.device)), count)


def _result(inventory: Inventory, detail: RequestDetail, name: str, device: Published) -> DeviceResult | None:
    features = inventory.features
    consumed, share = NO_CAPACITY, None
    if features.consumable_capacity:
        found = consumption(detail.capacity, device.device, features.fractional_capacity_range)
        if found is None:
            return None
        if device.device.allow_multiple:
            consumed, share = found, str(UUID(int=0))
    bound = features.device_binding_and_status
    return DeviceResult(
        request=name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=detail.admin_access,
        tolerations=detail.tolerations,
        binding_conditions=device.device.binding_conditions if bound else (),
        binding_failure_conditions=device.device.binding_failure_conditions if bound else (),
        share_id=share,
        consumed_capacity=consumed,
        skip_node_operations=device.slice.skip_node_operations,
    )
