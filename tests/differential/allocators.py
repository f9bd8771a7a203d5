"""Compares an answer of ours with the in-tree allocator's and says who is right.

In-tree is taken to be right unless there is proof and a reason. Proof: a solution the validator accepts, or a result it refuses
together with a search of all combinations that finds nothing. A reason: the problem has something of which the in-tree allocator is
known to get it wrong (`traits`); without one it is the proof that is doubted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from dra_operator.allocator import Failed, Problem, Result, Solved, Strategy, Unsolved, solve, validate
from dra_operator.allocator.document import Document, read_document
from dra_operator.api.claims import Allocation
from tests.allocator import brute

STABLE = {"AdminAccess", "DeviceTaints", "PartitionableDevices", "PrioritizedList"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`agreed`, or `ours` says why ours is right all the same; neither: ours is wrong, and `why`."""

    agreed: bool
    ours: str | None = None
    why: str = ""

    @property
    def acceptable(self) -> bool:
        return self.agreed or self.ours is not None


def compare(problem: dict[str, Any], answer: dict[str, Any]) -> Verdict:
    """FirstFit against the in-tree answer."""
    document = read_document(problem)
    result = solve(Problem(document.claims, document.nodes, strategy=Strategy.FirstFit), document.inventory.snapshot())
    if isinstance(result, Solved):
        faults = validate(document.inventory.snapshot(), document.claims, result.allocations, result.node)
        if faults:
            return Verdict(False, why=f"our result is invalid: {'; '.join(map(str, faults))}")
    if answer.get("timeout") or answer.get("panic"):
        return Verdict(False, ours="in-tree gave up")
    if answer.get("error"):
        return _against_error(document, result, answer["error"])
    if answer["results"] is None:
        return _against_none(document, result)
    return _against_results(problem, document, result, answer)


def _against_error(document: Document, result: Result, error: str) -> Verdict:
    if isinstance(result, Failed):
        if result.kind == "limit" and "exceeds the claim limit" in error:
            # Of several claims that ask for too much, ours names first what is too much on every node.
            return Verdict(True)
        if result.kind in ("limit", "class", "claim") and ("All" in error or "asks for all devices" in error):
            return Verdict(False, ours="claims are checked before pools")
        missing = [name for name in objects(error) if name not in result.message]
        if not missing:
            return Verdict(True)
        return _traits(document, f"error names {missing}: {error!r}, ours {result.message!r}")
    if isinstance(result, Solved):
        if "CEL" in error or "checking capacity" in error:
            # With FirstFit the first error reached is the answer, unless it was reached on an obsolete device.
            return _traits(document, f"in-tree failed with {error!r}, ours solved it")
        return _traits(
            document, f"a solution exists where in-tree fails with {error!r}: {_devices(result.allocations)}"
        )
    return _unsolvable(document, f"in-tree failed with {error!r}, ours found nothing")


def _against_none(document: Document, result: Result) -> Verdict:
    if isinstance(result, Unsolved):
        return Verdict(True)
    if isinstance(result, Solved):
        return _traits(document, f"a solution exists that in-tree does not find: {_devices(result.allocations)}")
    if result.kind in ("selector", "capacity"):
        return _traits(document, f"ours reached an error that in-tree did not: {result.message}")
    return _unsolvable(document, f"in-tree found nothing, ours failed: {result.message}")


def _against_results(problem: dict[str, Any], document: Document, result: Result, answer: dict[str, Any]) -> Verdict:
    allocations = tuple(Allocation.from_dict(item) for item in answer["results"])
    faults = validate(document.inventory.snapshot(), document.claims, allocations, answer["node"])
    if isinstance(result, Solved):
        ours = [comparable(item.to_dict()) for item in result.allocations]
        if ours == [comparable(item) for item in answer["results"]] and result.node == answer["node"]:
            return Verdict(not faults, why=f"both are invalid: {'; '.join(map(str, faults))}")
        if faults:
            return _traits(document, f"the in-tree result is invalid: {faults[0]}")
        if STABLE.issuperset(problem["features"]):
            # The stable variant goes through pools in the order of a Go map.
            return Verdict(True)
        if _order(document, result.allocations, result.node) < _order(document, allocations, answer["node"]):
            return _traits(document, f"an earlier solution that in-tree does not see: {_devices(result.allocations)}")
        return Verdict(
            False, why=f"other devices than in-tree: {_devices(result.allocations)}, {_devices(allocations)}"
        )
    if not faults and isinstance(result, Failed) and result.kind in ("selector", "capacity", "pool"):
        return _traits(document, f"ours reached an error that in-tree did not: {result.message}")
    if not faults:
        return Verdict(False, why=f"in-tree solved it validly, ours did not: {result}")
    return _unsolvable(document, f"the in-tree result is invalid: {faults[0]}")


