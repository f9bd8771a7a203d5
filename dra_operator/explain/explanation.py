"""An explanation as a value: why a unit waits (or what it has), what would fix it, and its bounded form for reports and JSON.

Nothing is worked out here. Counts are exact however much is left out of the lists: what is left out is counted as `more`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

#: What fell out for one reason: a text and how many devices.
Tally = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Devices that fall out at one step of the funnel; each device falls out at the first step that rejects it.

    `why` is one word for programs (`WHYS`), `index` the selector's where it is one. `details` split `devices`, most first.
    """

    why: str
    devices: int
    text: str
    index: int | None = None
    details: Tally = ()


#: The steps of the funnel, in order.
WHYS = (
    "class",
    "request",
    "error",
    "pool",
    "unsupported",
    "size",
    "taint",
    "attribute",
    "node",
    "allocated",
    "held",
    "reserved",
    "capacity",
    "counters",
)


@dataclass(frozen=True, slots=True)
class ConjunctCount:
    """One term of a selector's outermost `&&`, looked at alone.

    `of`: devices it was asked about: all of them for a term of the class, those that match the class for a term of the request, less
    those that a term about the driver alone rejects. `rejects`: those for which it is not true, `errors` of them because it has no
    answer. `only`: those that all other terms accept. `best`: the value nearest to what is asked for, where values have an order;
    else (`ordered` False) the most common one among those rejected.
    """

    text: str
    source: str
    selector: int
    of: int
    rejects: int
    errors: int = 0
    only: int = 0
    best: str | None = None
    ordered: bool = True

    @property
    def best_text(self) -> str:
        """ ", best 40Gi", ", mostly "A100"", or nothing."""
        if self.best is None:
            return ""
        return f", {'best' if self.ordered else 'mostly'} {self.best}"


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """One request, or one alternative of a request with `firstAvailable`.

    `wanted` None: all devices that match. `usable`: devices that nothing but the combination with others keeps from being taken;
    `most_on_a_node` of them are together. `members`: so many members of a gang ask for the same. devices = the sum over `steps` + usable.
    """

    claim: str
    request: str
    device_class: str
    wanted: int | None
    devices: int
    steps: tuple[Step, ...]
    usable: int
    most_on_a_node: int
    conjuncts: tuple[ConjunctCount, ...] = ()
    members: int = 1

    @property
    def short(self) -> bool:
        """Whether no node has enough devices for this request alone."""
        return self.most_on_a_node < (1 if self.wanted is None else self.wanted)


@dataclass(frozen=True, slots=True)
class Cause:
    """What keeps the unit from being placed. `kind` is one word for programs, `text` a sentence without a full stop."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class NearNode:
    """Nodes that lack the same: some of their names, and how many they are."""

    nodes: tuple[str, ...]
    count: int
    lacks: tuple[str, ...]


#: Stands for the path of an edit that makes `value` more objects like the one named.
COPIES = "*"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of an object: `path` is set to `value`; without a path the object is deleted (or the pod finishes)."""

    object: str
    path: str = ""
    value: Any = None

    def to_dict(self) -> dict[str, Any]:
        if self.path == COPIES:
            return {"copy": self.object, "count": self.value}
        return {"object": self.object, "path": self.path, "value": self.value} if self.path else {"delete": self.object}


@dataclass(frozen=True, slots=True)
class Fix:
    """A change after which the unit fits on `nodes`, found true by solving the changed problem. `edits` is the same for programs."""

    kind: str
    text: str
    edits: tuple[Edit, ...] = ()
    nodes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"text": self.text, "verified": True, "kind": self.kind}
        if len(self.nodes) == 1:
            result["node"] = self.nodes[0]
        elif self.nodes:
            result["nodes"] = list(self.nodes)
        if self.edits:
            result["edits"] = [edit.to_dict() for edit in self.edits]
        return result


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one unit. `causes`, `nodes` and `fixes`: most telling first; `more_nodes` lack something as well and are not listed."""

    summary: str
    requests: tuple[RequestExplanation, ...] = ()
    causes: tuple[Cause, ...] = ()
    nodes: tuple[NearNode, ...] = ()
    more_nodes: int = 0
    fixes: tuple[Fix, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long the lists and texts of a written explanation may get. `edits`: of one fix; more of them are left out altogether, for
    a part would do no good. `silent`: also terms of selectors that reject nothing."""

    requests: int
    steps: int
    details: int
    conjuncts: int
    causes: int
    nodes: int
    fixes: int
    edits: int
    text: int
    silent: bool = True


