"""Rules on classes and claims against an inventory: what selectors find there, and whether it can ever be enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dra_operator.api.fieldpath import FieldPath
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import Comparison, CompileError, Selector
from dra_operator.cel.guards import Access, unguarded
from dra_operator.cel.parser import parse
from dra_operator.lint.findings import Edit, Found, rule
from dra_operator.lint.fitting import dispensable
from dra_operator.lint.published import Inventory, Published
from dra_operator.lint.scope import Candidates, Scope, listed, misspelt, nearest, same_but_for_case
from dra_operator.lint.subjects import Detail, Place, Subject, all_selectors, details, mapping, selectors

_NONE = Candidates()
_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
_BOUNDS = ((bool, "bool"), (int, "int"), (float, "int"), (str, "string"), (Semver, "version"), (Quantity, "quantity"))


@rule(
    "unknown-attribute",
    what="A selector reads an attribute or capacity that no slice publishes.",
    outcome="no device has it: none matches, or the selector fails (no such key)",
    repair="Read an attribute that the slices publish.",
    inventory=True,
)
def unknown_attribute(subject: Subject, scope: Scope) -> Iterator[Found]:
    inventory = scope.inventory
    if inventory is None or not subject.current:
        return
    for place in all_selectors(subject):
        selector = scope.compiled(place.expression)
        if isinstance(selector, CompileError):
            continue
        bare = set(unguarded(parse(place.expression)))
        for access in sorted(_accesses(selector)):
            if not inventory.types(access):
                yield from _unpublished(place, access, inventory, access in bare)


def _accesses(selector: Selector) -> set[Access]:
    kinds = {"attribute": "attributes", "capacity": "capacity"}
    return {
        Access(kinds[str(read[0])], str(read[1]), str(read[2]))
        for read in selector.reads
        if len(read) == 3 and read[1] is not None and read[2] is not None
    }


def _unpublished(place: Place, access: Access, inventory: Inventory, bare: bool) -> Iterator[Found]:
    """A name of a driver that is not there at all says nothing: the manifest may be for another cluster."""
    shown = f"{access.kind} {access.domain}/{access.name}"
    domains = inventory.domains(access.kind)
    other = "capacity" if access.kind == "attributes" else "attributes"
    if inventory.types(Access(other, access.domain, access.name)):
        yield Found(
            place.path, f"no slice publishes {shown}", f"It is published as {other}: read device.{other} instead."
        )
        return
    if access.domain not in domains:
        near = nearest(access.domain, domains)
        if near is not None:
            yield Found(place.path, f"no slice publishes {shown}", f"Write the domain {near}.")
        return
    near = nearest(access.name, inventory.names(access.kind, access.domain))
    if near is not None:
        edits = _renamed(place, access, near) if same_but_for_case(near, access.name) else ()
        yield Found(place.path, f"no slice publishes {shown}", f"Write {near}.", edits)
    elif bare:
        known = listed(inventory.names(access.kind, access.domain))
        yield Found(place.path, f"no slice publishes {shown}", f"{access.domain} has {known}.")


def _renamed(place: Place, access: Access, name: str) -> tuple[Edit, ...]:
    """Certain only where the old name stands for nothing else in the expression."""
    parts = place.expression.split(access.name)
    if len(parts) != 2 or parts[0][-1:].isalnum() or parts[1][:1].isalnum():
        return ()
    return (Edit(place.path, "set", name.join(parts)),)


@rule(
    "attribute-type",
    what="A selector compares an attribute with a value of another type than slices publish.",
    outcome="by == it never matches, by size it fails at run time",
    repair="Compare with a value of the published type.",
    inventory=True,
)
def attribute_type(subject: Subject, scope: Scope) -> Iterator[Found]:
    if scope.inventory is None or not subject.current:
        return
    for place in all_selectors(subject):
        selector = scope.compiled(place.expression)
        if isinstance(selector, Selector):
            for conjunct in selector.conjuncts:
                if conjunct.comparison is not None:
                    yield from _mistyped(place, conjunct.comparison, scope.inventory)


def _mistyped(place: Place, comparison: Comparison, inventory: Inventory) -> Iterator[Found]:
    read = comparison.read
    if read[0] != "attribute" or len(read) != 3 or comparison.operator not in ("==", "<", "<=", ">", ">=", "!="):
        return
    access = Access("attributes", str(read[1]), str(read[2]))
    types = inventory.types(access)
    bound = next((name for kind, name in _BOUNDS if isinstance(comparison.bound, kind)), None)
    if not types or bound is None or bound in types or "unknown" in types or "list" in types:
        return
    if bound == "string" and comparison.operator not in ("==", "!="):
        return  # said by the rule on texts compared as numbers
    published = " and ".join(sorted(types))
    yield Found(
        place.path,
        f"{access.domain}/{access.name} is published as {published} and compared with a {bound}",
        _typed_fix(types, comparison.bound),
    )


def _typed_fix(types: set[str], bound: object) -> str:
    if types == {"version"} and isinstance(bound, str):
        return f"Write == semver({bound!r})."
    if types == {"int"} and isinstance(bound, str) and bound.isdigit():
        return f"Write {bound} without quotes."
    if types == {"bool"} and bound in ("true", "false"):
        return f"Write {bound} without quotes."
    if types == {"string"}:
        return f"Write {str(bound)!r}."
    return ""


@rule(
    "selector-fails",
    what="A selector has no answer for a device of the inventory.",
    outcome="kube-scheduler stops scheduling the pod with an error; this operator leaves the device out",
    repair="Guard with has(…), or read with .? and orValue(…).",
    inventory=True,
)
def selector_fails(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    for places, first in _chains(subject, scope):
        found = scope.candidates(places)
        told: set[int] = set()
        for failure in found.failures if found is not None else ():
            if failure.place < first or failure.place in told:
                continue
            told.add(failure.place)
            same = [item for item in found.failures if item.place == failure.place] if found is not None else []
            count = f" and {len(same) - 1} more" if len(same) > 1 else ""
            reason = failure.message.split(". consider")[0]
            yield Found(places[failure.place].path, f"the selector fails on {failure.device}{count}: {reason}")


def _chains(subject: Subject, scope: Scope) -> Iterator[tuple[list[Place], int]]:
    """Selectors in the order they are evaluated, and from which of them on they are the subject's own."""
    if subject.kind == "DeviceClass":
        yield list(selectors(mapping(subject.value.get("spec")), ("spec",))), 0
    elif subject.kind in _CLAIMS:
        for detail in details(subject):
            places = scope.places(detail)
            if places is not None and not dispensable(detail, subject, scope):
                yield places, len(places) - len(list(selectors(detail.value, detail.path)))


