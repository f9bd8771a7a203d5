"""Reservations on the embedded cluster: each sentence of docs/policies.md on them."""

from __future__ import annotations

from tests.engine.budgeted import CRITICAL, NEVER, cluster, quota, report, summary, use
from tests.engine.stage import (
    GPU,
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
    policy,
    priority_class,
)

TOP = {"tier": "critical"}


def test_a_reservation_keeps_the_last_devices_for_its_policy() -> None:
    stage = cluster(policy("critical", **CRITICAL, reserve=[quota(devices=1)]), gpu_count=2)
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"a1"}
    assert (report(stage, "a2")["phase"], report(stage, "a2")["reason"]) == ("Queued", "Reserved")
    text = "reserve[0] of policy critical keeps 1 free device of class gpu for its own claims: 1 is free, 1 asked for"
    assert summary(stage, "a2").startswith(text)
    use(stage, "b1", labels=TOP)
    stage.run(5)
    assert set(stage.bound()) == {"a1", "b1"}


def test_what_the_policy_uses_already_is_not_kept_again() -> None:
    stage = cluster(policy("critical", **CRITICAL, reserve=[quota(devices=2)]), gpu_count=4)
    use(stage, "b1", labels=TOP)
    stage.run(5)
    for name in ("a1", "a2", "a3"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"b1", "a1", "a2"}
    stage.delete("Pod", "b1", namespace="b")
    stage.delete("ResourceClaim", "b1", namespace="b")
    stage.run(10)
    assert set(stage.bound()) == {"a1", "a2"}


def test_a_device_that_comes_free_goes_to_a_reservation_that_is_short() -> None:
    stage = cluster(gpu_count=2)
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(5)
    stage.apply(policy("critical", **CRITICAL, reserve=[quota(devices=1)]))
    use(stage, "a3")
    stage.run(5)
    for name in ("a1", "a2"):
        assert "a3" not in stage.bound()
        stage.delete("Pod", name, namespace="a")
        stage.delete("ResourceClaim", name, namespace="a")
        stage.run(10)
    assert set(stage.bound()) == {"a3"}


def test_tainted_devices_are_not_free() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": GPU, "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "x", "effect": "NoSchedule"},
        },
    }
    stage = cluster(rule, policy("critical", **CRITICAL, reserve=[quota(devices=1)]), gpu_count=2)
    use(stage, "a1")
    stage.run(10)
    assert stage.bound() == {}
    stage.delete("DeviceTaintRule", "broken")
    stage.run(10)
    assert set(stage.bound()) == {"a1"}


def test_reservations_of_two_policies_do_not_share_devices() -> None:
    other = {"claimSelector": {"matchLabels": {"tier": "other"}}}
    stage = cluster(
        policy("critical", **CRITICAL, reserve=[quota(devices=1)]),
        policy("other", **other, reserve=[quota(devices=1)]),
        gpu_count=3,
    )
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"a1"}
    use(stage, "b1", 2, labels=TOP)
    stage.run(10)
    assert set(stage.bound()) == {"a1"}
    use(stage, "b2", labels=TOP)
    use(stage, "b3", labels={"tier": "other"})
    stage.run(10)
    assert set(stage.bound()) == {"a1", "b2", "b3"}


def test_a_hold_does_not_cover_what_is_kept_for_others() -> None:
    stage = cluster(policy(preemption=NEVER), policy("critical", **CRITICAL, reserve=[quota(devices=1)]), gpu_count=4)
    use(stage, "a1", 2)
    stage.run(3)
    use(stage, "a2", 3)
    stage.run(45)
    held = report(stage, "a2")["hold"]["devices"]
    assert len(held) == 1
    use(stage, "a3")
    stage.run(5)
    assert report(stage, "a3")["reason"] == "Reserved"  # what is held is not there for the reservation
    stage.delete("Pod", "a3", namespace="a")
    stage.delete("ResourceClaim", "a3", namespace="a")
    use(stage, "b1", labels=TOP)
    stage.run(5)
    assert "b1" in stage.bound()
    stage.delete("Pod", "a1", namespace="a")
    stage.delete("ResourceClaim", "a1", namespace="a")
    stage.run(10)
    assert "a2" in stage.bound()


