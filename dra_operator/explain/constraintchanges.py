"""Changes of constraints: another attribute to compare, or one constraint less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from dra_operator.allocator import UnitConstraint
from dra_operator.allocator.masks import bits_of
from dra_operator.allocator.plan import Way
from dra_operator.api.claims import DeviceConstraint
from dra_operator.explain.changes import TRIED, Asked, Change
from dra_operator.explain.drafts import Apply, Draft
from dra_operator.explain.situation import Waiver
from dra_operator.inventory.pools import Offer

#: Kinds of nodes whose devices are asked for other attributes.
_SPOTS = 8


def constraint_changes(asked: Asked) -> Iterator[Change]:
    for claim, item in enumerate(asked.claims):
        for number, constraint in enumerate(item.spec.constraints):
            about = f"constraint/{claim}/{number}"
            yield Change(
                "constraint",
                f"drop the constraint {constraint_text(constraint)}{asked.whose(claim)}",
                _with_constraint(claim, constraint, lambda _: None),
                f"{about}/drop",
                1.0,
            )
            if constraint.match_attribute is None:
                continue
            for attribute in _other_attributes(asked, claim, constraint):
                yield Change(
                    "attribute",
                    f"match {attribute} instead of {constraint.match_attribute}{asked.whose(claim)}",
                    _with_constraint(claim, constraint, partial(_matching, attribute=attribute)),
                    f"{about}/{attribute}",
                )
    situation = asked.look.situation
    for unit_constraint, waiver in zip_longest(situation.problem.constraints, situation.waivers):
        if unit_constraint.required:
            word, attribute = "different" if unit_constraint.distinct else "one", unit_constraint.attributes[0]
            text = f"drop the constraint across the claims that asks for {word} {attribute}"
            apply = partial(without_unit_constraint, constraint=unit_constraint, waiver=waiver)
            yield Change("constraint", waiver.text if waiver else text, apply, f"unit/{attribute}/drop", 1.0)


def constraint_text(constraint: DeviceConstraint) -> str:
    """ "matchAttribute x over gpu, nic"."""
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    over = f" over {', '.join(constraint.requests)}" if constraint.requests else ""
    return f"{kind} {constraint.match_attribute or constraint.distinct_attribute}{over}"


def without_unit_constraint(draft: Draft, constraint: UnitConstraint, waiver: Waiver | None = None) -> Draft:
    rest = tuple(item for item in draft.problem.constraints if item is not constraint)
    edits = draft.edits if waiver is None else (*draft.edits, waiver.edit)
    return replace(draft, problem=replace(draft.problem, constraints=rest), edits=edits)


def _with_constraint(
    claim: int, constraint: DeviceConstraint, change: Callable[[DeviceConstraint], DeviceConstraint | None]
) -> Apply:
    def apply(draft: Draft) -> Draft | None:
        spec = draft.spec(claim)
        if constraint not in spec.constraints:
            return None
        changed = (change(item) if item == constraint else item for item in spec.constraints)
        return draft.with_spec(claim, replace(spec, constraints=tuple(item for item in changed if item is not None)))

    return apply


def _matching(constraint: DeviceConstraint, attribute: str) -> DeviceConstraint:
    return replace(constraint, match_attribute=attribute)


def _other_attributes(asked: Asked, claim: int, constraint: DeviceConstraint) -> list[str]:
    """Attributes that devices for each of the constrained requests publish, those about topology first."""
    common: set[str] | None = None
    for requirement in asked.look.plan.requirements:
        ways = [way for way in requirement.ways if way.claim == claim and _constrains(constraint, way)]
        if ways:
            found = {name for way in ways for name in _published(asked, way)}
            common = found if common is None else common & found
    common = (common or set()) - {constraint.match_attribute or ""}
    if not asked.learn:
        common &= set(asked.look.inventory.linked)
    return sorted(common, key=lambda name: (not name.startswith("resource.kubernetes.io/"), name))[:TRIED]


def _published(asked: Asked, way: Way) -> Iterator[str]:
    for offer in _examples(asked, way):
        for name in offer.device.attributes:
            yield name if "/" in name else f"{offer.id.driver}/{name}"


def _examples(asked: Asked, way: Way) -> Iterator[Offer]:
    """Some devices that fit the way."""
    for spot in asked.look.spots[:_SPOTS]:
        for bit in bits_of(spot.fitting[way.index]):
            yield spot.table.view.offers[spot.table.order[bit]]


def _constrains(constraint: DeviceConstraint, way: Way) -> bool:
    return not constraint.requests or bool({way.name, way.name.partition("/")[0]} & set(constraint.requests))