@rule(
    "matches-nothing",
    "DeviceClass",
    *_CLAIMS,
    what="Selectors that no device of the inventory passes.",
    outcome="claims wait for ever, unless such devices are added",
    repair="Ask for what the inventory has.",
    inventory=True,
)
def matches_nothing(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current or scope.inventory is None or not scope.inventory.devices:
        return
    for places, first in _chains(subject, scope):
        found = scope.candidates(places)
        before = scope.candidates(places[:first])
        if found is None or before is None or found.devices or len(places) == first:
            continue
        if first and not before.devices:
            continue  # said of the class
        last = max((index for index in found.rejected if index >= first), default=first)
        yield Found(places[last].path, _why(places, last, found, scope, len(before.devices)))


def _why(places: Sequence[Place], last: int, found: Candidates, scope: Scope, total: int) -> str:
    """Which term rejects how many of the devices that came to it, and the best value seen."""
    selector = scope.compiled(places[last].expression)
    reached = (scope.candidates(places[:last]) or found).devices
    if isinstance(selector, CompileError) or not reached:
        return f"none of {total} devices matches"
    texts = []
    # A guard says less than the comparison it guards.
    telling = [item for item in selector.conjuncts if item.comparison is not None] or selector.conjuncts
    for conjunct in telling:
        rejected = [item for item in reached if not _holds(conjunct.matches, item)]
        if len(rejected) == len(reached):
            seen = sorted({str(value) for item in reached if (value := conjunct.seen(item.view)) is not None})
            values = f" (published: {listed(seen)})" if seen else ""
            texts.append(f"`{conjunct.text}` rejects all of them{values}")
    return f"none of {len(reached)} devices matches" + (": " + "; ".join(texts) if texts else "")


def _holds(test: object, item: Published) -> bool:
    try:
        return bool(test(item.view))  # type: ignore[operator]
    except Exception:
        return False


@rule(
    "matches-everything",
    "DeviceClass",
    what="A class that takes devices of every driver in the inventory.",
    outcome="a claim for it may get a network card where a GPU was meant",
    repair="Begin its selector with device.driver == '…'.",
    level="warning",
    inventory=True,
)
def matches_everything(subject: Subject, scope: Scope) -> Iterator[Found]:
    inventory = scope.inventory
    if inventory is None or len(inventory.drivers) < 2 or not subject.current:
        return
    for places, _ in _chains(subject, scope):
        found = scope.candidates(places)
        if found is not None and len(found.devices) == len(inventory.devices):
            path: FieldPath = ("spec", "selectors") if places else ("spec",)
            drivers = listed(sorted(inventory.drivers))
            yield Found(path, f"the class matches all {len(found.devices)} devices, of {drivers}")


@rule(
    "unknown-class",
    *_CLAIMS,
    what="A request for a class that does not exist, or whose name looks misspelt.",
    outcome="the claim waits until somebody creates the class",
    repair="Name a class that exists, or add it.",
)
def unknown_class(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    for detail in details(subject):
        name = detail.device_class
        if name and name not in scope.class_names:
            near = misspelt(name, scope.class_names)
            # Who checks against an inventory gives the classes along, and without its class nothing of a request can be checked.
            if near is None and not scope.complete and (scope.inventory is None or not scope.class_names):
                continue
            path = (*detail.path, "deviceClassName")
            edits = (Edit(path, "set", near),) if near and same_but_for_case(near, name) else ()
            meant = near or nearest(name, scope.class_names)
            where = "" if scope.complete else " among the manifests"
            yield Found(path, f"there is no class {name}{where}", f"Write {meant}." if meant else "", edits)


@rule(
    "count-too-high",
    *_CLAIMS,
    what="A request for more devices than any node has.",
    outcome="the claim waits for ever: its devices must be on one node",
    repair="Ask for fewer, or spread them over several pods.",
    inventory=True,
)
def count_too_high(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    for detail in details(subject):
        found = matching(detail, scope)
        if not found.devices or detail.value.get("allocationMode") == "All" or dispensable(detail, subject, scope):
            continue
        local, most = found.local, found.most_on_a_node
        if detail.count > most and not any(item.device.allow_multiple for item in found.devices):
            node = max(local, key=lambda name: local[name]) if local else None
            where = f"the most on one node are {most} ({node})" if node else f"there are {most}"
            yield Found(
                (*detail.path, "count"), f"{detail.count} devices of class {detail.device_class} are asked for, {where}"
            )


def matching(detail: Detail, scope: Scope) -> Candidates:
    """The devices that pass the selectors of a request; none where that is not known."""
    places = scope.places(detail)
    found = scope.candidates(places) if places is not None else None
    return found or _NONE