def test_who_can_never_have_its_devices_beside_a_reservation_does_not_hold() -> None:
    stage = cluster(policy(preemption=NEVER), policy("critical", **CRITICAL, reserve=[quota(devices=1)]), gpu_count=4)
    use(stage, "a1", 4)
    stage.run(45)
    assert (report(stage, "a1")["phase"], report(stage, "a1")["reason"]) == ("Starved", "Reserved")
    assert "hold" not in report(stage, "a1")
    use(stage, "a2", 3)
    stage.run(5)
    assert "a2" in stage.bound()


def test_nobody_is_evicted_for_devices_that_would_stay_reserved() -> None:
    always = {"preemption": {"mode": "Always"}}
    stage = cluster(
        priority_class("high", 10),
        policy(**always),
        policy("critical", **CRITICAL, reserve=[quota(devices=1)]),
        gpu_count=2,
    )
    use(stage, "a1")
    stage.run(5)
    use(stage, "b1", priorityClassName="high")
    stage.run(10)
    assert set(stage.bound()) == {"b1"}
    use(stage, "b2", priorityClassName="high")
    stage.run(10)
    assert set(stage.bound()) == {"b1"}
    assert "keeps 1 free device" in summary(stage, "b2")


def test_a_claim_that_the_quota_does_not_concern_is_not_kept_back_by_it() -> None:
    """Two claims of one pod, one of them selected: only that one is kept off what is used up."""
    other = gpus("n1", 2)
    other["metadata"]["name"], other["spec"]["driver"] = "n1-npus", "npu.example.com"
    terms = {"claimSelector": {"matchLabels": {"tier": "low"}}, "quota": [quota(devices=1)]}
    stage = cluster(policy(**terms), other, device_class("any", "true"), gpu_count=4)
    use(stage, "a1", labels={"tier": "low"})
    stage.run(3)
    low = claim("a2", 2, namespace="a", of="any")
    low["metadata"]["labels"] = {"tier": "low"}
    stage.apply(low, claim("a3", 2, namespace="a"), pod("both", "a2", "a3", namespace="a"))
    stage.run(10)
    assert set(stage.bound()) == {"a1", "both"}


PARTS = [
    {
        "name": name,
        "attributes": {"kind": {"string": kind}},
        "consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": slots}}}],
    }
    for name, kind, slots in (("whole", "whole", "7"), ("part-0", "part", "3"), ("part-1", "part", "3"))
]


def partitionable(name: str) -> list[Object]:
    item, counters = gpus(name, 0), gpus(name, 0)
    item["spec"]["devices"] = PARTS
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"slots": {"value": "7"}}}]
    counters["metadata"]["name"] = f"{name}-counters"
    item["spec"]["pool"]["resourceSliceCount"] = counters["spec"]["pool"]["resourceSliceCount"] = 2
    return [item, counters]


def kind(name: str) -> Object:
    return device_class(name, f"device.attributes['{GPU}'].kind == '{name}'")


def test_a_used_up_quota_for_parts_leaves_whole_devices() -> None:
    """What is barred is not used: the counters it would take are there for the others."""
    entry = {"deviceClassName": "part", "devices": 0}
    stage = Stage(node("n1"), *partitionable("n1"), device_class(), kind("part"), kind("whole"), namespace("a"))
    stage.apply(policy(quota=[entry]))
    use(stage, "a1")
    stage.run(10)
    assert stage.devices("a1", "a") == ["n1/whole"]


