"""Rules beyond the claims that could be given up or loosened, in words and as edits: constraints across claims (of the pod's annotation
or of the ClaimGroup), quotas and reservations."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dra_operator.allocator.joint import JointProblem
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION, CrossConstraint
from dra_operator.engine.constraining import attributes
from dra_operator.engine.gangproblems import Party, Terms
from dra_operator.engine.judging import Breach
from dra_operator.explain.explanation import Edit
from dra_operator.explain.situation import Waiver
from dra_operator.queue.budgets import DEVICES, describe


def pod_waiver(pod: Pod, items: Sequence[CrossConstraint], number: int) -> Waiver:
    rest = [_written(item) for index, item in enumerate(items) if index != number]
    edit = Edit(f"Pod {pod.key}", f"metadata.annotations[{CONSTRAINTS_ANNOTATION}]", json.dumps(rest) if rest else None)
    return Waiver(f"drop {_described(items[number])} from the pod's annotation {CONSTRAINTS_ANNOTATION}", edit)


def joint_waivers(terms: Terms, parties: list[Party], joint: JointProblem) -> list[Waiver | None]:
    """By constraint of the joint problem: first those of pods' annotations, then those of the group."""
    found: list[Waiver | None] = [None] * len(joint.constraints)
    free = list(range(len(joint.constraints)))
    for party in parties:
        for number, item in enumerate(party.items):
            at = next((at for at in free if party.pod is not None and _same(joint, at, item, terms)), None)
            if (
                at is not None
                and party.pod is not None
                and any(True for claim in party.fixed for _ in claim.covered(item))
            ):
                free.remove(at)
                found[at] = pod_waiver(party.pod, party.items, number)
    items = () if terms.group is None else terms.group.spec.constraints
    for number, item in enumerate(items):
        at = next((at for at in free if _same(joint, at, item, terms)), None)
        if at is not None and terms.group is not None:
            free.remove(at)
            key = terms.group.meta.key
            rest = [_written(other) for index, other in enumerate(items) if index != number]
            found[at] = Waiver(
                f"drop {_described(item)} from ClaimGroup {key}", Edit(f"ClaimGroup {key}", "spec.constraints", rest)
            )
    return found


def loosened(breach: Breach) -> Waiver | None:
    """The quota or reservation as it would have to be."""
    budget, key, more = breach.budget, breach.budget.key, breach.number is None
    if min(breach.short.values(), default=0) <= 0:
        return None
    limits = {name: limit + breach.short.get(name, 0) * (1 if more else -1) for name, limit in budget.limits.items()}
    verb, where = "raise" if more else "lower", f"AllocationPolicy {key.policy}"
    if DEVICES in limits:
        value = limits[DEVICES]
        text = f"{verb} {key} of policy {key.policy} to {value} {'device' if value == 1 else 'devices'}"
        return Waiver(text, Edit(where, f"spec.{key}.devices", value))
    amounts = {name: describe(name, limit, budget) for name, limit in limits.items()}
    told = " and ".join(f"{amounts[name]} of {name}" for name in breach.short)
    return Waiver(f"{verb} {key} of policy {key.policy} to {told}", Edit(where, f"spec.{key}.capacity", amounts))


def _same(joint: JointProblem, at: int, item: CrossConstraint, terms: Terms) -> bool:
    constraint = joint.constraints[at]
    return constraint.attributes == attributes(item, terms.policy) and constraint.distinct == (
        item.match_attribute is None
    )


def _described(item: CrossConstraint) -> str:
    kind = "matchAttribute" if item.match_attribute is not None else "distinctAttribute"
    over = f" over {', '.join(item.requests)}" if item.requests else ""
    return f"the constraint {kind} {item.match_attribute or item.distinct_attribute}{over}"


def _written(item: CrossConstraint) -> dict[str, object]:
    """As a person writes it."""
    result: dict[str, object] = {"requests": list(item.requests)} if item.requests else {}
    if item.match_attribute is not None:
        result["matchAttribute"] = item.match_attribute
    if item.distinct_attribute is not None:
        result["distinctAttribute"] = item.distinct_attribute
    return result if item.mode == "Required" else {**result, "mode": item.mode}
