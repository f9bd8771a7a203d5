"""Long masks: the same answers as bit by bit, also for thousands of devices in the network."""

from __future__ import annotations

from random import Random

import pytest

from dra_operator.allocator import Problem, Result, Solved, Unsolved, masks, solve
from dra_operator.allocator.masks import SHORT, Renumbering, bits_of, lowest, mask_of
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import DeviceId, Inventory
from tests.engine.stage import GPU, claim, device_class, gpus, node


@pytest.mark.parametrize("bits", [0, 1, 5, SHORT, SHORT + 1, 1000])
def test_a_renumbered_mask_is_that_of_the_renumbered_bits(bits: int) -> None:
    random = Random(bits)
    order = random.sample(range(bits + 50), bits)
    chosen = [bit for bit in range(bits) if random.random() < 0.5]
    renumbering = Renumbering(order, bits + 50)
    assert renumbering.of(sum(1 << bit for bit in chosen)) == sum(1 << order[bit] for bit in chosen)


@pytest.mark.parametrize("bits", [5, SHORT + 1, 1000])
def test_masks_that_differ_by_little_are_renumbered_from_one_another(bits: int) -> None:
    random = Random(bits)
    order = random.sample(range(bits), bits)
    renumbering = Renumbering(order, bits)
    chosen: set[int] = set()
    for changes in [1, 3, 200, 2, 2, 0, 500, 20, 1, 1]:
        chosen ^= {random.randrange(bits) for _ in range(changes)}
        assert renumbering.of(sum(1 << bit for bit in chosen)) == sum(1 << order[bit] for bit in chosen)


@pytest.mark.parametrize("width", [300, SHORT])
@pytest.mark.parametrize("bits", [(), (0,), (0, 255), (7, 8, 150)])
def test_a_mask_has_the_bits_it_was_made_of(bits: tuple[int, ...], width: int) -> None:
    assert mask_of(bits, width) == sum(1 << bit for bit in bits)
    assert bits_of(mask_of(bits, width)) == list(bits)
    assert [lowest(mask_of(bits, width), count) for count in (0, 2, 400)] == [(), bits[:2], bits]
    above = 1 << 400
    assert bits_of(above | mask_of(bits, width)) == [*bits, 400]


def network(nodes: int, devices: int) -> Inventory:
    """Pools of 100 devices that every node sees, of two models."""
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict(device_class()))
    for number in range(nodes):
        inventory.apply_node(Node.from_dict(node(f"n{number}")))
    for number in range(devices // 100):
        item = gpus(f"pool-{number}", 100, model="ab"[number % 2])
        del item["spec"]["nodeName"]
        inventory.apply_slice(ResourceSlice.from_dict({**item, "spec": {**item["spec"], "allNodes": True}}))
    return inventory


def play(seed: int) -> list[Result]:
    random, inventory = Random(seed), network(3, 600)
    forbidden = frozenset(DeviceId(GPU, f"pool-{number % 6}", f"gpu-{number % 100}") for number in range(0, 90, 7))
    answers, living = [], []
    for number in range(120):
        model = random.choice((None, "a", "b"))
        selector = None if model is None else f'device.attributes["{GPU}"].model == "{model}"'
        item = ResourceClaim.from_dict(claim(f"c{number}", random.choice((1, 2, 9, 31)), selector=selector))
        kept = forbidden if random.random() < 0.3 else frozenset[DeviceId]()
        answer = solve(Problem((item,), forbidden=kept), inventory.snapshot())
        answers.append(answer)
        if isinstance(answer, Solved):
            living.append(f"u{number}")
            inventory.use(f"u{number}", answer.allocations[0])
        if living and random.random() < 0.2:
            inventory.release(living.pop(random.randrange(len(living))))
    return answers


@pytest.mark.parametrize("seed", range(3))
def test_devices_in_the_network_are_given_out_as_device_by_device(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = play(seed)
    monkeypatch.setattr(masks, "SHORT", 1_000_000)
    assert play(seed) == quick
    assert {type(answer) for answer in quick} == {Solved, Unsolved}


def test_nodes_that_see_the_same_pools_share_what_they_see() -> None:
    """Work: nodes times devices in the network would be too much to look at, and to keep."""
    inventory = network(20, 300)
    inventory.snapshot()
    records = [inventory.nodes[f"n{number}"] for number in range(20)]
    assert all(record.offers is records[0].offers and record.view is records[0].view for record in records)
    inventory.apply_slice(ResourceSlice.from_dict(gpus("n7", 2, model="own")))
    inventory.snapshot()
    assert len(records[7].offers) == 302
    assert len(records[8].offers) == 300
    inventory.apply_node(Node.from_dict(node("late")))
    inventory.snapshot()
    assert inventory.nodes["late"].view is records[0].view
