"""Rules on selectors by themselves, without an inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dra_operator.cel import COST_LIMIT, CompileError, EvaluationError, Selector, bind_device
from dra_operator.cel.ast import Call, Expr, Literal
from dra_operator.cel.guards import Access, access_of, guarded, unguarded
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import unparse
from dra_operator.lint.findings import Edit, Found, rule
from dra_operator.lint.scope import Scope
from dra_operator.lint.subjects import Place, Subject, all_selectors, details, mapping, selectors

#: A device of a driver that no class means.
_STRANGER = bind_device("another-driver.invalid", {}, {})
_ORDER = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMERIC = re.compile(r"-?[0-9]+(\.[0-9]+)*|v[0-9]+(\.[0-9]+)+")
#: Repaired selectors longer than this get a line for each term.
WIDTH = 100


@rule(
    "selector-does-not-compile",
    what="An expression that is not valid CEL for devices.",
    outcome="the API server refuses the object; stored already, every claim that uses it fails",
    repair="Correct the expression; see docs on device selectors.",
)
def does_not_compile(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    for place in all_selectors(subject):
        error = scope.compiled(place.expression)
        if isinstance(error, CompileError):
            text = str(error).removeprefix("compilation failed: ")
            first = text.split("\n")[0].removeprefix("ERROR: <input>:")
            yield Found(place.path, f"the expression does not compile: {first}", _hint(place.expression, text))


def _hint(expression: str, error: str) -> str:
    if "kubernetes.Quantity" in error and "no matching overload" in error:
        return "Compare quantities with compareTo: device.capacity['driver'].name.compareTo(quantity('40Gi')) >= 0."
    if "map(string, any)" in error and re.search(r"attributes\[['\"][^'\"./]+['\"]\]", expression):
        return "Write the domain as well: device.attributes['gpu.example.com'].name."
    if "#" in expression:
        return "Comments in CEL begin with //."
    return ""


@rule(
    "selector-too-expensive",
    what="An expression whose estimated cost is above the API's limit.",
    outcome="the API server refuses the object",
    repair="Split the expression, or avoid loops within loops.",
)
def too_expensive(subject: Subject, scope: Scope) -> Iterator[Found]:
    for place in _current(subject):
        selector = scope.compiled(place.expression)
        if isinstance(selector, Selector) and selector.estimated_cost > COST_LIMIT:
            yield Found(place.path, f"the estimated cost is {selector.estimated_cost}, the limit is {COST_LIMIT}")


@rule(
    "constant-selector",
    what="An expression that does not look at the device.",
    outcome="it matches all devices, of every driver, or none",
    repair="Remove the selector, or let it read device.driver or an attribute.",
    level="warning",
)
def constant_selector(subject: Subject, scope: Scope) -> Iterator[Found]:
    for place in _current(subject):
        selector = scope.compiled(place.expression)
        if isinstance(selector, Selector) and not selector.reads:
            try:
                answer = "all devices" if selector.matches(_STRANGER) else "no device"
            except EvaluationError:
                answer = "no device"
            yield Found(place.path, f"the expression is the same for every device: it matches {answer}")


@rule(
    "text-compared-as-number",
    what="An attribute is compared by size with a number or version written as text.",
    outcome="of a number it fails at run time (no such overload), and text is compared letter by letter: '100' < '40'",
    repair="Compare with a number (>= 40), or versions with compareTo(semver('8.0.0')) >= 0.",
)
def text_compared_as_number(subject: Subject, scope: Scope) -> Iterator[Found]:
    for place in _current(subject):
        try:
            root = parse(place.expression)
        except CompileError:
            continue
        wrong = [(call, access, text) for call, access, text in _by_size(root) if _NUMERIC.fullmatch(text)]
        for _, access, text in wrong:
            shown = f"{access.domain}/{access.name}"
            types = scope.inventory.types(access) if scope.inventory is not None else set()
            known = f", which slices publish as {' and '.join(sorted(types))}," if types else ""
            fix = _number_fix(text, types)
            edits: tuple[Edit, ...] = ()
            if len(wrong) == 1 and types == {"int"} and _INTEGER.fullmatch(text):
                edits = _replaced_literal(place, root, text)
            yield Found(place.path, f"{shown}{known} is compared by size with the text {text!r}", fix, edits)


def _number_fix(text: str, types: set[str]) -> str:
    if types == {"version"}:
        return f"Write .compareTo(semver({text!r}, true)) with the same operator and 0."
    if types == {"string"}:
        return "Text has no numeric order: select by ==, or let the driver publish a number."
    if _INTEGER.fullmatch(text):
        return f"Write {text} without quotes."
    return ""


def _by_size(node: Expr) -> Iterator[tuple[Call, Access, str]]:
    """Comparisons by size of an attribute with a text."""
    if isinstance(node, Call) and node.function in _ORDER:
        for side, other in (node.args, node.args[::-1]):
            access = access_of(side)
            if access is not None and access.kind == "attributes":
                if isinstance(other, Literal) and isinstance(other.value, str):
                    yield node, access, other.value
    for child in node.children():
        yield from _by_size(child)


def _replaced_literal(place: Place, root: Expr, text: str) -> tuple[Edit, ...]:
    """The expression with a text in it written as the number it is."""
    literals = [node for node in _literals(root) if node.value == text]
    if len(literals) != 1:
        return ()
    source, literal = place.expression, literals[0]
    return (Edit(place.path, "set", source[: literal.start] + text + source[literal.end :]),)


def _literals(node: Expr) -> Iterator[Literal]:
    if isinstance(node, Literal):
        yield node
    for child in node.children():
        yield from _literals(child)


@rule(
    "unguarded-attribute",
    what="A selector reads an attribute that devices of other drivers do not have, without a guard.",
    outcome="on such a device it fails (no such key), and with kube-scheduler the whole pod is not scheduled",
    repair="Begin with device.driver == '…', or guard with has(…).",
)
def unguarded_attribute(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    if subject.kind == "DeviceClass":
        yield from _unguarded(list(selectors(mapping(subject.value.get("spec")), ("spec",))), 0, scope)
    elif subject.kind in ("ResourceClaim", "ResourceClaimTemplate"):
        for detail in details(subject):
            of_class = scope.class_places(detail.device_class)
            own = list(selectors(detail.value, detail.path))
            if of_class is not None:
                yield from _unguarded([*of_class, *own], len(of_class), scope)


def _unguarded(places: list[Place], first: int, scope: Scope) -> Iterator[Found]:
    """The first of the selectors, in the order they are evaluated, that fails on a stranger; told from `first` on."""
    for index, place in enumerate(places):
        selector = scope.compiled(place.expression)
        if isinstance(selector, CompileError):
            return
        try:
            if not selector.matches(_STRANGER):
                return
        except EvaluationError:
            root = parse(place.expression)
            missing = unguarded(root)
            if index >= first and missing:
                yield _guard(place, root, missing)
            return


def _guard(place: Place, root: Expr, missing: tuple[Access, ...]) -> Found:
    names = ", ".join(f"{access.domain}/{access.name}" for access in missing)
    problem = f"the selector reads {names} of every device, whatever its driver"
    domains = {access.domain for access in missing}
    driver = f", or begin with device.driver == '{next(iter(domains))}' &&" if len(domains) == 1 else ""
    # A comment would be lost; then a person should do it.
    edits = () if "//" in place.expression else (Edit(place.path, "set", unparse(guarded(root), WIDTH)),)
    return Found(place.path, problem, f"Guard with {unparse(missing[0].test())} &&{driver}.", edits)


def _current(subject: Subject) -> Iterator[Place]:
    return all_selectors(subject) if subject.current else iter(())
