"""Quotas and reservations as accounts: what counts, what is left, what an allocation would leave free."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest

from dra_operator.api.claims import Allocation
from dra_operator.api.policy import AllocationPolicy
from dra_operator.api.quantity import Quantity
from dra_operator.inventory import Inventory
from dra_operator.queue.asking import Asking
from dra_operator.queue.barring import Bars
from dra_operator.queue.budgets import DEVICES, Draw, Tallies, draw_of
from dra_operator.queue.freedevices import FreeDevices, shortfall
from dra_operator.queue.policies import selects
from dra_operator.queue.validity import flaw_of_entry, flaw_of_size
from tests.queue.worlds import (
    GPU,
    NIC,
    Object,
    budget,
    claim,
    device,
    exactly,
    first_of,
    got,
    inventory,
    published,
    size,
    spec,
)

GIB = Quantity.parse("1Gi").nano


# -- what an allocation takes of a budget

SHARE = {"shareID": "7b9d2c4e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "10Gi"}}
BIG = [{"cel": {"expression": f"device.attributes['{GPU}'].?big.orValue(false)"}}]


@pytest.mark.parametrize(
    ("why", "entry", "of", "allocation", "devices", "memory"),
    [
        ("asked for by the class itself", {}, "gpu", got("r0:n1/d0"), ["n1/d0"], 0),
        ("asked for by a broader class", {}, "any", got("r0:n1/d0"), ["n1/d0"], 0),
        ("of another class", {"deviceClassName": "nic"}, "gpu", got("r0:n1/d0"), [], 0),
        ("matched by the selectors", {"selectors": BIG}, "gpu", got("r0:n1/d2"), ["n1/d2"], 0),
        ("not matched by the selectors", {"selectors": BIG}, "gpu", got("r0:n1/d0"), [], 0),
        ("admin access", {}, "gpu", got("r0:n1/d0", adminAccess=True), [], 0),
        ("two shares of one device", {}, "gpu", got("r0:n1/d1", "r0:n1/d1", **SHARE), ["n1/d1"], 0),
        ("a whole device, in capacity", {"capacity": {"memory": "1Gi"}}, "gpu", got("r0:n1/d0"), ["n1/d0"], 40),
        ("by its full name", {"capacity": {f"{GPU}/memory": "1Gi"}}, "gpu", got("r0:n1/d0"), ["n1/d0"], 40),
        (
            "shares, in capacity",
            {"capacity": {"memory": "1Gi"}},
            "gpu",
            got("r0:n1/d1", "r0:n1/d1", **SHARE),
            ["n1/d1"],
            20,
        ),
        ("a capacity it does not have", {"capacity": {"cores": "1"}}, "gpu", got("r0:n1/d0"), ["n1/d0"], 0),
        ("nobody publishes it any more", {}, "gpu", got("r0:n1/gone"), ["n1/gone"], 0),
        ("… asked for by another class", {}, "any", got("r0:n1/gone"), [], 0),
        ("… and of part of the class", {"selectors": BIG}, "gpu", got("r0:n1/gone"), [], 0),
    ],
)
def test_what_counts(why: str, entry: Object, of: str, allocation: Allocation, devices: list[str], memory: int) -> None:
    big = {**size("80Gi"), "attributes": {"big": {"bool": True}}}
    world = inventory(published("n1", size("40Gi"), size("80Gi", shared=True), big))
    counted = budget(world, **{"of": entry.pop("deviceClassName", "gpu"), **entry})
    draw = draw_of(counted, spec(exactly(of)), allocation, world)
    assert draw.devices == {device(text) for text in devices}, why
    assert sum(draw.capacity.values()) == memory * GIB, why


def test_an_alternative_counts_by_the_class_that_was_chosen() -> None:
    world = inventory()
    asked = spec(first_of(exactly("nic"), exactly("gpu")))
    for request, counts in (("r0/s1", True), ("r0/s0", False)):
        draw = draw_of(budget(world), asked, got(f"{request}:n1/gone"), world)
        assert bool(draw.devices) == counts


def test_tallies_follow_claims() -> None:
    world = inventory(published("n1", 3))
    counted = budget(world)
    tallies, scope = Tallies(), counted.scope("a")
    one, both = Draw(frozenset({device("n1/d0")})), Draw(frozenset({device("n1/d0"), device("n1/d1")}))
    assert tallies.put("x", {scope: both}) == set()
    assert tallies.put("y", {scope: one}) == set()  # a shared device counts once
    assert tallies.of(scope).amounts(counted) == {DEVICES: 2}
    assert tallies.put("x", {scope: one}) == {scope}
    assert tallies.of(scope).amounts(counted) == {DEVICES: 1}
    assert tallies.put("x", {}) == {scope}
    assert tallies.of(scope).amounts(counted) == {DEVICES: 1}
    assert tallies.put("y", {counted.scope("b"): one}) == {scope}
    assert tallies.of(scope).amounts(counted) == {DEVICES: 0}
    assert tallies.put_plugin({scope: 2}) == set()
    assert tallies.put_plugin({scope: 1}) == {scope}
    assert tallies.of(scope).amounts(counted) == {DEVICES: 1}


# -- the least a unit takes


@pytest.mark.parametrize(
    ("why", "entry", "request_", "least"),
    [
        ("the class itself", {}, exactly("gpu", 3), 3),
        ("another class", {}, exactly("nic", 3), 0),
        ("a class with other devices as well", {}, exactly("any", 2), 0),
        ("narrowed to devices of the class", {}, exactly("any", 2, selectors=[{"cel": {"expression": f"device.driver == '{GPU}'"}}]), 2),
        ("an alternative", {}, first_of(exactly("gpu", 4), exactly("nic", 1)), 0),
        ("the cheapest alternative", {}, first_of(exactly("gpu", 4), exactly("gpu", 2)), 2),
        ("all of a node: one at the least", {}, exactly("gpu", allocationMode="All"), 1),
        ("admin access", {}, exactly("gpu", 2, adminAccess=True), 0),
        ("a part of the class", {"selectors": [{"cel": {"expression": f"device.capacity['{GPU}'].memory.isGreaterThan(quantity('50Gi'))"}}]}, exactly("gpu"), 0),
        ("the smallest, in capacity", {"capacity": {"memory": "1Gi"}}, exactly("gpu", 2), 80 * GIB),
        ("the smallest that will do", {"capacity": {"memory": "1Gi"}},
         exactly("gpu", selectors=[{"cel": {"expression": f"device.capacity['{GPU}'].memory.isGreaterThan(quantity('50Gi'))"}}]), 80 * GIB),
    ],
)  # fmt: skip
def test_the_least_that_is_taken(why: str, entry: Object, request_: Object, least: int) -> None:
    nics = published("n1", 2, driver=NIC)
    world = inventory(published("n1", size("40Gi"), size("80Gi"), size("80Gi")), nics)
    counted = budget(world, **entry)
    assert sum(Asking(world).least(counted, [claim(request_)], {0}).values()) == least, why
    assert sum(Asking(world).least(counted, [claim(request_)], ()).values()) == 0, why


def test_shares_take_what_is_asked_of_them_and_maybe_no_further_device() -> None:
    world = inventory(published("n1", size("80Gi", shared=True)))
    request = exactly("gpu", capacity={"requests": {"memory": "10Gi"}})
    assert Asking(world).least(budget(world), [claim(request)], {0}) == {DEVICES: 0}
    assert Asking(world).least(budget(world, capacity={"memory": "1Gi"}), [claim(request)], {0}) == {"memory": 10 * GIB}


def test_claims_that_cannot_be_planned_take_nothing() -> None:
    world = inventory(published("n1", 1))
    assert Asking(world).least(budget(world), [claim(exactly("unknown"))], {0}) == {DEVICES: 0}


# -- free devices


def brute(kept: list[int], free: dict[int, int]) -> int:
    """Deal the devices out in every way."""
    devices = [mask for mask, count in free.items() for _ in range(count)]
    best = 0
    for owners in product([None, *range(len(kept))], repeat=len(devices)):
        if all(owner is None or mask >> owner & 1 for owner, mask in zip(owners, devices, strict=True)):
            served = Counter(owner for owner in owners if owner is not None)
            best = max(best, sum(min(kept[number], count) for number, count in served.items()))
    return sum(kept) - best


@pytest.mark.parametrize("seed", range(60))
def test_reservations_do_not_share_devices(seed: int) -> None:
    random_ = random.Random(seed)
    kept = [random_.randint(0, 3) for _ in range(random_.randint(1, 3))]
    free = {mask: random_.randint(0, 2) for mask in range(1, 1 << len(kept)) if random_.random() < 0.6}
    assert shortfall(kept, free) == brute(kept, free)


PARTED = [
    {
        "consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": "7"}}}],
        "attributes": {"kind": {"string": "whole"}},
    },
    *[
        {
            "consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": "2"}}}],
            "attributes": {"kind": {"string": "part"}},
        }
        for _ in range(3)
    ],
]


def parted(node: str) -> list[Object]:
    """A device of seven slots, and three parts of two slots each."""
    counters = published(node, slice_count=2, sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "7"}}}])
    counters["metadata"]["name"] += "-counters"
    del counters["spec"]["devices"]
    return [published(node, *PARTED, slice_count=2), counters]


PART = {"part": f"device.attributes['{GPU}'].?kind.orValue('') == 'part'"}


def free_of(world: Inventory, *reserves: Any, plugged: Any = None, cordoned: tuple[str, ...] = ()) -> FreeDevices:
    found = FreeDevices(world)
    found.rebuild(reserves, lambda node: node not in cordoned, plugged or {})
    return found


def test_free_is_published_untainted_reachable_unused() -> None:
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "n1", "device": "d0"}, "taint": {"key": "x", "effect": "NoSchedule"}},
    }
    world = inventory(published("n1", 3), published("n2", 2), rules=(rule,))
    reserve = budget(world, reserve=True)
    assert free_of(world, reserve).free() == {1: 4}
    assert free_of(world, reserve, cordoned=("n2",)).free() == {1: 2}
    assert free_of(world, reserve, plugged={"n2": {0: 1}}).free() == {1: 3}
    assert free_of(world, reserve, plugged={"n2": {0: 5}}).free() == {1: 2}
    world.use("x", got("r0:n1/d1"))
    assert free_of(world, reserve).free() == {1: 3}
    world.use("y", got("r0:n2/d1"))
    assert free_of(world, reserve, cordoned=("n2",)).free() == {1: 1}


def test_devices_of_several_nodes_count_once() -> None:
    fabric = published("pool", 2, allNodes=True)
    world = inventory(fabric)
    assert free_of(world, budget(world, reserve=True)).free() == {1: 2}


def test_a_device_without_its_counters_is_not_free() -> None:
    world = inventory(*parted("n1"), classes=PART)
    parts = budget(world, "part", reserve=True)
    free = free_of(world, parts)
    assert free.free() == {1: 3}
    assert free.after(free.free(), without=(), taken={device("n1/d0")}) == {}
    assert free.after(free.free(), without=(), taken={device("n1/d1")}) == {1: 2}
    world.use("x", got("r0:n1/d0"))
    free.note([device("n1/d0")])
    assert free.free() == {}
    assert free.after(free.free(), without={"x"}, taken=()) == {1: 3}
    assert free.after(free.free(), without={"x"}, taken={device("n1/d1")}) == {1: 2}


@pytest.mark.parametrize("seed", range(20))
def test_following_use_is_the_same_as_counting_anew(seed: int) -> None:
    random_ = random.Random(seed)
    world = inventory(published("n1", 4), *parted("n2"), published("pool", 2, allNodes=True, driver=NIC), classes=PART)
    reserves = [budget(world, of, number, reserve=True) for number, of in enumerate(("gpu", "part", "any"))]
    plugged = {"n1": {0: 1}} if random_.random() < 0.5 else {}
    free = free_of(world, *reserves, plugged=plugged)
    everything = [offer.id for offer in world.offers()]
    for _ in range(30):
        uid, chosen = str(random_.randint(0, 4)), random_.sample(everything, random_.randint(0, 2))
        before = {use.device for use in world.usage.by_claim.get(uid, ())}
        used = {use.device for other, uses in world.usage.by_claim.items() if other != uid for use in uses}
        chosen = [item for item in chosen if item not in used]
        expected = free.after(free.free(), without={uid}, taken=frozenset(chosen))
        results = [
            {"request": "r0", "driver": item.driver, "pool": item.pool, "device": item.device} for item in chosen
        ]
        world.use(uid, Allocation.from_dict({"devices": {"results": results}}))
        free.note([*before, *chosen])
        assert free.free() == free_of(world, *reserves, plugged=plugged).free()
        if not plugged:
            assert free.free() == expected


# -- what is barred


def test_beyond_leaves_so_many_on_every_node() -> None:
    world = inventory(published("n1", 3), published("n2", 2), published("pool", 2, allNodes=True, driver=NIC))
    world.use("x", got("r0:n1/d0"))
    everything = budget(world, "any")
    bars = Bars(world)
    for allowed in range(4):
        barred = bars.beyond(everything, allowed)
        for node in ("n1", "n2"):
            record = world.nodes[node]
            left = [offer for offer in record.offers if offer.id not in barred and not world.users(offer.id)]
            assert len(left) <= allowed
    assert len(bars.beyond(everything, 2)) == 2  # no more than needed: two on each node are local


def test_equal_questions_get_the_identical_set() -> None:
    world = inventory(published("n1", size("40Gi"), size("80Gi")))
    counted, bars = budget(world, capacity={"memory": "100Gi"}), Bars(world)
    assert bars.all_of(counted, ()) is bars.all_of(counted, ())
    first, second = bars.all_of(counted, ()), frozenset({device("n1/d0")})
    assert bars.union([first, second]) is bars.union([second, first])
    small = bars.too_large(counted, {"memory": 50 * GIB})
    assert small is not None
    assert small is bars.too_large(counted, {"memory": 60 * GIB})
    assert bars.too_large(counted, {"memory": 80 * GIB}) is None


# -- policies

POLICY = {"quota": [{"deviceClassName": "gpu", "devices": 1}]}


@pytest.mark.parametrize(
    ("terms", "labels", "classes", "namespace", "selected"),
    [
        ({}, {}, (), {}, True),
        ({"claimSelector": {"matchLabels": {"a": "b"}}}, {"a": "b"}, (), {}, True),
        ({"claimSelector": {"matchLabels": {"a": "b"}}}, {}, (), {}, False),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {"a": "b"}, (), {}, False),
        ({"deviceClassNames": ["gpu", "x"]}, {}, ("nic", "gpu"), {}, True),
        ({"deviceClassNames": ["gpu"]}, {}, ("nic",), {}, False),
    ],
)
def test_which_claims_a_policy_selects(
    terms: Object, labels: dict[str, str], classes: tuple[str, ...], namespace: dict[str, str], selected: bool
) -> None:
    policy = AllocationPolicy.from_dict({"metadata": {"name": "p"}, "spec": {**terms, **POLICY}})
    assert selects(policy.spec, labels, classes, namespace) == selected


def test_a_reservation_is_measured_by_all_that_is_published() -> None:
    """Tainted, used and being-updated devices count: they are only away for a while."""
    half = published("n2", 3, slice_count=2)
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "x", "effect": "NoExecute"}},
    }
    world = inventory(published("n1", 2), half, published("pool", 1, allNodes=True), rules=(rule,))
    world.use("x", got("r0:n1/d0"))
    assert flaw_of_size(budget(world, reserve=True, devices=6), world) is None
    flaw = flaw_of_size(budget(world, reserve=True, devices=7), world)
    assert flaw is not None
    assert str(flaw) == "reserve[0].devices: 7 devices are to be kept, but only 6 match; the reservation is ignored"


def test_a_class_whose_selector_does_not_compile_makes_the_entry_void() -> None:
    world = inventory(classes={"broken": "device.driver =="})
    made = budget(world, "broken")
    flaw = flaw_of_entry(made.key, made.terms, world)
    assert flaw is not None
    assert (flaw.path, flaw.reason) == ("quota[0].deviceClassName", "InvalidSelector")


def test_combinations_of_masks_are_found_by_augmenting() -> None:
    """The device that only one reservation can use must go to it, whoever is served first."""
    for order in combinations([0b01, 0b10, 0b11], 2):
        free = dict.fromkeys(order, 1)
        assert shortfall([1, 1], free) == brute([1, 1], free)
