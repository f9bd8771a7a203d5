"""Drafts: the unit's problem with something changed. Values only; `bench` finds out whether the unit then fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dra_operator.allocator import Problem
from dra_operator.allocator.joint import JointProblem
from dra_operator.allocator.plan import Way
from dra_operator.api.claims import ClaimSpec, DeviceClass, RequestDetail
from dra_operator.api.core import Pod
from dra_operator.explain.explanation import Edit
from dra_operator.explain.situation import NONE_GONE


@dataclass(frozen=True, slots=True)
class Draft:
    """`classes`: those that are changed or new. `released`: UIDs of claims taken as free, `gone`: UIDs of pods taken as gone.

    `another_node`: on one more node like one of those there are, empty. `uncordoned`: nodes taken as open. `edits`: what was
    changed that is neither in a claim nor in a class. Of a gang: `pods` that are changed, by member, `joint` where what ties the
    members together is changed, and `least` where it needs fewer members (0: where they need not be a gang).
    """

    problem: Problem
    pod: Pod | None
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    gone: frozenset[str] = NONE_GONE
    another_node: bool = False
    uncordoned: frozenset[str] = frozenset()
    edits: tuple[Edit, ...] = ()
    pods: Mapping[int, Pod] = field(default_factory=dict)
    joint: JointProblem | None = None
    least: int | None = None

    @property
    def helps_others(self) -> bool:
        """Does it change what there is, and not only what the unit asks for? Then those before it are served first."""
        return bool(self.released or self.classes or self.uncordoned or self.another_node)

    def with_spec(self, claim: int, spec: ClaimSpec) -> Draft:
        claims = list(self.problem.claims)
        claims[claim] = replace(claims[claim], spec=spec)
        return replace(self, problem=replace(self.problem, claims=tuple(claims)))

    def spec(self, claim: int) -> ClaimSpec:
        return self.problem.claims[claim].spec


#: A change; None where there is nothing to change.
Apply = Callable[[Draft], Draft | None]


def with_detail(way: Way, change: Callable[[RequestDetail], RequestDetail | None]) -> Apply:
    """Change one request, or one alternative of it."""

    def apply(draft: Draft) -> Draft | None:
        spec = draft.spec(way.claim)
        at = request_index(spec, way)
        requests = list(spec.requests)
        old = requests[at]
        changed = change(old.details[way.sub])
        if changed is None:
            return None
        if old.exactly is not None:
            requests[at] = replace(old, exactly=changed)
        else:
            ways = list(old.first_available)
            ways[way.sub] = changed
            requests[at] = replace(old, first_available=tuple(ways))
        return draft.with_spec(way.claim, replace(spec, requests=tuple(requests)))

    return apply


def request_index(spec: ClaimSpec, way: Way) -> int:
    """Where the way's request stands in its claim."""
    name = way.name.partition("/")[0]
    return next(index for index, request in enumerate(spec.requests) if request.name == name)


def both(first: Apply, second: Apply) -> Apply:
    """One change after the other."""

    def apply(draft: Draft) -> Draft | None:
        changed = first(draft)
        return None if changed is None else second(changed)

    return apply
