"""Changes worth trying: of the unit's requests, constraints and classes, each a little different from what is asked for.

Proposals only, made from what the look at the inventory counted; whether one helps is found out by `fixes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from dra_operator.allocator.plan import Way
from dra_operator.allocator.selection import Broken
from dra_operator.api.claims import DeviceConstraint, RequestDetail
from dra_operator.api.quantity import Quantity
from dra_operator.api.taints import BLOCKING_EFFECTS, Taint, Toleration
from dra_operator.explain.conjuncts import ORDERED, Terms, comparable, shown, text_of
from dra_operator.explain.drafts import Apply, Draft, with_detail
from dra_operator.explain.explanation import counted
from dra_operator.explain.looking import Look, bits_of
from dra_operator.explain.rewriting import guarding, rebound, term_texts, without
from dra_operator.inventory import Inventory
from dra_operator.inventory.kinds import Kind

#: What a change costs those who have to make it, cheapest first.
KINDS = (
    "idle",  # free what nobody needs
    "strategy",  # let the workload's own old pods go first
    "class name",
    "guard",  # mend a selector that fails
    "bound",
    "capacity",
    "count",
    "toleration",
    "attribute",  # compare another attribute
    "constraint",  # drop one
    "condition",  # drop a term of a selector
    "pod",
    "node",
    "hold",
    "preempt",  # free claims of lower priority
    "class",  # change what everybody asks for
    "free",  # free claims of others
    "new node",
)
#: Values tried for one bound, counts for one request, and so on.
_TRIED = 3


@dataclass(frozen=True, slots=True)
class Change:
    """`size`: how much is changed, to compare changes of one kind. Of one `family` the first that helps is enough; `about`: what is
    changed, in whatever way."""

    kind: str
    text: str
    apply: Apply
    family: str
    size: float = 0.0

    @property
    def about(self) -> str:
        return self.family.rpartition("/")[0] or self.family

    @property
    def cost(self) -> tuple[int, float, str]:
        return KINDS.index(self.kind), self.size, self.text


class Proposals:
    """`terms`: by way, what the terms of its selectors say."""

    def __init__(self, look: Look, terms: list[Terms], kinds: Counter[Kind], *, learn: bool) -> None:
        self.look, self.terms, self.kinds, self.learn = look, terms, kinds, learn
        self.claims = look.situation.problem.claims
        self._several = len(self.claims) > 1

    def all(self) -> list[Change]:
        """Cheapest first."""
        found: list[Change] = []
        for way in self._ways():
            found += self._selector_changes(way)
            found += self._guards(way)
            found += self._tolerations(way)
            found += self._capacities(way)
            found += self._counts(way)
        found += self._constraint_changes()
        return sorted(found, key=lambda change: change.cost)

    def _ways(self) -> list[Way]:
        """Of the requests that no node can satisfy, all ways; of all requests where each has some node."""
        rows = self.look.rows
        requirements = self.look.plan.requirements
        short = [
            requirement
            for requirement in requirements
            if all(rows[way.index].most_on_a_node < (1 if way.all else way.count) for way in requirement.ways)
        ]
        return [way for requirement in short or requirements for way in requirement.ways]

    def where(self, way: Way) -> str:
        name = f"request {way.name}"
        return f"{name} of claim {self.claims[way.claim].meta.name}" if self._several else name

    # -- selectors -------------------------------------------------------------------------------------------------

    def _selector_changes(self, way: Way) -> Iterator[Change]:
        terms = self.terms[way.index]
        for number, term in enumerate(terms.terms):
            if term.guard:
                continue
            rejected = [item for item in terms.verdicts if item.by_term[number] is not True]
            if not rejected:
                continue
            expressions = way.filter.device_class.selectors if term.by_class else way.filter.expressions
            expression = expressions[term.selector]
            texts = term_texts(expression or "")
            if term.index >= len(texts):
                continue
            yield from self._bounds(way, terms, number, texts[term.index])
            text = f"drop the condition {text_of(term.conjunct)}"
            apply = self._rewriting(
                way, term.by_class, term.selector, lambda old, name=texts[term.index]: without(old, name)
            )  # type: ignore[misc]
            family = f"{way.index}/{number}/drop"
            if term.by_class:
                yield Change("class", f"{text} of class {way.detail.device_class_name}", apply, family, 2.0)
            else:
                yield Change("condition", f"{text} ({self.where(way)})", apply, family, 1.0)

    def _bounds(self, way: Way, terms: Terms, number: int, term_text: str) -> Iterator[Change]:
        term = terms.terms[number]
        comparison = term.conjunct.comparison
        if comparison is None or (comparison.operator not in ORDERED and comparison.operator != "=="):
            return
        operator, bound = comparison.operator, comparison.bound
        nearer = _nearest_values(operator, bound, terms.values_failing_only(number))
        if not nearer:
            # Only together with another change can these devices be used.
            nearer = _nearest_values(operator, bound, terms.values_failing(number))[:1]
        verb = {">": "lower", ">=": "lower", "<": "raise", "<=": "raise"}.get(operator, "change")
        new = operator if operator == "==" else f"{operator[0]}="
        for value in nearer:
            text = f"{verb} {text_of(term.conjunct)} to {shown(value)}"
            apply = self._rewriting(
                way, term.by_class, term.selector, lambda old, value=value: rebound(old, term_text, new, value)
            )  # type: ignore[misc]
            size = _distance(bound, value)
            family = f"{way.index}/{number}/bound"
            if term.by_class:
                yield Change("class", f"{text} in class {way.detail.device_class_name}", apply, family, size)
            else:
                yield Change("bound", f"{text} ({self.where(way)})", apply, family, size)

    def _rewriting(self, way: Way, by_class: bool, selector: int, rewrite: Callable[[str], str | None]) -> Apply:
        if not by_class:

            def change(detail: RequestDetail) -> RequestDetail | None:
                selectors = list(detail.selectors)
                rewritten = rewrite(selectors[selector] or "")
                if rewritten is None:
                    return None
                selectors[selector] = rewritten
                return replace(detail, selectors=tuple(selectors))

            return with_detail(way, change)

        def apply(draft: Draft) -> Draft | None:
            name = way.detail.device_class_name
            device_class = draft.classes.get(name, way.filter.device_class)
            selectors = list(device_class.selectors)
            rewritten = rewrite(selectors[selector] or "")
            if rewritten is None:
                return None
            selectors[selector] = rewritten
            changed = replace(device_class, selectors=tuple(selectors))
            return replace(draft, classes={**draft.classes, name: changed})

        return apply

    def _guards(self, way: Way) -> Iterator[Change]:
        """Selectors that fail where a device lacks what they read."""
        outcomes = [way.filter.judge(kind) for kind in self.kinds]
        failing = {(item.by_class, item.index) for item in outcomes if isinstance(item, Broken)}
        for by_class, selector in sorted(failing):
            expressions = way.filter.device_class.selectors if by_class else way.filter.expressions
            better = guarding(expressions[selector] or "")
            if better is None:
                continue
            source = f"class {way.detail.device_class_name}" if by_class else self.where(way)
            text = f"guard selector {selector} of {source} against attributes that a device lacks: {better}"
            apply = self._rewriting(way, by_class, selector, guarding)
            yield Change("class" if by_class else "guard", text, apply, f"{way.index}/guard/{by_class}/{selector}")

    # -- taints, capacity, counts ----------------------------------------------------------------------------------

    def _tolerations(self, way: Way) -> Iterator[Change]:
        sets: Counter[tuple[Taint, ...]] = Counter()
        for kind, devices in self.kinds.items():
            if way.filter.judge(kind) is not None:
                continue
            bare = tuple(
                taint
                for taint in kind.taints
                if taint.effect in BLOCKING_EFFECTS
                and not any(item.tolerates(taint) for item in way.detail.tolerations)
            )
            if bare:
                sets[tuple(dict.fromkeys(bare))] += devices
        for taints, _ in sorted(sets.items(), key=lambda item: (len(item[0]), -item[1], str(item[0])))[: 2 * _TRIED]:
            added = tuple(
                Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect, None)
                for taint in taints
            )
            names = " and ".join(map(str, taints))
            yield Change(
                "toleration",
                f"tolerate the taint{'s' if len(taints) > 1 else ''} {names} ({self.where(way)})",
                with_detail(
                    way, lambda detail, added=added: replace(detail, tolerations=(*detail.tolerations, *added))
                ),  # type: ignore[misc]
                f"{way.index}/taint/{names}",
                len(taints),
            )

    def _capacities(self, way: Way) -> Iterator[Change]:
        for name, wanted in way.detail.capacity.items():
            best: Quantity | None = None
            for amount in self._amounts(way, name):
                if amount < wanted and amount.sign > 0 and (best is None or amount > best):
                    best = amount
            if best is None:
                continue
            less = Quantity(best.nano, wanted.format)
            yield Change(
                "capacity",
                f"ask for {less} of {name} instead of {wanted} ({self.where(way)})",
                with_detail(
                    way,
                    lambda detail, name=name, less=less: replace(detail, capacity={**detail.capacity, name: less}),  # type: ignore[misc]
                ),
                f"{way.index}/capacity/{name}",
                _distance(wanted, less),
            )

    def _amounts(self, way: Way, name: str) -> Iterator[Quantity]:
        """What devices have of a capacity: what is left of those that are shared, all of the others."""
        for spot in {id(place.spot): place.spot for place in self.look.places}.values():
            fitting, view = spot.fitting[way.index], spot.table.view
            for bit, left in spot.start.left:
                if fitting >> bit & 1:
                    for (known, _), amount in zip(view.kinds[spot.table.order[bit]].sizes, left, strict=True):
                        if known == name:
                            yield Quantity(amount)
        for kind in self.kinds:
            if way.filter.judge(kind) is None and name in kind.device.capacity:
                yield kind.device.capacity[name]

    def _counts(self, way: Way) -> Iterator[Change]:
        most = self.look.rows[way.index].most_on_a_node
        if way.all:
            options = [most] if most else []
        else:
            options = sorted({number for number in (way.count - 1, most, way.count // 2, 1) if 0 < number < way.count})
        for count in reversed(options[-2 * _TRIED :]):
            asked = "all" if way.all else str(way.count)
            yield Change(
                "count",
                f"ask for {counted(count, 'device')} instead of {asked} ({self.where(way)})",
                with_detail(
                    way, lambda detail, count=count: replace(detail, allocation_mode="ExactCount", count=count)
                ),  # type: ignore[misc]
                f"{way.index}/count",
                1.0 if way.all else (way.count - count) / way.count,
            )

    # -- constraints -----------------------------------------------------------------------------------------------

    def _constraint_changes(self) -> Iterator[Change]:
        for claim, item in enumerate(self.claims):
            for number, constraint in enumerate(item.spec.constraints):
                name = constraint_text(constraint)
                whose = f" of claim {item.meta.name}" if self._several else ""
                yield Change(
                    "constraint",
                    f"drop the constraint {name}{whose}",
                    _with_constraint(claim, constraint, lambda _: None),
                    f"constraint/{claim}/{number}",
                    1.0,
                )
                if constraint.match_attribute is None:
                    continue
                for attribute in self._other_attributes(claim, constraint):
                    yield Change(
                        "attribute",
                        f"match {attribute} instead of {constraint.match_attribute}{whose}",
                        _with_constraint(claim, constraint, lambda old, to=attribute: replace(old, match_attribute=to)),  # type: ignore[misc]
                        f"constraint/{claim}/{number}/{attribute}",
                    )
        problem = self.look.situation.problem
        for unit_rule in problem.constraints:
            if not unit_rule.required:
                continue
            word = "different" if unit_rule.distinct else "one"

            def apply(draft: Draft, unit_rule: object = unit_rule) -> Draft:
                rest = tuple(item for item in draft.problem.constraints if item is not unit_rule)
                return replace(draft, problem=replace(draft.problem, constraints=rest))

            text = f"drop the constraint across the claims that asks for {word} {unit_rule.attributes[0]}"
            yield Change("constraint", text, apply, f"unit/{unit_rule.attributes[0]}", 1.0)

    def _other_attributes(self, claim: int, constraint: DeviceConstraint) -> list[str]:
        """Attributes that devices for each of the constrained requests publish, those about topology first."""
        common: set[str] | None = None
        for requirement in self.look.plan.requirements:
            ways = [way for way in requirement.ways if way.claim == claim and _constrains(constraint, way)]
            if not ways:
                continue
            found = set().union(*(self._published(way) for way in ways))
            common = found if common is None else common & found
        common = (common or set()) - {constraint.match_attribute}
        if not self.learn:
            common &= set(self.look.inventory.linked)
        ranked = sorted(common, key=lambda name: (not name.startswith("resource.kubernetes.io/"), name))
        return ranked[:_TRIED]

    def _published(self, way: Way) -> set[str]:
        names: set[str] = set()
        for offer in _examples(self.look, way):
            for name in offer.device.attributes:
                names.add(name if "/" in name else f"{offer.id.driver}/{name}")
        return names


def _examples(look: Look, way: Way) -> Iterator[Any]:
    """Some devices that fit the way."""
    for spot in list({id(place.spot): place.spot for place in look.places}.values())[:8]:
        for bit in bits_of(spot.fitting[way.index]):
            yield spot.table.view.offers[spot.table.order[bit]]


def _constrains(constraint: DeviceConstraint, way: Way) -> bool:
    return not constraint.requests or bool({way.name, way.name.partition("/")[0]} & set(constraint.requests))


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


def constraint_text(constraint: DeviceConstraint) -> str:
    """ "matchAttribute x over gpu, nic"."""
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    over = f" over {', '.join(constraint.requests)}" if constraint.requests else ""
    return f"{kind} {constraint.match_attribute or constraint.distinct_attribute}{over}"


def class_names(inventory: Inventory, claims: Iterable[Any]) -> Iterator[Change]:
    """For classes that do not exist: those of a similar name."""
    known = sorted(inventory.classes)
    for number, claim in enumerate(claims):
        for request in claim.spec.requests:
            for detail in request.details:
                wrong = detail.device_class_name
                if not wrong or wrong in inventory.classes:
                    continue
                near = get_close_matches(wrong, known, _TRIED, 0.5) or (known if len(known) <= 1 else [])
                for rank, name in enumerate(near):
                    yield Change(
                        "class name",
                        f"name class {name} instead of {wrong}",
                        _with_class(number, wrong, name),
                        f"class/{wrong}",
                        rank,
                    )


def _with_class(claim: int, wrong: str, name: str) -> Apply:
    """Everywhere in the claim."""

    def apply(draft: Draft) -> Draft:
        def mended(detail: RequestDetail) -> RequestDetail:
            return replace(detail, device_class_name=name) if detail.device_class_name == wrong else detail

        spec = draft.spec(claim)
        requests = tuple(
            replace(
                request,
                exactly=None if request.exactly is None else mended(request.exactly),
                first_available=tuple(map(mended, request.first_available)),
            )
            for request in spec.requests
        )
        return draft.with_spec(claim, replace(spec, requests=requests))

    return apply


def _nearest_values(operator: str, bound: Any, values: Counter[Any]) -> list[Any]:
    """The values to try, those nearest to the bound first; the farthest stands for all the rest."""
    alike = [value for value in values if comparable(value, bound)]
    if operator not in ORDERED:
        ranked = sorted(alike, key=lambda value: (_distance(bound, value), -values[value], shown(value)))
        return ranked[:_TRIED]
    ranked = sorted(alike, reverse=operator.startswith(">"))
    return ranked if len(ranked) <= _TRIED else [*ranked[: _TRIED - 1], ranked[-1]]


def _distance(bound: Any, value: Any) -> float:
    """How far a value is from a bound, as a share of it; 1 where that means nothing."""
    if isinstance(bound, Quantity) and isinstance(value, Quantity):
        return abs(bound.nano - value.nano) / max(abs(bound.nano), 1)
    if isinstance(bound, int | float) and isinstance(value, int | float):
        return abs(bound - value) / max(abs(bound), 1)
    return 1.0
