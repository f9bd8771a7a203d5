"""Quotas on the embedded cluster: each sentence of docs/policies.md on them."""

from __future__ import annotations

import pytest

from dra_operator.allocator import Problem, solve
from dra_operator.allocator.problem import Result
from dra_operator.inventory import Snapshot
from tests.engine.budgeted import NEVER, attempts, cluster, quota, report, summary, use
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
)


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
    # The scheduler had made a claim for it after all: that one counts, the limits do not count besides.
    told = {
        "resourceClaimName": "made",
        "requestMappings": [{"containerName": "main", "resourceName": name, "requestName": "r"}],
    }
    stage.send("PATCH", "Pod", "a0", {"status": {"extendedResourceClaimStatus": told}}, namespace="a", sub="status")
    stage.run(10)
    assert "a2" in stage.bound()


def test_units_alike_that_a_quota_keeps_back_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more device of the quota is left, one outside it is free, and each pod wants three: no solution keeps to it."""
    solved: list[int] = []

    def counting(problem: Problem, snapshot: Snapshot) -> Result:
        solved.append(1)
        return solve(problem, snapshot)

    monkeypatch.setattr("dra_operator.engine.placing.solve", counting)
    low = {"cel": {"expression": f'device.attributes["{GPU}"].index < 4'}}
    calls = []
    for count in (3, 30):
        solved.clear()
        stage = cluster(policy(quota=[quota(selectors=[low], devices=1)], preemption=NEVER), gpu_count=5)
        for number in range(count):
            use(stage, f"a{number}", 3)
        stage.run(20)
        assert stage.bound() == {}
        assert {report(stage, f"a{number}")["phase"] for number in range(count)} == {"QuotaExceeded"}
        calls.append(len(solved))
    assert calls[0] == calls[1] > 0
