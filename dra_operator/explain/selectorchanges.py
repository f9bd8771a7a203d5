"""Changes of selectors and classes: another bound, a term less, a guard against missing attributes, a class of a similar name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from dra_operator.allocator.plan import Way
from dra_operator.allocator.selection import Broken
from dra_operator.api.claims import RequestDetail, ResourceClaim
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.explain.changes import TRIED, Asked, Change, distance
from dra_operator.explain.conjuncts import ORDERED, Terms, comparable, shown, text_of
from dra_operator.explain.drafts import Apply, Draft, with_detail
from dra_operator.explain.rewriting import (
    Mistyped,
    comparison,
    guarding,
    mistyped,
    rebound,
    retyped,
    term_texts,
    without,
)
from dra_operator.inventory import Inventory
from dra_operator.inventory.kinds import Kind, attribute_of

Rewrite = Callable[[str], str | None]


def selector_changes(asked: Asked) -> Iterator[Change]:
    for way in asked.ways:
        terms = asked.terms[way.index]
        for number, term in enumerate(terms.terms):
            rejects = any(item.by_term[number] is not True for item in terms.verdicts)
            if term.guard or not rejects:
                continue
            texts = term_texts(_expressions(way, term.by_class)[term.selector] or "")
            if term.index < len(texts):
                yield from _bounds(asked, way, terms, number, texts[term.index])
                yield _drop(asked, way, terms, number, texts[term.index])
        yield from _guards(asked, way)
        yield from _mistyped(asked, way)


def _expressions(way: Way, by_class: bool) -> tuple[str | None, ...]:
    return way.filter.device_class.selectors if by_class else way.filter.expressions


def _drop(asked: Asked, way: Way, terms: Terms, number: int, term_text: str) -> Change:
    term = terms.terms[number]
    text = f"drop the condition {text_of(term.conjunct)}"
    apply = _rewriting(way, term.by_class, term.selector, partial(without, term=term_text))
    family = f"{way.index}/{number}/drop"
    if term.by_class:
        return Change("class", f"{text} of class {way.detail.device_class_name}", apply, family, 2.0)
    return Change("condition", f"{text} ({asked.where(way)})", apply, family, 1.0)


def _bounds(asked: Asked, way: Way, terms: Terms, number: int, term_text: str) -> Iterator[Change]:
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
        rewrite = partial(rebound, term=term_text, operator=new, value=value)
        apply = _rewriting(way, term.by_class, term.selector, rewrite)
        size, family = distance(bound, value), f"{way.index}/{number}/bound"
        if term.by_class:
            yield Change("class", f"{text} in class {way.detail.device_class_name}", apply, family, size)
        else:
            yield Change("bound", f"{text} ({asked.where(way)})", apply, family, size)


def _rewriting(way: Way, by_class: bool, selector: int, rewrite: Rewrite) -> Apply:
    if not by_class:
        return with_detail(way, partial(_with_selector, selector=selector, rewrite=rewrite))

    def apply(draft: Draft) -> Draft | None:
        name = way.detail.device_class_name
        device_class = draft.classes.get(name, way.filter.device_class)
        selectors = _rewritten(device_class.selectors, selector, rewrite)
        if selectors is None:
            return None
        return replace(draft, classes={**draft.classes, name: replace(device_class, selectors=selectors)})

    return apply


def _with_selector(detail: RequestDetail, selector: int, rewrite: Rewrite) -> RequestDetail | None:
    selectors = _rewritten(detail.selectors, selector, rewrite)
    return None if selectors is None else replace(detail, selectors=selectors)


def _rewritten(selectors: tuple[str | None, ...], number: int, rewrite: Rewrite) -> tuple[str | None, ...] | None:
    text = rewrite(selectors[number] or "")
    return None if text is None else (*selectors[:number], text, *selectors[number + 1 :])


def _guards(asked: Asked, way: Way) -> Iterator[Change]:
    """Selectors that fail where a device lacks what they read."""
    outcomes = asked.outcomes[way.index].values()
    failing = {(item.by_class, item.index) for item in outcomes if isinstance(item, Broken)}
    for by_class, selector in sorted(failing):
        better = guarding(_expressions(way, by_class)[selector] or "")
        if better is None:
            continue
        source = f"class {way.detail.device_class_name}" if by_class else asked.where(way)
        text = f"guard selector {selector} of {source} against attributes that a device lacks: {better}"
        apply = _rewriting(way, by_class, selector, guarding)
        yield Change("class" if by_class else "guard", text, apply, f"{way.index}/guard/{by_class}/{selector}")


def _mistyped(asked: Asked, way: Way) -> Iterator[Change]:
    """Selectors of the request that compare a quantity, version or number with text: with a value of its type, the one meant first."""
    broken: dict[int, list[Kind]] = {}
    for kind, outcome in asked.outcomes[way.index].items():
        if isinstance(outcome, Broken) and not outcome.by_class:
            broken.setdefault(outcome.index, []).append(kind)
    for selector, kinds in sorted(broken.items()):
        expression = way.filter.expressions[selector] or ""
        for item in mistyped(expression):
            published = [value for kind in kinds if (value := _published(kind, item)) is not None]
            meant = _meant(item.text, published)
            if meant is None:
                continue
            alike = Counter(value for value in published if comparable(value, meant))
            for value in [meant, *(value for value in _nearest_values(item.operator, meant, alike) if value != meant)]:
                rewrite = partial(retyped, item=item, value=value)
                if rewrite(expression) is not None:
                    better = comparison(item.subject, item.operator, value)
                    instead = "" if value == meant else f", and with {shown(value)} instead of {item.text}"
                    text = f"compare {item.name} with a {_TYPES[type(value)]}, not with text{instead}: {better} ({asked.where(way)})"
                    apply = _rewriting(way, False, selector, rewrite)
                    family = f"{way.index}/typed/{selector}/{item.term}"
                    yield Change("guard", text, apply, family, distance(meant, value))


_TYPES = {Quantity: "quantity", Semver: "version", int: "number"}


def _published(kind: Kind, item: Mistyped) -> Any:
    if item.capacity:
        return kind.device.capacity.get(item.name)
    return attribute_of(kind.device, kind.driver, f"{kind.driver}/{item.name}")


def _meant(text: str, published: list[Any]) -> Quantity | Semver | int | None:
    """The text as a value of the type that devices publish."""
    kinds = {type(value) for value in published}
    try:
        if Quantity in kinds:
            return Quantity.parse(text)
        if Semver in kinds:
            return Semver.parse(".".join([*text.removeprefix("v").split("."), "0", "0"][:3]))
        if int in kinds:
            return int(text)
    except ValueError:
        return None
    return None


def _nearest_values(operator: str, bound: Any, values: Counter[Any]) -> list[Any]:
    """The values to try, those nearest to the bound first; the farthest stands for all the rest."""
    alike = [value for value in values if comparable(value, bound)]
    if operator not in ORDERED:
        return sorted(alike, key=lambda value: (distance(bound, value), -values[value], shown(value)))[:TRIED]
    ranked = sorted(alike, reverse=operator.startswith(">"))
    return ranked if len(ranked) <= TRIED else [*ranked[: TRIED - 1], ranked[-1]]


def class_names(inventory: Inventory, claims: Iterable[ResourceClaim]) -> Iterator[Change]:
    """For classes that do not exist: those of a similar name."""
    known = sorted(inventory.classes)
    for claim in claims:
        details = (detail for request in claim.spec.requests for detail in request.details)
        for wrong in dict.fromkeys(detail.device_class_name for detail in details):
            if not wrong or wrong in inventory.classes:
                continue
            near = get_close_matches(wrong, known, TRIED, 0.5) or (known if len(known) == 1 else [])
            for rank, name in enumerate(near):
                text = f"name class {name} instead of {wrong}"
                yield Change("class name", text, _with_class(wrong, name), f"class/{wrong}/name", rank)


def _with_class(wrong: str, name: str) -> Apply:
    """Everywhere in all claims."""

    def mended(detail: RequestDetail) -> RequestDetail:
        return replace(detail, device_class_name=name) if detail.device_class_name == wrong else detail

    def apply(draft: Draft) -> Draft:
        for claim in range(len(draft.problem.claims)):
            spec = draft.spec(claim)
            requests = tuple(
                replace(
                    request,
                    exactly=None if request.exactly is None else mended(request.exactly),
                    first_available=tuple(map(mended, request.first_available)),
                )
                for request in spec.requests
            )
            if requests != spec.requests:
                draft = draft.with_spec(claim, replace(spec, requests=requests))
        return draft

    return apply