def _unsolvable(document: Document, what: str) -> Verdict:
    """Both say no in different words: acceptable if really nothing works and the problem has what in-tree gets wrong."""
    try:
        found = brute.solution(document)
    except brute.TooLarge:
        return _traits(document, what)
    if found is not None:
        return Verdict(False, why=f"{what}; but there is a solution: {_devices(found[1])}")
    return _traits(document, what)


def _traits(document: Document, what: str) -> Verdict:
    found = traits(document)
    return Verdict(False, ours=f"{', '.join(found)}: {what}") if found else Verdict(False, why=what)


def traits(document: Document) -> list[str]:
    """What a problem has that the in-tree allocator is known to get wrong."""
    inventory, found = document.inventory, []
    if not inventory.features.consumable_capacity and not inventory.features.device_binding_and_status:
        # The stable variant: whichever pool the map yields first fails first.
        found.append("pools in no order")
    for pool in inventory.pools.values():
        newest = max(resource_slice.generation for resource_slice in pool.slices.values())
        current = [item for item in pool.slices.values() if item.generation == newest]
        if len(current) < len(pool.slices):
            found.append("stale generations")
        devices = [device for resource_slice in current for device in resource_slice.devices]
        if not inventory.features.list_type_attributes and any(
            isinstance(value, tuple) for device in devices for value in device.attributes.values()
        ):
            # A list comes first under distinctAttribute, but not second.
            found.append("lists without the feature")
        names = [device.name for device in devices]
        if len(set(names)) != len(names):
            found.append("a device name used for two nodes")
        totals = {
            (item.name, name): value.nano for item in pool.content.counter_sets for name, value in item.counters.items()
        }
        for offer in pool.content.offers:
            if inventory.users(offer.id):
                for item in offer.device.consumes:
                    for name, value in item.counters.items():
                        totals[item.counter_set, name] = totals.get((item.counter_set, name), 0) - value.nano
        if any(value < 0 for value in totals.values()):
            found.append("overdrawn counters")
        if any(resource_slice.per_device_node_selection for resource_slice in pool.slices.values()):
            found.append("selectors evaluated on devices of other nodes")
        if any(resource_slice.skip_node_operations for resource_slice in pool.slices.values()):
            found.append("skipNodeOperations without the feature")
    details = [detail for claim in document.claims for request in claim.spec.requests for detail in request.details]
    if any(detail.admin_access for detail in details):
        found.append("admin access")
    if any(
        detail.allocation_mode == "All"
        for claim in document.claims
        for request in claim.spec.requests
        for detail in request.first_available
    ):
        found.append("All among alternatives")
    if any(detail.allocation_mode == "All" for detail in details) and any(
        claim.spec.constraints for claim in document.claims
    ):
        found.append("All with constraints")
    return list(dict.fromkeys(found))


def _order(document: Document, allocations: tuple[Allocation, ...], node: str | None) -> tuple[object, ...]:
    """Where a solution comes in the in-tree order of trying."""
    places = {offer.id: at for at, offer in enumerate(document.inventory.nodes[str(node)].offers)}
    order: list[object] = [document.nodes.index(str(node))]
    for claim, allocation in zip(document.claims, allocations, strict=True):
        for request in claim.spec.requests:
            mine = [item for item in allocation.results if item.request.partition("/")[0] == request.name]
            subs = [item.name for item in request.first_available]
            sub = subs.index(mine[0].request.partition("/")[2]) if subs and mine else 0
            order.append((sub, sorted(places[item.driver, item.pool, item.device] for item in mine)))  # type: ignore[index]
    return tuple(order)


def _devices(allocations: tuple[Allocation, ...]) -> list[list[tuple[str, str, str]]]:
    return [[(item.request, item.pool, item.device) for item in allocation.results] for allocation in allocations]


def comparable(allocation: dict[str, Any]) -> dict[str, Any]:
    """An allocation as far as it is not left to chance: devices as a set, share IDs as present or not."""
    devices = allocation.get("devices") or {}
    results = [{**item, "shareID": bool(item.get("shareID"))} for item in devices.get("results") or ()]
    return {
        "results": sorted(results, key=lambda item: json.dumps(item, sort_keys=True)),
        "config": devices.get("config") or [],
        "nodeSelector": allocation.get("nodeSelector"),
    }


def objects(error: str) -> list[str]:
    """The objects an in-tree message names. A subrequest may be named with its request before it."""
    found = re.findall(r"\b(?:claim|class) [\w./-]+|selector #\d+|constraint #\d+|device [\w.-]+/[\w./-]+", error)
    return [item.rstrip(".,:") for item in found]