def test_a_reservation_of_parts_keeps_their_counters() -> None:
    entry = {"deviceClassName": "part", "devices": 2}
    stage = Stage(node("n1"), *partitionable("n1"), kind("part"), kind("whole"), namespace("a"), namespace("b"))
    stage.apply(policy("critical", **CRITICAL, reserve=[entry]))
    use(stage, "a1", of="whole")
    stage.run(10)
    assert stage.bound() == {}
    assert report(stage, "a1")["reason"] == "Reserved"
    stage.apply(node("n2"), *partitionable("n2"))
    stage.run(10)
    assert set(stage.bound()) == {"a1"}
    for name in ("b1", "b2"):
        use(stage, name, of="part", labels=TOP)
    stage.run(10)
    assert {"b1", "b2"} <= set(stage.bound())


def test_all_devices_of_a_node_within_the_quota() -> None:
    """A request for all there is takes a node where that is not too much."""
    stage = Stage(node("n1"), gpus("n1", 4), node("n2"), gpus("n2", 2), device_class(), namespace("a"))
    stage.apply(policy(quota=[quota(devices=2)]))
    item = claim("a1", namespace="a")
    item["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "gpu", "allocationMode": "All"}
    stage.apply(item, pod("a1", "a1", namespace="a"))
    stage.run(10)
    assert stage.bound() == {"a1": "n2"}


def test_a_quota_of_a_group_counts_all_its_members() -> None:
    group = {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": "g", "namespace": "a"},
        "spec": {"minMembers": 2},
    }
    for limit, bound in ((3, set()), (4, {"a1", "a2"})):
        stage = cluster(group, policy(quota=[quota(devices=limit)]), gpu_count=4)
        for name in ("a1", "a2"):
            item = pod(name, name, namespace="a", labels={"dra-operator.dev/claim-group": "g"})
            stage.apply(claim(name, 2, namespace="a"), item)
        stage.run(10)
        assert set(stage.bound()) == bound
    assert stage.bound()


def test_what_others_took_of_the_quota_ends_a_hold() -> None:
    """Nothing came free and no policy changed: the holder has to be looked at all the same."""
    objects = (node("n2"), gpus("n2", 1), priority_class("high", 10))
    stage = cluster(policy(quota=[quota(devices=2)], preemption=NEVER), *objects, gpu_count=2)
    use(stage, "b1", 2)
    stage.run(3)
    use(stage, "a1", 2)
    stage.run(40)
    assert report(stage, "a1").get("hold")
    use(stage, "a2", priorityClassName="high")
    stage.run(10)
    assert set(stage.bound()) == {"b1", "a2"}
    assert report(stage, "a1")["phase"] == "QuotaExceeded"
    assert "hold" not in report(stage, "a1")


def test_a_claim_that_leaves_a_policy_gives_its_quota_back() -> None:
    stage = cluster(policy(claimSelector={"matchLabels": {"tier": "low"}}, quota=[quota(devices=1)]))
    for name in ("a1", "a2"):
        use(stage, name, labels={"tier": "low"})
    stage.run(5)
    assert set(stage.bound()) == {"a1"}
    stage.patch("ResourceClaim", "a1", {"metadata": {"labels": {"tier": "high"}}}, namespace="a")
    stage.run(5)
    assert set(stage.bound()) == {"a1", "a2"}


def test_nobody_is_evicted_where_a_reservation_is_short() -> None:
    """What would come free would have to stay free."""
    stage = cluster(priority_class("high", 10), policy(preemption={"mode": "Always"}), gpu_count=2)
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(5)
    stage.apply(policy("critical", **CRITICAL, reserve=[quota(devices=1)]))
    use(stage, "b1", priorityClassName="high")
    stage.run(20)
    assert set(stage.bound()) == {"a1", "a2"}
    assert "no preemption: reserve[0] of policy critical keeps 1 free device" in summary(stage, "b1")


def test_a_class_report_tells_what_is_reserved() -> None:
    stage = cluster(policy("critical", **CRITICAL, reserve=[quota(devices=1)]), gpu_count=3)
    use(stage, "a1")
    stage.run(30)
    status = stage.get("DeviceClassReport", "gpu")["status"]
    assert {name: status[name] for name in ("total", "allocated", "reserved", "free", "held")} == {
        "total": 3,
        "allocated": 1,
        "reserved": 1,
        "free": 1,
        "held": 0,
    }
