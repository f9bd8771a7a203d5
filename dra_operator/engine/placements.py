"""What came of trying to place a unit: values, and what the unit is told where it cannot be placed as it is written."""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.allocator import Failed
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.summary import Blocker, blocker_of_failure

#: The reason of who waits for a class that is about to be made.
CLASS_PENDING = "ClassPending"

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


def failure(failed: Failed, state: State) -> Blocker:
    """Why claims cannot be placed as they are written; those of a class that is being made only have to wait."""
    name = failed.device_class
    if failed.kind == "class" and name in state.coming_classes:
        return Blocker(CLASS_PENDING, f"DeviceClass {name} is being made for its NetworkDeviceClass")
    return blocker_of_failure(failed, state.unmade_classes)
