"""Quotas and reservations on the embedded cluster: each sentence of design §4 and §5 on them."""

from __future__ import annotations

from typing import Any

from dra_operator.cluster.memory.faults import Fate, NoFaults
from dra_operator.engine.decisions import Decision, WritePolicyStatus
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

NEVER = {"mode": "Never"}


def cluster(*objects: Object, gpu_count: int = 4) -> Stage:
    return Stage(node("n1"), gpus("n1", gpu_count), device_class(), namespace("a"), namespace("b"), *objects)


def use(stage: Stage, name: str, count: int = 1, *, of: str = "gpu", labels: Object | None = None, **spec: Any) -> None:
    """A pod with a claim of its own, both of this name, in the namespace that its first letter names."""
    where = name[0]
    item = claim(name, count, namespace=where, of=of)
    item["metadata"]["labels"] = labels or {}
    stage.apply(item, pod(name, name, namespace=where, **spec))


def quota(**entry: Any) -> Object:
    return {"deviceClassName": "gpu", **entry}


def report(stage: Stage, name: str) -> Object:
    return stage.report(name, name[0])


def summary(stage: Stage, name: str) -> str:
    found: str = report(stage, name)["explanation"]["summary"]
    return found


def attempts(stage: Stage, name: str) -> int:
    units = stage.engines[-1]._state.units
    return next(unit.attempts for key, unit in units.items() if key.subject.name == name)


# -- quota


def test_a_namespace_has_no_more_devices_than_its_quota() -> None:
    stage = cluster(policy(quota=[quota(devices=2)]))
    for name in ("a1", "a2", "a3", "b1"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"a1", "a2", "b1"}
    assert report(stage, "a3")["phase"] == report(stage, "a3")["reason"] == "QuotaExceeded"
    text = "quota[0] of policy p: namespace a uses 2 of 2 devices of class gpu; 1 more asked for"
    assert summary(stage, "a3") == text


def test_a_quota_per_policy_is_for_all_namespaces_together() -> None:
    stage = cluster(policy(quota=[quota(devices=2, per="Policy")]))
    for name in ("a1", "b1", "b2"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"a1", "b1"}
    assert summary(stage, "b2").startswith("quota[0] of policy p: its claims use 2 of 2 devices")


def test_a_claim_larger_than_the_quota_is_never_placed() -> None:
    stage = cluster(policy(quota=[quota(devices=2)]))
    use(stage, "a1", 3)
    stage.run(10)
    assert report(stage, "a1")["phase"] == "QuotaExceeded"
    assert summary(stage, "a1").endswith("namespace a uses 0 of 2 devices of class gpu; 3 more asked for")


def test_quotas_of_every_matching_policy_apply() -> None:
    """The report names the policy that wins; the quota of the other one holds all the same."""
    stage = cluster(
        policy("wins", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "a"}}, priority=7),
        policy("other", quota=[quota(devices=1)]),
    )
    stage.patch("Namespace", "a", {"metadata": {"labels": {"kubernetes.io/metadata.name": "a"}}})
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(10)
    assert set(stage.bound()) == {"a1"}
    assert report(stage, "a2")["policy"] == "wins"
    assert "policy other" in summary(stage, "a2")


def test_a_quota_concerns_the_claims_its_policy_selects() -> None:
    stage = cluster(policy(claimSelector={"matchLabels": {"tier": "low"}}, quota=[quota(devices=1)]))
    for name, tier in (("a1", "low"), ("a2", "low"), ("a3", "high")):
        use(stage, name, labels={"tier": tier})
    stage.run(10)
    assert set(stage.bound()) == {"a1", "a3"}


