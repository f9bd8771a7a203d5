"""One line on why a unit could not be placed, made from what the search counted. The full report has more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_operator.allocator import Failed, RequestStats, Unsolved
from dra_operator.api.claims import MAX_RESULTS, ResourceClaim
from dra_operator.queue.nodefit import Misfit, describe_misfits

#: Failures of the claim or class as they are written: no change of the inventory alone would help.
_FINAL = frozenset({"claim", "class", "selector", "capacity", "constraint", "limit"})


@dataclass(frozen=True, slots=True)
class Blocker:
    """`reason` is one word for programs. `final`: an error in the claim, its class or its policy, not a shortage. `lacks_node`: the pod
    did not fit some node, so room there may help. `held`: devices that would do are held for others.
    """

    reason: str
    message: str
    final: bool = False
    lacks_node: bool = False
    held: bool = False


def blocker_of_failure(failed: Failed, unmade: Mapping[str, str] | None = None) -> Blocker:
    """The problem cannot be solved as it stands, or not within the work budget. `unmade`: as in `Situation`."""
    reason, message = failed.reason or _REASONS.get(failed.kind, "Invalid"), failed.message
    name = failed.device_class or ""
    if unmade and failed.kind == "class" and name in unmade:
        message = (
            f"claim {failed.claim}, request {failed.request}: device class {name} not found; NetworkDeviceClass {name} "
            f"should make it and is {unmade[name]}"
        )
    return Blocker(reason, message, final=failed.kind in _FINAL)


_REASONS = {
    "claim": "InvalidClaim",
    "class": "ClassNotUsable",
    "selector": "SelectorError",
    "capacity": "InvalidCapacityRequest",
    "constraint": "ConstraintError",
    "pool": "PoolUnusable",
    "limit": "TooManyDevices",
}


def blocker_of_search(unsolved: Unsolved, claims: Sequence[ResourceClaim], misfits: Sequence[Misfit]) -> Blocker:
    """Nothing fits now: which request fails for what, then the nodes that the pod itself does not fit."""
    lines = [_request_line(stats, claims) for stats in unsolved.requests]
    short = [line for line in lines if line is not None]
    errors = [str(warning) for warning in unsolved.warnings[:1]]
    parts = [*short, *(f"pool {pool}" for pool in unsolved.pools[:3])]
    if misfits:
        parts.append(f"the pod does not fit {describe_misfits(misfits)}")
    if unsolved.warnings and all(stats.selector_errors for stats in unsolved.requests if not stats.available):
        parts = [*errors, *parts]
        if all(stats.available == 0 and stats.allocated == 0 for stats in unsolved.requests if stats.selector_errors):
            return Blocker("SelectorError", "; ".join(parts), lacks_node=bool(misfits))
    if not parts:
        parts.append(
            "no node has all the devices together" if len(unsolved.requests) > 1 else "no node has the devices"
        )
    if any(stats.held for stats in unsolved.requests):
        return Blocker("Held", "; ".join(parts), lacks_node=bool(misfits), held=True)
    if misfits and all(stats.available or stats.node for stats in unsolved.requests):
        return Blocker("NoFittingNode", f"the pod does not fit {describe_misfits(misfits)}", lacks_node=True)
    return Blocker("NoDevices", "; ".join(parts), lacks_node=bool(misfits))


def _request_line(stats: RequestStats, claims: Sequence[ResourceClaim]) -> str | None:
    """ "request gpu of claim a: 8 devices of class x seen: 2 do not match the class, 6 allocated"; None if it is not short."""
    if stats.available and stats.wanted is not None and stats.most_on_a_node >= stats.wanted and not _combined(stats):
        return None
    name = claims[stats.claim].meta.name or "(unnamed)"
    head = f"request {stats.request} of claim {name} (class {stats.device_class}"
    head += "" if stats.wanted is None or stats.wanted == 1 else f", {stats.wanted} devices on one node"
    head += ")"
    if not stats.seen:
        return f"{head}: no devices in reach"
    causes = [f"{count} {one if count == 1 else many}" for count, one, many in _causes(stats) if count]
    if stats.available:
        causes.append(f"{stats.available} free, at most {stats.most_on_a_node} on one node")
    if stats.wanted is None and stats.most_on_a_node > MAX_RESULTS:
        causes.append(f"and a claim can have {MAX_RESULTS} at most")
    return f"{head}: of {stats.seen} device{'' if stats.seen == 1 else 's'} {', '.join(causes)}"


def _combined(stats: RequestStats) -> bool:
    return bool(stats.counters or stats.capacity or stats.constraint)


def _causes(stats: RequestStats) -> list[tuple[int, str, str]]:
    """How many fell out, and why, said of one and of more."""
    return [
        (sum(stats.class_selectors.values()), "does not match the class", "do not match the class"),
        (
            sum(stats.request_selectors.values()),
            "does not match the request's selectors",
            "do not match the request's selectors",
        ),
        (stats.selector_errors, "makes a selector fail", "make a selector fail"),
        (stats.node, "is on a node that is out of the question", "are on nodes that are out of the question"),
        (stats.unsupported, "needs features that are off", "need features that are off"),
        (stats.allocated, "is allocated", "are allocated"),
        (stats.held, "is held for others", "are held for others"),
        (stats.tainted, "has taints that are not tolerated", "have taints that are not tolerated"),
        (stats.counters, "lacks shared counters", "lack shared counters"),
        (stats.capacity, "lacks capacity", "lack capacity"),
        (stats.constraint, "breaks a constraint", "break a constraint"),
    ]
