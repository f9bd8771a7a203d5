"""Clusters in which a gang waits, or a pod with constraints across its claims: as `cases`, for causes that concern several claims."""

from __future__ import annotations

import json
from typing import Any

from tests.engine.stage import (
    GPU,
    Object,
    Stage,
    claim,
    device_class,
    devices_spec,
    gpus,
    node,
    pod,
    policy,
    priority_class,
)
from tests.explain.cases import case
from tests.explain.clusters import MEMORY, NEVER, NIC, NUMA, asking, big_gpus, device, published, settled, two_sides

GROUP = "dra-operator.dev/claim-group"
ANNOTATION = "dra-operator.dev/constraints"


def group(name: str, least: int, **spec: Any) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMembers": least, **spec},
    }


def members(
    count: int, devices: int = 1, *, of: str = "ring", selector: str | None = None, **spec: Any
) -> list[Object]:
    """Pods m0, m1, … with a claim each."""
    found = []
    for number in range(count):
        found += [
            asking(f"c{number}", devices_spec(devices, selector=selector)),
            pod(f"m{number}", f"c{number}", labels={GROUP: of}, **spec),
        ]
    return found


def machines(count: int, devices: int = 2, **labels: str) -> list[Object]:
    return [item for number in range(count) for item in (node(f"n{number}", **labels), gpus(f"n{number}", devices))]


# -- constraints across the claims of one pod


def across(name: str, *claims: str, requests: list[str] | None = None) -> Object:
    entry: Object = {"matchAttribute": NUMA}
    if requests:
        entry["requests"] = requests
    item = pod(name, *claims)
    item["metadata"]["annotations"] = {ANNOTATION: json.dumps([entry])}
    return item


@case
def across_claims() -> tuple[Stage, str]:
    nodes = [item for name in ("n1", "n2") for item in two_sides(name)]
    classes = [device_class(), device_class("nic", f'device.driver == "{NIC}"')]
    return settled(*nodes, *classes, claim("g"), claim("n", of="nic"), across("p", "g", "n")), "pod/p"


@case
def across_a_claim_with_devices() -> tuple[Stage, str]:
    """Another pod uses the GPU, which is on the other side of the machine."""
    classes = [device_class(), device_class("nic", f'device.driver == "{NIC}"')]
    stage = settled(*two_sides("n1"), *classes, claim("g"), pod("first", "g"))
    stage.apply(claim("n", of="nic"), across("p", "g", "n"))
    return stage.run(20), "pod/p"


@case
def annotation_names_no_request() -> tuple[Stage, str]:
    wrong = across("p", "g", "n", requests=["c0/gpu", "nic/gpu"])
    classes = [device_class(), device_class("nic", f'device.driver == "{NIC}"')]
    return settled(*two_sides("n1"), *classes, claim("g"), claim("n", of="nic"), wrong), "pod/p"


# -- gangs


@case
def gang_too_large() -> tuple[Stage, str]:
    return settled(*machines(3), device_class(), group("ring", 4), *members(4, 2)), "pod/m0"


@case
def gang_in_one_rack() -> tuple[Stage, str]:
    racks = [
        item
        for number, rack in enumerate(("r1", "r1", "r2", "r2"))
        for item in (node(f"n{number}", rack=rack), gpus(f"n{number}", 2))
    ]
    ring = group("ring", 3, topology={"key": "rack", "mode": "Same"})
    return settled(*racks, device_class(), ring, *members(3, 2)), "pod/m1"


@case
def gang_incomplete() -> tuple[Stage, str]:
    return settled(*machines(2), device_class(), group("ring", 3), *members(2, 2)), "pod/m0"


@case
def gang_missing() -> tuple[Stage, str]:
    return settled(*machines(2), device_class(), *members(2, 2, of="rign")), "claim/c1"


@case
def gang_asks_for_more_memory() -> tuple[Stage, str]:
    nodes = [item for name in ("n0", "n1") for item in (node(name), big_gpus(name))]
    return settled(*nodes, device_class(), group("ring", 2), *members(2, 2, selector=MEMORY)), "pod/m0"


@case
def gang_behind_lower_priority() -> tuple[Stage, str]:
    stage = settled(
        *machines(2), device_class(), policy(preemption=NEVER), priority_class("high", 1000),
        claim("a", 2), pod("a", "a"), claim("b"), pod("b", "b"), group("ring", 2),
    )  # fmt: skip
    stage.apply(*members(2, 2, priorityClassName="high"))
    return stage.run(20), "pod/m0"


@case
def gang_over_quota() -> tuple[Stage, str]:
    limited = policy("limited", quota=[{"deviceClassName": "gpu", "devices": 3, "per": "Namespace"}])
    return settled(*machines(2), device_class(), limited, group("ring", 2), *members(2, 2)), "pod/m0"


@case
def gang_on_two_fabrics() -> tuple[Stage, str]:
    nodes = [
        item
        for name, fabric in (("n0", "x"), ("n1", "y"))
        for item in (node(name), published(name, [device(f"gpu-{i}", attributes={"fabric": fabric}) for i in range(2)]))
    ]
    ring = group("ring", 2, constraints=[{"matchAttribute": f"{GPU}/fabric"}])
    return settled(*nodes, device_class(), ring, *members(2, 2)), "pod/m0"


@case
def gang_with_a_cordoned_node() -> tuple[Stage, str]:
    cordoned = node("n1", spec={"unschedulable": True})
    return settled(
        node("n0"), gpus("n0", 2), cordoned, gpus("n1", 2), device_class(), group("ring", 2), *members(2, 2)
    ), "pod/m1"


@case
def gang_incomplete_and_too_large() -> tuple[Stage, str]:
    return settled(*machines(2), device_class(), group("ring", 4), *members(3, 2)), "pod/m0"