def test_a_quota_counts_devices_by_what_they_are() -> None:
    """A claim that gets a GPU by a broader class uses the quota for GPUs; with the quota used up it gets something else."""
    other = gpus("n1", 1)
    other["metadata"]["name"], other["spec"]["driver"] = "n1-npus", "npu.example.com"
    anything = device_class("any", "true")
    stage = cluster(policy(quota=[quota(devices=1)]), other, anything, gpu_count=3)
    use(stage, "a1")
    stage.run(5)
    for name in ("a2", "a3"):
        use(stage, name, of="any")
    stage.run(10)
    found = stage.get("ResourceClaim", "a2", "a")
    assert found is not None
    assert found["status"]["allocation"]["devices"]["results"][0]["driver"] == "npu.example.com"
    assert report(stage, "a3")["phase"] == "QuotaExceeded"
    stage.delete("Pod", "a2", namespace="a")
    stage.delete("ResourceClaim", "a2", namespace="a")
    stage.run(10)
    assert "a3" in stage.bound()


def test_part_of_a_claim_within_the_quota_and_part_of_other_devices() -> None:
    other = gpus("n1", 2)
    other["metadata"]["name"], other["spec"]["driver"] = "n1-npus", "npu.example.com"
    stage = cluster(policy(quota=[quota(devices=1)]), other, device_class("any", "true"), gpu_count=3)
    use(stage, "a1", 3, of="any")
    stage.run(10)
    found = stage.get("ResourceClaim", "a1", "a")
    assert found is not None
    drivers = [item["driver"] for item in found["status"]["allocation"]["devices"]["results"]]
    assert sorted(drivers) == [GPU, "npu.example.com", "npu.example.com"]


def test_a_quota_with_selectors_concerns_what_these_match() -> None:
    big = gpus("n2", 2, size="big")
    cel = {"expression": f"device.attributes['{GPU}'].?size.orValue('') == 'big'"}
    stage = cluster(node("n2"), big, policy(quota=[quota(devices=1, selectors=[{"cel": cel}])]), gpu_count=2)
    for name in ("a1", "a2", "a3", "a4"):
        use(stage, name)
    stage.run(10)
    assert sorted(stage.bound().values()) == ["n1", "n1", "n2"]
    assert [report(stage, name)["phase"] for name in ("a4",)] == ["QuotaExceeded"]
    assert "class gpu (of what its selectors match)" in summary(stage, "a4")


def test_freeing_wakes_those_that_wait_for_the_quota_and_no_others() -> None:
    stage = cluster(policy(quota=[quota(devices=1)], preemption=NEVER))
    for name in ("a1", "a2", "b1", "b2"):
        use(stage, name)
    stage.run(10)
    before = attempts(stage, "b2")
    stage.delete("Pod", "a1", namespace="a")
    stage.delete("ResourceClaim", "a1", namespace="a")
    stage.run(5)
    assert set(stage.bound()) == {"a2", "b1"}
    assert attempts(stage, "b2") == before


def test_a_freed_device_does_not_wake_who_waits_for_quota() -> None:
    stage = cluster(policy(quota=[quota(devices=1)]), gpu_count=2)
    for name in ("a1", "b1", "a2"):
        use(stage, name)
    stage.run(10)
    before = attempts(stage, "a2")
    stage.delete("Pod", "b1", namespace="b")
    stage.delete("ResourceClaim", "b1", namespace="b")
    stage.run(5)
    assert attempts(stage, "a2") == before


def test_an_edited_quota_takes_effect_at_once() -> None:
    stage = cluster(policy(quota=[quota(devices=1)]))
    for name in ("a1", "a2", "a3"):
        use(stage, name)
    stage.run(10)
    stage.apply(policy(quota=[quota(devices=2)]))
    stage.run(5)
    assert set(stage.bound()) == {"a1", "a2"}
    stage.apply(policy(quota=[quota(devices=0)]))
    stage.run(5)
    assert set(stage.bound()) == {"a1", "a2"}
    assert summary(stage, "a3").endswith("uses 2 of 0 devices of class gpu; 1 more asked for")
    stage.delete("AllocationPolicy", "p")
    stage.run(5)
    assert set(stage.bound()) == {"a1", "a2", "a3"}


