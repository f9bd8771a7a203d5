"""Failures in words: an error met by the search as a message that names the object and the repair."""

from __future__ import annotations

from dra_operator.allocator.plan import Plan, over_limit
from dra_operator.allocator.problem import Failed, Problem
from dra_operator.allocator.search import OverLimit, Trouble
from dra_operator.allocator.selection import Broken
from dra_operator.allocator.table import Table
from dra_operator.inventory import Inventory
from dra_operator.inventory.views import NodeRecord


def failed_by(trouble: Trouble, table: Table, record: NodeRecord, problem: Problem) -> Failed:
    """The failure an error on one of a node's devices amounts to."""
    way, bit, broken = trouble
    claim = problem.claims[way.claim]
    if isinstance(broken, OverLimit):
        return over_limit(str(claim.key), claim.spec.requests[broken.request].name, broken.adding, broken.before)
    device = record.offers[table.order[bit]].id
    if not isinstance(broken, Broken):
        return Failed(
            "constraint",
            f"claim {claim.key}, request {way.name}: cannot add device {device} because {broken}; "
            "allocationMode All takes every matching device: narrow the selectors or drop the constraint",
            claim=str(claim.key),
            request=way.name,
            device=device,
        )
    if broken.index < 0:
        return Failed(
            "capacity",
            f"claim {claim.key}, request {way.name}: checking device {device}: {broken.message}",
            claim=str(claim.key),
            request=way.name,
            device=device,
        )
    name = way.detail.device_class_name
    source = f"class {name}" if broken.by_class else f"claim {claim.key}"
    return Failed(
        "selector",
        f"{source}: selector #{broken.index} on device {device}: {broken.message}",
        claim=str(claim.key),
        request=way.name,
        device_class=name if broken.by_class else None,
        selector=broken.index,
        device=device,
    )


def unusable_pools(problem: Problem, inventory: Inventory, plan: Plan) -> Failed | None:
    """In-tree, pools that cannot be used make an error where nothing else could be."""
    names = problem.nodes if problem.nodes is not None else inventory.node_names
    asking = next((way for way in plan.ways if way.all), None)
    for name in names:
        record = inventory.nodes.get(name)
        if record is None or record.view is None:
            continue
        for section in record.sections:
            content = section.pool.content
            if asking is not None and not content.usable:
                claim = str(problem.claims[asking.claim].key)
                state = "being updated" if content.invalid is None else "invalid"
                return Failed(
                    "pool",
                    f"claim {claim}, request {asking.name}: asks for all devices, but resource pool {section.pool.id} "
                    f"is currently {state} ({content.invalid or content.incomplete})",
                    claim=claim,
                    request=asking.name,
                )
            if content.invalid is not None:
                return Failed(
                    "pool",
                    f"invalid resource pools were encountered: pool {section.pool.id}: {content.invalid}; "
                    "the driver has to publish it again",
                )
    return None
