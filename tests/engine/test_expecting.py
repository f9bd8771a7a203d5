"""What the engine tells the allocator to keep room for: the demand there is, and the CPU beside the devices."""

from __future__ import annotations

import random

import pytest

from dra_operator.api.claims import ResourceClaim
from dra_operator.engine.expecting import Expecting
from dra_operator.engine.view import View
from tests.engine.stage import GPU, Stage, claim, device_class, devices_spec, gpus, node, pod

OF_H100 = f'device.attributes["{GPU}"].model == "h100"'


def models() -> list[dict[str, object]]:
    """Four nodes with 8 of the better model, and one with 8 of the other that comes last by name."""
    nodes = [item for name in ("a", "b", "c", "d") for item in (node(name), gpus(name, 8, model="h100"))]
    return [device_class(), *nodes, node("e"), gpus("e", 8, model="l4")]


def test_a_model_is_kept_for_those_who_ask_for_it() -> None:
    stage = Stage(*models(), *(claim(f"picky-{number}", selector=OF_H100) for number in range(24))).run()
    stage.apply(claim("any"))
    stage.run()
    assert [device.partition("/")[0] for device in stage.devices("any")] == ["e"]


def test_without_such_demand_the_first_of_equals_is_taken() -> None:
    stage = Stage(*models(), *(claim(f"easy-{number}") for number in range(24))).run()
    stage.apply(claim("any"))
    stage.run()
    assert [device.partition("/")[0] for device in stage.devices("any")] == ["d"]


@pytest.mark.parametrize(("cpu", "on"), [("2", "a"), ("17", "b")])
def test_a_pod_that_would_strand_devices_for_lack_of_cpu_goes_elsewhere(cpu: str, on: str) -> None:
    """Pods take 2 CPUs a device; with 17 of its 20 gone, node a could not use its other three devices."""
    stage = Stage(device_class(), node("c", cpu="8"), gpus("c", 4))
    stage.apply(
        *(item for number in range(4) for item in (claim(f"u-{number}"), pod(f"u-{number}", f"u-{number}", cpu="2")))
    )
    stage.run()
    stage.apply(
        node("a", cpu="20"), gpus("a", 4), node("b", cpu="64"), gpus("b", 4), claim("new"), pod("new", "new", cpu=cpu)
    )
    stage.run()
    assert stage.bound()["new"] == on


def raw(number: int, count: int, allocated: bool) -> dict[str, object]:
    metadata = {"name": f"c{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": "1"}
    result = {"request": "gpu", "driver": GPU, "pool": "p", "device": f"d{number}"}
    status = {"allocation": {"devices": {"results": [result]}}} if allocated else {}
    return {"metadata": metadata, "spec": devices_spec(count), "status": status}


def expecting(claims: list[dict[str, object]]) -> tuple[View, Expecting]:
    view = View()
    for item in claims:
        view.apply_claim(item)
    return view, Expecting(view)


def test_a_restart_expects_the_same() -> None:
    claims = [raw(number, 1 + number % 7, number % 3 == 0) for number in range(200)]
    shuffled = random.Random(1).sample(claims, len(claims))
    found = [expecting(order)[1].demand() for order in (claims, shuffled)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].items == found[1].items
    assert found[0].evidence == found[1].evidence == 200


def test_waiting_claims_weigh_more_than_placed_ones() -> None:
    demand = expecting([raw(0, 1, True), raw(1, 2, False)])[1].demand()
    assert demand is not None
    weights = {item.spec.requests[0].details[0].count: item.weight for item in demand.items}
    assert weights[2] > weights[1]


def test_what_is_kept_is_bounded() -> None:
    demand = expecting([raw(number, number + 1, False) for number in range(500)])[1].demand()
    assert demand is not None
    assert len(demand.items) <= 32


def test_claims_that_come_and_go_are_not_counted_each_time() -> None:
    """Work: counting all again costs in the long run a constant for each change."""
    view, expected = expecting([raw(number, 1, True) for number in range(2_000)])
    for number in range(2_000, 6_000):
        view.apply_claim(raw(number, 1, True))
        view.remove_claim(ResourceClaim.from_dict(raw(number - 2_000, 1, True)).meta.key)
        expected.demand()
    # 8,000 changes with 2,000 claims: at most one count in 250 changes, and the first.
    assert expected.counts <= 33


def test_the_demand_stays_one_object_while_it_holds() -> None:
    view, expected = expecting([raw(number, 1, True) for number in range(100)])
    first = expected.demand()
    for number in range(100, 130):
        view.apply_claim(raw(number, 1, True))
    assert expected.demand() is first
    for number in range(130, 260):
        view.apply_claim(raw(number, 8, False))
    assert expected.demand() is not first