def test_who_is_over_quota_neither_starves_nor_holds_nor_blocks() -> None:
    stage = cluster(policy(quota=[quota(devices=1)], queueing="Strict", preemption=NEVER), gpu_count=2)
    use(stage, "a1")
    stage.run(3)
    use(stage, "a2")
    stage.run(60)
    assert report(stage, "a2")["phase"] == "QuotaExceeded"
    assert "hold" not in report(stage, "a2")
    assert stage.events("Starved") == []
    use(stage, "b1")
    stage.run(5)
    assert set(stage.bound()) == {"a1", "b1"}


def test_placements_of_one_pass_see_each_others_use() -> None:
    stage = cluster(policy(quota=[quota(devices=3)]))
    gate = [{"name": "dra-operator.dev/allocation"}]
    items: list[Object] = []
    for number in range(4):
        name = f"a{number}"
        items += [claim(name, namespace="a"), pod(name, name, namespace="a", schedulingGates=gate)]
    stage.apply(*items)
    stage.run(10)
    assert len(stage.bound()) == 3


def test_claims_of_a_unit_count_together() -> None:
    stage = cluster(policy(quota=[quota(devices=1)]))
    stage.apply(claim("a1", namespace="a"), claim("a2", namespace="a"), pod("both", "a1", "a2", namespace="a"))
    stage.run(10)
    assert stage.taken() == []
    assert report(stage, "a1")["phase"] == "QuotaExceeded"
    assert summary(stage, "a1").endswith("2 more asked for")


def test_claims_that_are_not_managed_count() -> None:
    exempt = namespace("x", **{"dra-operator.dev/managed": "false"})
    stage = cluster(exempt, policy(quota=[quota(devices=2, per="Policy")]))
    stage.apply(claim("x1", 2, namespace="x"), pod("x1", "x1", namespace="x"))
    stage.run(5)
    assert "x1" in stage.bound()
    use(stage, "a1")
    stage.run(10)
    assert report(stage, "a1")["phase"] == "QuotaExceeded"