#: For a ClaimReport: some kilobytes, whatever the inventory.
REPORT = Bounds(
    requests=8, steps=14, details=3, conjuncts=8, causes=5, nodes=3, fixes=5, edits=8, text=512, silent=False
)
#: For people and programs that ask.
FULL = Bounds(requests=64, steps=64, details=12, conjuncts=32, causes=32, nodes=8, fixes=24, edits=512, text=4096)


def explanation_dict(explanation: Explanation, bounds: Bounds) -> dict[str, Any]:
    """`{"summary", "requests", "fixes", …}`; empty lists other than these are left out."""
    result: dict[str, Any] = {"summary": cut(explanation.summary, 2 * bounds.text)}
    if explanation.causes:
        result["causes"] = [
            {"kind": cause.kind, "text": cut(cause.text, bounds.text)} for cause in explanation.causes[: bounds.causes]
        ]
    # Those that are short of devices first, as far as not all are told of.
    requests: Sequence[RequestExplanation] = explanation.requests
    if len(requests) > bounds.requests:
        requests = sorted(requests, key=lambda item: not item.short)[: bounds.requests]
    result["requests"] = [request_dict(item, bounds) for item in requests]
    if explanation.nodes:
        shown = explanation.nodes[: bounds.nodes]
        result["nodes"] = [
            {"nodes": list(item.nodes), "count": item.count, "lacks": [cut(text, bounds.text) for text in item.lacks]}
            for item in shown
        ]
    result["fixes"] = [_fix_dict(fix, bounds) for fix in explanation.fixes[: bounds.fixes]]
    if explanation.warnings:
        result["warnings"] = [cut(text, bounds.text) for text in explanation.warnings[: bounds.causes]]
    return result


def _fix_dict(fix: Fix, bounds: Bounds) -> dict[str, Any]:
    edits = fix.edits if len(fix.edits) <= bounds.edits else ()
    if sum(len(str(edit.value)) for edit in edits) > 4 * bounds.text:
        edits = ()
    result = replace(fix, text=cut(fix.text, bounds.text), edits=edits, nodes=fix.nodes[: 2 * bounds.edits]).to_dict()
    if len(fix.nodes) > 2 * bounds.edits:
        result["moreNodes"] = len(fix.nodes) - 2 * bounds.edits
    return result


def request_dict(item: RequestExplanation, bounds: Bounds) -> dict[str, Any]:
    result: dict[str, Any] = {
        "claim": item.claim,
        "request": item.request,
        "class": item.device_class,
        "wanted": "all" if item.wanted is None else item.wanted,
        "devices": item.devices,
        "steps": [_step_dict(step, bounds) for step in item.steps[: bounds.steps]],
        "usable": item.usable,
        "mostOnANode": item.most_on_a_node,
    }
    if item.members > 1:
        result["members"] = item.members
    heard = [each for each in item.conjuncts if each.rejects or bounds.silent]
    telling = sorted(heard, key=lambda each: -each.rejects)[: bounds.conjuncts]
    if telling:
        chosen = set(map(id, telling))
        result["conjuncts"] = [_conjunct_dict(each, bounds) for each in item.conjuncts if id(each) in chosen]
    return result


def _step_dict(step: Step, bounds: Bounds) -> dict[str, Any]:
    result: dict[str, Any] = {"why": step.why, "devices": step.devices, "text": cut(step.text, bounds.text)}
    if step.index is not None:
        result["selector"] = step.index
    if step.details:
        result["details"] = [
            {"text": cut(text, bounds.text), "devices": count} for text, count in step.details[: bounds.details]
        ]
        rest = step.details[bounds.details :]
        if rest:
            result["more"] = sum(count for _, count in rest)
    return result


def _conjunct_dict(each: ConjunctCount, bounds: Bounds) -> dict[str, Any]:
    result: dict[str, Any] = {
        "text": cut(each.text, bounds.text),
        "source": each.source,
        "selector": each.selector,
        "of": each.of,
        "rejects": each.rejects,
        "only": each.only,
    }
    if each.errors:
        result["errors"] = each.errors
    if each.best is not None:
        result["best"] = each.best
    return result


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def most_first(counts: Iterable[tuple[str, int]]) -> Tally:
    """By count, then by text."""
    return tuple(sorted(counts, key=lambda item: (-item[1], item[0])))


def counted(count: int, noun: str) -> str:
    """ "1 device", "2 devices", "0 classes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def on_nodes(names: Sequence[str]) -> str:
    """ "node a", "nodes a, b"."""
    return f"node{'' if len(names) == 1 else 's'} {listed(names)}"


def listed(names: Sequence[str], shown: int = 4) -> str:
    """ "a, b, c, d and 3 more"."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
