"""What room is made where: the choice of victims asks the allocator for just what placing asks for."""

from __future__ import annotations

from typing import Any

from tests.engine.stage import (
    GPU,
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)
from tests.engine.test_preemption import evicted, holding

HIGH = priority_class("high", 1000)
ALWAYS = {"mode": "Always"}
ZONE = "example.com/zone"


def held(stage: Stage, name: str) -> Any:
    return stage.report(name)["hold"]


def two_halves(**terms: Any) -> Stage:
    """Four devices in two halves. The first is taken for good, the others by pod `low`; the policy prefers devices of one half."""
    halves = gpus("n1", 4)
    for index, device in enumerate(halves["spec"]["devices"]):
        device["attributes"]["half"] = {"int": index // 2}
    prefers = {"prefer": [{"matchAttribute": f"{GPU}/half", "weight": 10}]}
    stage = Stage(node("n1"), halves, device_class(), HIGH, policy(placement=prefers, **terms))
    stage.apply(claim("keeps", selector=the("gpu-0")), pod("keeps", "keeps", priorityClassName="high"))
    stage.run(5)
    stage.apply(*holding("low", 3, terminationGracePeriodSeconds=30))
    return stage.run(5)


def the(name: str) -> str:
    return f'device.attributes["{GPU}"].index == {name[-1]}'


def test_the_devices_waited_for_are_those_that_the_policy_prefers() -> None:
    """Three devices come free, of which two are alike: with these the claim would be placed."""
    stage = two_halves(preemption=ALWAYS)
    stage.apply(*holding("urgent", 2, priorityClassName="high"))
    stage.run(10)
    assert evicted(stage) == ["low"]
    assert [item["device"] for item in held(stage, "urgent")["devices"]] == ["gpu-2", "gpu-3"]


def test_of_what_comes_free_anyway_the_node_is_waited_for_that_the_policy_prefers() -> None:
    """Two pods are leaving, one of them in the zone of the workload's first pod."""
    prefers = {"prefer": [{"nodeLabel": ZONE, "weight": 10}]}
    stage = Stage(
        *(node(name, **{ZONE: name[0]}) for name in ("a1", "b1", "b2")),
        *(gpus(name, 1) for name in ("a1", "b1", "b2")),
        device_class(),
        HIGH,
        policy(placement=prefers, preemption=ALWAYS),
    )
    for name in ("a1", "b1"):
        leaves = {"nodeSelector": {"kubernetes.io/hostname": name}, "terminationGracePeriodSeconds": 60}
        stage.apply(*holding(f"leaves-{name}", **leaves))
    stage.run(5)
    stage.apply(template(), workload("Deployment", "web", 1, priorityClassName="high"))
    stage.run(5)
    for name in ("a1", "b1"):
        stage.delete("Pod", f"leaves-{name}")
    stage.run(5)
    stage.send("PATCH", "Deployment", "web", {"spec": {"replicas": 2}})
    stage.run(10)
    (waiting,) = (item for item in stage.objects("ClaimReport") if item["status"].get("hold"))
    assert waiting["status"]["hold"]["nodes"] == ["b1"]


def test_those_before_it_are_thought_to_take_what_the_policy_prefers() -> None:
    """If `low` went, the pair before it in the queue would take the second half and leave it its device."""
    stage = two_halves(preemption={"mode": "Never"})
    stage.apply(*holding("pair", 2))
    stage.run(3)
    stage.apply(claim("second", selector=the("gpu-1")), pod("second", "second"))
    stage.run(10)
    fixes = [fix["text"] for fix in stage.report("second")["explanation"]["fixes"]]
    assert any("pod default/low" in text for text in fixes), fixes


def test_nobody_goes_where_devices_allocated_already_cannot_be_reached() -> None:
    """The pod has a network device of zone b; the cheapest victim is in zone a."""
    stage = Stage(
        *(node(name, **{ZONE: name[0]}) for name in ("a1", "b1", "b2")),
        *(gpus(name, 1) for name in ("a1", "b1", "b2")),
        _fabric(),
        device_class("gpu", f'device.driver == "{GPU}"'),
        device_class("nic", 'device.driver == "nic.example.com"'),
        HIGH,
        policy(preemption=ALWAYS),
    )
    for name in ("b1", "b2", "a1"):  # the youngest would go
        stage.apply(*holding(f"low-{name}", nodeSelector={"kubernetes.io/hostname": name}))
        stage.run(3)
    stage.apply(claim("nic", of="nic"))
    stage.run(5)
    assert stage.devices("nic") == ["fabric/nic-0"]
    stage.apply(claim("urgent"), pod("urgent", "nic", "urgent", priorityClassName="high"))
    stage.run(60)
    assert evicted(stage) == ["low-b2"]
    assert stage.bound()["urgent"] == "b2"


def _fabric() -> Object:
    """A network device that the nodes of zone b reach."""
    found = gpus("fabric", 0)
    found["metadata"]["name"] = "fabric"
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]}
    found["spec"] = {
        "driver": "nic.example.com",
        "nodeSelector": selector,
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "nic-0"}],
    }
    return found