def test_admin_access_is_outside_quota_and_reservation() -> None:
    keep = policy("keep", claimSelector={"matchLabels": {"tier": "critical"}}, reserve=[quota(devices=4)])
    stage = cluster(
        policy(quota=[quota(devices=0)]), keep, namespace("m", **{"resource.kubernetes.io/admin-access": "true"})
    )
    item = claim("m1", namespace="m")
    item["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    stage.apply(item, pod("m1", "m1", namespace="m"))
    stage.run(10)
    assert "m1" in stage.bound()


def test_quota_is_set_aside_with_a_hold() -> None:
    """The first starved claim needs two devices of its namespace's quota of three: a small one must not eat into it."""
    stage = cluster(policy(quota=[quota(devices=3)], preemption=NEVER), gpu_count=3)
    use(stage, "b1", 2)
    use(stage, "a1")
    stage.run(3)
    use(stage, "a2", 2)
    stage.run(40)
    assert report(stage, "a2")["hold"]["nodes"] == ["n1"]
    stage.apply(node("n2"), gpus("n2", 1))
    stage.run(1)
    use(stage, "a3")
    stage.run(5)
    assert report(stage, "a3")["phase"] == "QuotaExceeded"
    assert "2 set aside for starved claims before it" in summary(stage, "a3")
    stage.delete("Pod", "b1", namespace="b")
    stage.delete("ResourceClaim", "b1", namespace="b")
    stage.run(5)
    assert {"a1", "a2"} <= set(stage.bound())


def test_a_hold_ends_when_the_quota_is_lowered() -> None:
    stage = cluster(policy(quota=[quota(devices=3)], preemption=NEVER), gpu_count=2)
    use(stage, "b1", 2)
    stage.run(3)
    use(stage, "a1", 2)
    stage.run(40)
    assert report(stage, "a1").get("hold")
    stage.apply(policy(quota=[quota(devices=1)], preemption=NEVER))
    stage.run(10)
    assert report(stage, "a1")["phase"] == "QuotaExceeded"
    assert "hold" not in report(stage, "a1")


def sized(name: str, *sizes: str, shared: bool = False) -> Object:
    item = gpus(name, len(sizes))
    for device, size in zip(item["spec"]["devices"], sizes, strict=True):
        device["capacity"] = {"memory": {"value": size}}
        if shared:
            device["allowMultipleAllocations"] = True
            device["capacity"]["memory"]["requestPolicy"] = {
                "default": "1Gi",
                "validRange": {"min": "1Gi", "step": "1Gi"},
            }
    return item


def test_a_quota_in_capacity_sums_what_devices_have() -> None:
    stage = Stage(node("n1"), sized("n1", "40Gi", "40Gi", "80Gi"), device_class(), namespace("a"))
    stage.apply(policy(quota=[quota(capacity={"memory": "100Gi"})]))
    for name in ("a1", "a2", "a3"):
        use(stage, name)
    stage.run(10)
    assert len(stage.bound()) == 2
    assert sorted(stage.taken()) == ["n1/gpu-0", "n1/gpu-1"]
    text = "namespace a uses 80Gi of 100Gi memory of class gpu; 40Gi more asked for"
    assert text in summary(stage, "a3")


def test_other_devices_are_taken_where_a_capacity_would_be_exceeded() -> None:
    other = gpus("n1", 2)
    other["metadata"]["name"], other["spec"]["driver"] = "n1-npus", "npu.example.com"
    objects = (node("n1"), sized("n1", "80Gi", "80Gi"), other, device_class(), device_class("any", "true"))
    terms = {"quota": [quota(capacity={"memory": "100Gi"})], "placement": {"strategy": "FirstFit"}}
    stage = Stage(*objects, namespace("a"), policy(**terms))
    use(stage, "a1", 2, of="any")
    stage.run(10)
    assert set(stage.bound()) == {"a1"}


def test_shared_devices_count_by_what_is_taken_of_them_or_once() -> None:
    def share(name: str) -> Object:
        item = claim(name, namespace="a")
        item["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "10Gi"}}
        return item

    for entry, bound in ((quota(capacity={"memory": "20Gi"}), 2), (quota(devices=1), 4)):
        stage = Stage(node("n1"), sized("n1", "80Gi", "80Gi", shared=True), device_class(), namespace("a"))
        stage.apply(policy(quota=[entry]))
        for name in ("a1", "a2", "a3", "a4"):
            stage.apply(share(name), pod(name, name, namespace="a"))
        stage.run(10)
        assert len(stage.bound()) == bound
    assert set(stage.taken()) == {"n1/gpu-0"}


def test_device_plugin_pods_use_the_class_on_nodes_that_offer_it() -> None:
    name = "example.com/gpu"
    served = device_class()
    served["spec"]["extendedResourceName"] = name
    plugged = node("n2")
    plugged["status"]["allocatable"] = {**plugged["status"]["allocatable"], name: "4"}
    stage = cluster(served, plugged, policy(quota=[quota(devices=3)]))
    old = pod("a0", namespace="a", nodeName="n2")
    old["spec"]["containers"][0]["resources"]["limits"] = {name: "2"}
    del old["spec"]["resourceClaims"], old["spec"]["containers"][0]["resources"]["claims"]
    stage.apply(old)
    stage.run(2)
    for each in ("a1", "a2"):
        use(stage, each)
    stage.run(10)
    assert set(stage.bound()) == {"a0", "a1"}
    assert "uses 3 of 3 devices" in summary(stage, "a2")
    stage.delete("Pod", "a0", namespace="a")
    stage.run(10)
    assert "a2" in stage.bound()


# -- reservations


CRITICAL = {"claimSelector": {"matchLabels": {"tier": "critical"}}}
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


# -- policies that mean nothing in part


def valid(stage: Stage, name: str = "p") -> tuple[str, str, str]:
    """Status, reason and message of the policy's condition."""
    found = stage.get("AllocationPolicy", name)
    assert found is not None
    [entry] = [item for item in found["status"]["conditions"] if item["type"] == "Valid"]
    assert entry["observedGeneration"] == found["metadata"]["generation"]
    return entry["status"], entry["reason"], entry["message"]


def test_an_unknown_class_is_named_and_the_rest_works() -> None:
    entries = [{"deviceClassName": "gpux", "devices": 0}, quota(devices=1)]
    stage = cluster(policy(quota=entries, priority=5, deviceClassNames=["gpu", "old"]))
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(15)
    assert set(stage.bound()) == {"a1"}
    assert report(stage, "a2")["queue"]["priority"] == 5
    status, reason, message = valid(stage)
    assert (status, reason) == ("False", "UnknownClass")
    assert 'deviceClassNames[1]: there is no DeviceClass "old"' in message
    assert 'quota[0].deviceClassName: there is no DeviceClass "gpux"; the quota is ignored' in message
    stage.apply(device_class("gpux", "false"), device_class("old", "false"))
    stage.run(15)
    assert valid(stage) == ("True", "Accepted", "")


def test_a_selector_that_does_not_compile_is_named_and_the_rest_works() -> None:
    broken = [{"cel": {"expression": "device.driver =="}}]
    stage = cluster(policy(quota=[quota(devices=0, selectors=broken), quota(devices=1)]))
    for name in ("a1", "a2"):
        use(stage, name)
    stage.run(15)
    assert set(stage.bound()) == {"a1"}
    status, reason, message = valid(stage)
    assert (status, reason) == ("False", "InvalidSelector")
    assert message.startswith("quota[0].selectors[0]: does not compile (")
    stage.apply(policy(quota=[quota(devices=1)]))
    stage.run(15)
    assert valid(stage)[0] == "True"


def test_a_selector_that_fails_on_a_device_is_named() -> None:
    fails = [{"cel": {"expression": f"device.attributes['{GPU}'].size == 'big'"}}]
    stage = cluster(policy(quota=[quota(devices=0, selectors=fails)]))
    use(stage, "a1")
    stage.run(15)
    assert set(stage.bound()) == {"a1"}
    assert valid(stage)[:2] == ("False", "SelectorError")


def test_a_reservation_larger_than_the_inventory_is_ignored_until_it_is_not() -> None:
    stage = cluster(policy("critical", **CRITICAL, reserve=[quota(devices=3)], priority=4), gpu_count=2)
    use(stage, "a1")
    stage.run(15)
    assert set(stage.bound()) == {"a1"}
    status, reason, message = valid(stage, "critical")
    assert (status, reason) == ("False", "ReservationTooLarge")
    assert message == "reserve[0].devices: 3 devices are to be kept, but only 2 match; the reservation is ignored"
    stage.apply(node("n2"), gpus("n2", 1))
    use(stage, "a2")
    stage.run(15)
    assert valid(stage, "critical")[0] == "True"
    assert set(stage.bound()) == {"a1"}


def test_a_policy_that_means_all_it_says_is_valid() -> None:
    stage = cluster(policy(priority=3)).run(15)
    assert valid(stage) == ("True", "Accepted", "")


class RefuseTheFirstStatus(NoFaults):
    """An internal error for the first write of a policy's status."""

    def __init__(self) -> None:
        self.refused = 0

    def fate(self, decision: Decision) -> Fate:
        if isinstance(decision, WritePolicyStatus) and not self.refused:
            self.refused += 1
            return "error"
        return "served"


def test_a_status_write_that_fails_is_tried_again() -> None:
    faults = RefuseTheFirstStatus()
    stage = Stage(device_class(), policy(quota=[{"deviceClassName": "none", "devices": 1}]), faults=faults)
    stage.run(4)
    found = stage.get("AllocationPolicy", "p")
    assert faults.refused
    assert found is not None
    assert not found.get("status")
    stage.run(10)
    assert valid(stage)[:2] == ("False", "UnknownClass")


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
