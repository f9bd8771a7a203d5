"""What came of trying to place a unit: values."""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.summary import Blocker

Pairs = tuple[tuple[SeenClaim, Allocation], ...]


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """One pod (None: a bare claim) of a unit: its node, and the claims allocated with it."""

    pod: Pod | None
    node: str | None
    allocations: Pairs


@dataclass(frozen=True, slots=True)
class Placed:
    """`allocations` pairs each unallocated claim with its allocation, in the unit's order. `members`: of a unit with several pods;
    then `node` is None."""

    node: str | None
    allocations: Pairs
    warnings: tuple[str, ...] = ()
    members: tuple[MemberPlace, ...] = ()

    def places(self, pod: Pod | None) -> tuple[MemberPlace, ...]:
        """By member; `pod` is that of a unit of one."""
        return self.members or (MemberPlace(pod, self.node, self.allocations),)


@dataclass(frozen=True, slots=True)
class Blocked:
    """`impossible`: it would not fit on the empty cluster either. `avoiding`: nodes left out because a placement failed there."""

    blocker: Blocker
    impossible: bool = False
    avoiding: tuple[str, ...] = ()
