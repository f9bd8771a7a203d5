"""What the allocator is asked and what it answers: values only, no search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from dra_operator.api.claims import Allocation, ClaimSpec, ResourceClaim
from dra_operator.api.records import record
from dra_operator.inventory import DeviceId
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.trail import Trail

#: Steps of the search one `solve` may take, over all nodes: some seconds.
WORK_BUDGET = 200_000


class Strategy(StrEnum):
    """Which of several solutions is taken. None of them changes what is solvable.

    FirstFit: the first node in the order given, the devices the in-tree allocator takes. Pack: the node with the fewest free
    devices of those asked for. Spread: the one with the most. Fragmentation: where the least of the expected demand stops fitting.
    """

    FirstFit = "FirstFit"
    Pack = "Pack"
    Spread = "Spread"
    Fragmentation = "Fragmentation"


@dataclass(frozen=True, slots=True)
class UnitConstraint:
    """A constraint across the claims of a unit (pod annotation `dra-operator.dev/constraints`).

    `members`: (index into the problem's claims, request or "request/subrequest"); empty = all requests of all claims.
    `attributes`: fully qualified names, the first that a device has counts; further ones are aliases of the first.
    A preferred constraint (`required` False) never makes a problem unsolvable; of several, more `weight` counts more.
    """

    members: tuple[tuple[int, str], ...]
    attributes: tuple[str, ...]
    distinct: bool = False
    required: bool = True
    weight: int = 1


#: CPU in thousandths of a core, and memory in bytes.
Room = tuple[int, int]


class Rooms(Protocol):
    """What nodes have left beside their devices. `changes`: nodes of which it may be another than before."""

    changes: Trail[str]

    def room(self, node: str) -> Room:
        """What nobody on the node has asked for."""


class Expected(NamedTuple):
    """A kind of claim: how often it is asked for, and what the pods that ask for it take beside its devices."""

    spec: ClaimSpec
    weight: float
    beside: Room = (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What is expected to be asked for next, for Fragmentation: kinds of claims. Compared by identity: keep one object
    as long as it holds, since answers are remembered with it. `evidence`: how many claims it was drawn from; the more, the less is
    thought of what is usual elsewhere."""

    items: tuple[Expected, ...] = ()
    evidence: float = 0.0


class Bar(Protocol):
    """Devices that a claim must not get, by kind. Compared by identity: keep one object as long as it holds."""

    def bars(self, kind: Kind) -> bool:
        """Must a device of this kind be left out?"""


@record
class Problem:
    """Claims to be allocated together, all or nothing, on one node.

    `claims`: unallocated, in pod order. `nodes`: candidates in the order given (None: every known node, by name).
    `fits`: asked lazily whether the unit may run on a node; answers must not change during the call.
    `needs_node` False: a bare claim, whose devices must be reachable from some node.
    `forbidden`: devices held or reserved for others (admin access does not mind). Keep one object as long as it holds.
    `barred`: what single claims (by index) must not get; unlike forbidden devices these count as free. It does not concern requests
    for admin access or with mode All.
    `cost`: what choosing a node costs others, 0 = nothing; smaller is better, after the hard preferences.
    `wish`: how welcome a node is, from 0 to `wish_most`; counts with the weights of preferred constraints.
    `rooms`: what is left on nodes beside their devices, of which the unit takes `beside`. Fragmentation counts with it what still fits.
    `admin_access`: may claims of this namespace ask for admin access? (None: all, the API server has checked.)
    `ignore_usage`: as if nothing was allocated. `seed` goes into share IDs, which are the same for the same input.
    """

    claims: tuple[ResourceClaim, ...]
    nodes: Sequence[str] | None = None
    fits: Callable[[str], bool] | None = None
    needs_node: bool = True
    strategy: Strategy = Strategy.Fragmentation
    forbidden: frozenset[DeviceId] = frozenset()
    barred: tuple[tuple[int, Bar], ...] = ()
    cost: Callable[[str], float] | None = None
    wish: Callable[[str], float] | None = None
    wish_most: float = 0.0
    rooms: Rooms | None = None
    beside: Room = (0, 0)
    constraints: tuple[UnitConstraint, ...] = ()
    demand: Demand | None = None
    admin_access: Callable[[str], bool] | None = None
    ignore_usage: bool = False
    work_budget: int = WORK_BUDGET
    seed: str = ""


@dataclass(frozen=True, slots=True)
class SelectorWarning:
    """A selector that failed on a device, which was left out for it; `selector` is -1 where the device's capacity was to blame."""

    claim: str
    request: str
    device_class: str | None
    selector: int
    device: DeviceId
    message: str

    def __str__(self) -> str:
        if self.selector < 0:
            return f"claim {self.claim}, request {self.request}: checking device {self.device}: {self.message}"
        source = f"class {self.device_class}" if self.device_class is not None else f"claim {self.claim}"
        return f"{source}: selector #{self.selector} on device {self.device}: {self.message}"


@record
class Solved:
    """`allocations`: one a claim, in order, without a timestamp. `node` is None where the devices are reachable from anywhere."""

    node: str | None
    allocations: tuple[Allocation, ...]
    warnings: tuple[SelectorWarning, ...] = ()


@dataclass(slots=True)
class RequestStats:
    """How many of the devices seen for one request (or subrequest) fell out, and where.

    A device is counted at the first step that rejects it. `class_selectors` and `request_selectors`: by selector index.
    `available`: passed everything that concerns it alone; if the request failed all the same, `counters`, `capacity` and
    `constraint` say what kept these from being combined.
    """

    claim: int
    request: str
    device_class: str
    wanted: int | None
    seen: int = 0
    class_selectors: dict[int, int] = field(default_factory=dict)
    request_selectors: dict[int, int] = field(default_factory=dict)
    selector_errors: int = 0
    node: int = 0
    unsupported: int = 0
    allocated: int = 0
    held: int = 0
    tainted: int = 0
    counters: int = 0
    capacity: int = 0
    constraint: int = 0
    available: int = 0
    most_on_a_node: int = 0


@dataclass(frozen=True, slots=True)
class Unsolved:
    """No solution on this snapshot. `nodes_tried` had devices looked at; `nodes_excluded` were not candidates or did not fit.

    `pools`: pools that could not be used, with the reason. `warnings`: selectors that failed on devices.
    """

    requests: tuple[RequestStats, ...] = ()
    nodes_tried: int = 0
    nodes_excluded: int = 0
    pools: tuple[str, ...] = ()
    warnings: tuple[SelectorWarning, ...] = ()


FailureKind = Literal["claim", "class", "selector", "capacity", "constraint", "pool", "limit", "budget"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The problem cannot be solved as it is written (or, kind "budget", not within the work budget).

    `message` names the object and the repair. `claim` is "namespace/name", `selector` an index into the class's or claim's selectors.
    """

    kind: FailureKind
    message: str
    claim: str | None = None
    request: str | None = None
    device_class: str | None = None
    selector: int | None = None
    constraint: int | None = None
    device: DeviceId | None = None

    @property
    def reason(self) -> str | None:
        """The reason to report, where there is a word for it."""
        return "SearchBudgetExceeded" if self.kind == "budget" else None


Result = Solved | Unsolved | Failed
