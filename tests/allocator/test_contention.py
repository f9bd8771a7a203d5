"""Devices that others want are left to those who need them: how much less they count, and where claims go for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from dra_operator.allocator import Demand, Expected, Problem, Solved, solve
from dra_operator.allocator.contention import Contention, Share, Stake
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.inventory.trail import Trail
from dra_operator.inventory.views import View

DRIVER = "d.example.com"

G, T = (View(number, (), (), False) for number in range(2))
#: Position masks: GPUs, the first two of them, and network cards.
GPUS, TWO, NICS = 0b1111, 0b0011, 0b110000


def any_gpu(weight: float) -> Stake:
    return Stake(weight, {G: Share(GPUS, 40.0), T: Share(GPUS, 10.0)})


def only_t(weight: float, positions: int = GPUS) -> Stake:
    return Stake(weight, {T: Share(positions, 10.0)})


def only_g(weight: float) -> Stake:
    return Stake(weight, {G: Share(GPUS, 40.0)})


@pytest.mark.parametrize(
    ("stakes", "unknown", "on_g", "on_t"),
    [
        pytest.param([], 1.0, 1.0, 1.0, id="nothing is wanted"),
        pytest.param([any_gpu(1.0)], 0.0, 1.0, 1.0, id="all are wanted alike"),
        # The 50 devices are wanted by 1/50 of all claims each; t by 0.6 of them, g by 0.4.
        pytest.param([any_gpu(0.5), only_t(0.5)], 0.0, 2.0, 1 / 3, id="t is wanted by those who want nothing else"),
        pytest.param([any_gpu(0.5), only_t(0.25), only_t(0.25)], 0.0, 2.0, 1 / 3, id="in two kinds as in one"),
        pytest.param([any_gpu(0.5), only_t(0.5, TWO)], 0.0, 2.0, 1 / 3, id="some of the devices that others want"),
        pytest.param([any_gpu(0.5), only_t(0.5)], 1.0, 4 / 3, 1 / 2, id="half as sure as long as as much is unknown"),
        pytest.param([only_g(0.5), only_t(0.5)], 0.0, 1.0, 1.0, id="nobody could take either"),
        pytest.param([any_gpu(0.5), only_t(0.5, NICS)], 0.0, 1.0, 1.0, id="other devices of the same nodes"),
        pytest.param([Stake(1.0, {T: Share(GPUS, 0.0)})], 0.0, 1.0, 1.0, id="nothing is left"),
    ],
)
def test_what_is_wanted_more_than_the_average_counts_less(
    stakes: list[Stake], unknown: float, on_g: float, on_t: float
) -> None:
    contention = Contention(stakes, unknown)
    assert contention.ease(G, GPUS) == pytest.approx(on_g)
    assert contention.ease(T, GPUS) == pytest.approx(on_t)


class Wish(NamedTuple):
    """A claim for some hundredths of one device, of model t only or of any, and the CPU taken beside it."""

    milli: int
    t: bool
    cpu: int


HALF_T, T_WHOLE = Wish(50, True, 8), Wish(100, True, 8)
HALF, WHOLE = Wish(50, False, 14), Wish(100, False, 8)


class Ledger:
    """CPU and memory by node, as `Rooms` wants it."""

    def __init__(self) -> None:
        self.rooms = {"g0": (48, 48), "g1": (48, 48), "t": (104, 104)}
        self.changes = Trail[str]()

    def room(self, node: str) -> tuple[int, int]:
        return self.rooms[node]


def cluster() -> tuple[Inventory, Ledger]:
    """Two nodes with four devices of model g, 12 CPUs for each, and one with two of model t and plenty of CPU."""
    inventory, ledger = Inventory(), Ledger()
    inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
    for name in ledger.rooms:
        devices = [
            {
                "name": f"d{at}",
                "allowMultipleAllocations": True,
                "attributes": {"model": {"string": name[0]}},
                "capacity": {"milli": {"value": "100"}},
            }
            for at in range(2 if name == "t" else 4)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        inventory.apply_node(Node.from_dict({"metadata": {"name": name}}))
        inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec}))
    return inventory, ledger


def claim(wish: Wish, number: int) -> ResourceClaim:
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "capacity": {"requests": {"milli": str(wish.milli)}}}
    if wish.t:
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "t"'}}]
    metadata = {"name": f"c{number}", "namespace": "default", "uid": f"u{number}"}
    requests = [{"name": "r", "exactly": exactly}]
    return ResourceClaim.from_dict({"metadata": metadata, "spec": {"devices": {"requests": requests}}})


@pytest.mark.parametrize(
    ("for_t", "arriving", "on"),
    [
        pytest.param(
            0.4,
            [HALF_T, HALF, HALF_T, T_WHOLE],
            ["t", "g0", "t", "t"],
            id="two of five claims need t: the half of it that is left is kept for them, so that the other device stays whole",
        ),
        pytest.param(
            0.1,
            [HALF_T, HALF],
            ["t", "t"],
            id="few need it: who takes the CPU of two devices takes the half that is left where there is CPU",
        ),
    ],
)
def test_a_scarce_model_is_kept_for_those_who_need_it(for_t: float, arriving: list[Wish], on: list[str | None]) -> None:
    inventory, ledger = cluster()
    demand = Demand(
        tuple(
            Expected(claim(wish, 0).spec, weight, (wish.cpu, 1))
            for wish, weight in (
                (T_WHOLE, 0.7 * for_t),
                (HALF_T, 0.3 * for_t),
                (WHOLE, 0.7 * (1 - for_t)),
                (HALF, 0.3 * (1 - for_t)),
            )
        ),
        1_000.0,
    )
    nodes: list[str | None] = []
    for number, wish in enumerate(arriving, 1):
        item, beside = claim(wish, number), (wish.cpu, 1)
        answer = solve(Problem((item,), rooms=ledger, beside=beside, demand=demand), inventory.snapshot())
        nodes.append(answer.node if isinstance(answer, Solved) else None)
        if isinstance(answer, Solved) and answer.node is not None:
            inventory.use(item.meta.uid, answer.allocations[0])
            cpu, memory = ledger.rooms[answer.node]
            ledger.rooms[answer.node] = cpu - wish.cpu, memory - 1
            ledger.changes.note(answer.node)
    assert nodes == on
