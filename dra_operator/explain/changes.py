"""Changes worth trying, from the cheapest kind to the dearest, and what they are proposed from.

Proposals only, made from what the look at the inventory counted; whether one helps is found out by `fixes`. They are made in
`selectorchanges`, `devicechanges`, `constraintchanges`, `podchanges` and `releases`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dra_operator.allocator.plan import Way
from dra_operator.allocator.selection import Outcome
from dra_operator.api.quantity import Quantity
from dra_operator.explain.conjuncts import Terms
from dra_operator.explain.drafts import Apply
from dra_operator.explain.looking import Look
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
    "budget",  # change what a policy allows
    "free",  # free claims of others
    "new node",
)
#: Values tried for one bound, counts for one request, and so on.
TRIED = 3


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


class Asked:
    """What a unit asks for beside what there is: the ground of all proposals. `terms`: by way, what the terms of its selectors say.

    `learn`: may attributes be compared that nobody compares so far?
    """

    def __init__(self, look: Look, terms: list[Terms], kinds: Counter[Kind], *, learn: bool) -> None:
        self.look, self.terms, self.kinds, self.learn = look, terms, kinds, learn
        self.claims = look.situation.problem.claims
        self._several = len(self.claims) > 1

    @cached_property
    def outcomes(self) -> list[Mapping[Kind, Outcome]]:
        """By way, what its selectors say of each kind."""
        return [
            {kind: way.filter.judge(kind) if kind.seq < 0 else way.filter.outcome(kind) for kind in self.kinds}
            for way in self.look.plan.ways
        ]

    def accepted(self, way: Way) -> list[Kind]:
        return [kind for kind, outcome in self.outcomes[way.index].items() if outcome is None]

    @cached_property
    def ways(self) -> list[Way]:
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
        return f"request {way.name}{self.whose(way.claim)}"

    def whose(self, claim: int) -> str:
        """ " of claim x" where there are several."""
        return f" of claim {self.claims[claim].meta.name}" if self._several else ""


def distance(bound: Any, value: Any) -> float:
    """How far a value is from a bound, as a share of it; 1 where that means nothing."""
    if isinstance(bound, Quantity) and isinstance(value, Quantity):
        return abs(bound.nano - value.nano) / max(abs(bound.nano), 1)
    if isinstance(bound, int | float) and isinstance(value, int | float):
        return abs(bound - value) / max(abs(bound), 1)
    return 1.0
