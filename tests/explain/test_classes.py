"""What is counted of a class: kept up with changes, it is what counting anew gives, and costs what changed."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.explain import classes
from dra_operator.explain.classes import ClassCounts
from dra_operator.inventory import Inventory
from tests.engine.stage import GPU, device_class, gpus, node
from tests.inventory.test_incremental import World

NODES, DEVICES = 50, 8


def counted(inventory: Inventory, counts: ClassCounts) -> dict[str, Any]:
    return {name: (counts.of(name), sorted(counts.free(name))) for name in sorted(inventory.classes)}


@pytest.mark.parametrize("seed", range(40))
def test_after_any_changes_the_numbers_are_those_of_counting_anew(seed: int) -> None:
    world = World(seed)
    kept = ClassCounts(world.live)
    for _ in range(60):
        world.step()
        found = counted(world.live, kept)
        assert found == counted(world.live, ClassCounts(world.live))
        for count, free in found.values():
            assert count.free == len(free)


def cluster() -> Inventory:
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict(device_class()))
    for number in range(NODES):
        inventory.apply_node(Node.from_dict(node(f"n{number:02}")))
        inventory.apply_slice(ResourceSlice.from_dict(gpus(f"n{number:02}", DEVICES)))
    return inventory


def take(inventory: Inventory, uid: str, *devices: str) -> None:
    found = [
        {"request": "r", "driver": GPU, "pool": device.split("/")[0], "device": device.split("/")[1]}
        for device in devices
    ]
    inventory.use(uid, Allocation(results=tuple(map(DeviceResult.from_dict, found))))


def test_groups_and_fragmentation() -> None:
    inventory = cluster()
    counts = ClassCounts(inventory)
    assert (counts.of("gpu").largest_free_group, counts.of("gpu").fragmentation) == (8, 0)
    for number in range(NODES):
        take(inventory, f"u{number}", f"n{number:02}/gpu-0")
    count = counts.of("gpu")
    assert (count.total, count.allocated, count.free) == (400, 50, 350)
    assert (count.largest_free_group, count.fragmentation) == (7, 100)
    inventory.release("u7")
    count = counts.of("gpu")
    assert (count.largest_free_group, count.fragmentation) == (8, round(100 * 343 / 351))


class Work:
    """Devices of which the class, or the use, was looked at."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.matched = self.used = 0
        bind, users = classes.bind_device, Inventory.users

        def bound(*args: Any) -> Any:
            self.matched += 1
            return bind(*args)

        def looked_up(inventory: Inventory, device: Any) -> Any:
            self.used += 1
            return users(inventory, device)

        patch.setattr(classes, "bind_device", bound)
        patch.setattr(Inventory, "users", looked_up)

    def since(self) -> tuple[int, int]:
        done = self.matched, self.used
        self.matched = self.used = 0
        return done


def test_counting_again_costs_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = cluster()
    counts, work = ClassCounts(inventory), Work(monkeypatch)
    counts.of("gpu")
    assert work.since() == (NODES * DEVICES, NODES * DEVICES)
    counts.of("gpu")
    assert work.since() == (0, 0)
    take(inventory, "u", "n03/gpu-1", "n03/gpu-2")
    counts.of("gpu")
    assert work.since() == (0, DEVICES), "one pool, and what it has of the class is known"
    inventory.apply_slice(ResourceSlice.from_dict(gpus("n05", DEVICES, model="other")))
    counts.of("gpu")
    assert work.since() == (DEVICES, DEVICES)
    inventory.apply_class(DeviceClass.from_dict(device_class("other")))
    counts.of("gpu")
    assert work.since() == (0, 0)
