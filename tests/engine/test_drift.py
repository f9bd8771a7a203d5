"""Claims whose devices are lost or no longer match: what is remembered, and that moving them goes one by one and loops nowhere."""

from __future__ import annotations

import pytest

from dra_operator.engine.decisions import EvictPod
from dra_operator.engine.settings import EngineSettings
from tests.engine.gangs import LABEL, group
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
    template,
    workload,
)


def at_least(memory: int) -> Object:
    return device_class("high-mem", f'device.driver == "{GPU}" && device.attributes["{GPU}"].memory >= {memory}')


def cluster(large: int) -> list[Object]:
    """A node with GPUs of 40, and one for as many of 80 as are asked for."""
    return [
        at_least(40),
        node("n1"),
        gpus("n1", 4, memory=40),
        node("n2"),
        *([gpus("n2", large, memory=80)] if large else []),
    ]


def evictions(stage: Stage) -> list[tuple[float, str]]:
    done = [each for each in stage.runner.executed if isinstance(each.decision, EvictPod)]
    return [(each.at, each.decision.pod.name) for each in done if isinstance(each.decision, EvictPod)]


def test_the_report_tells_the_class_as_it_was_and_as_it_is() -> None:
    stage = Stage(*cluster(0), claim("c", of="high-mem")).run(40)
    before = stage.report("c")["classes"]
    stage.apply(at_least(80))
    stage.run(10)
    report = stage.report("c")

    assert [(item["name"], item["generation"], "drift" in item) for item in before] == [("high-mem", 1, False)]
    [entry] = report["classes"]
    assert (entry["hash"], entry["generation"]) == (before[0]["hash"], 1)
    assert entry["now"]["generation"] == 2
    assert entry["now"]["hash"] != entry["hash"]
    assert entry["drift"].startswith(
        "gpu.example.com/n1/gpu-0 (memory >= 80, it has 40) no longer matches class high-mem"
    )
    condition = next(item for item in report["conditions"] if item["type"] == "Drifted")
    assert (condition["status"], condition["reason"]) == ("True", "ClassChanged")

    stage.apply(at_least(40))
    stage.run(10)
    report = stage.report("c")
    condition = next(item for item in report["conditions"] if item["type"] == "Drifted")
    assert (report["phase"], condition["status"], condition["reason"]) == ("Allocated", "False", "AsAllocated")
    assert stage.events("DevicesMatch") == ["the allocated devices are as they should be again"]


def test_an_edit_that_the_devices_still_match_is_no_drift() -> None:
    stage = Stage(*cluster(0), claim("c", of="high-mem")).run(40)
    stage.apply(at_least(20))
    stage.run(40)

    report = stage.report("c")
    assert report["phase"] == "Allocated"
    assert [sorted(item) for item in report["classes"]] == [["generation", "hash", "name", "now"]]


def test_pods_are_restarted_one_after_another() -> None:
    stage = Stage(
        *cluster(0), policy(onClassChange="Reallocate"), template(of="high-mem"), workload("Deployment", "web", 3)
    )
    stage.run(10)
    stage.apply(gpus("n2", 3, memory=80), at_least(80))
    left = []
    stage.runner.listeners.append(
        lambda each: left.append(len(stage.bound())) if isinstance(each.decision, EvictPod) else None
    )
    stage.run(60)

    assert left == [2, 2, 2]
    assert [device.partition("/")[0] for device in stage.taken()] == ["n2"] * 3


def test_no_more_are_restarted_than_there_are_devices() -> None:
    stage = Stage(
        *cluster(0), policy(onClassChange="Reallocate"), template(of="high-mem"), workload("Deployment", "web", 3)
    )
    stage.run(10)
    stage.apply(gpus("n2", 1, memory=80), at_least(80))
    stage.run(300)

    assert len(evictions(stage)) == 1
    assert len(stage.bound()) == 3
    assert sorted(stage.phases().values()) == ["Drifted", "Drifted", "Reserved"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_claim_that_pods_share_by_name_is_moved_with_them(restarted: bool) -> None:
    """The successor must not start on the old device before the claim is free."""
    stage = Stage(*cluster(0), policy(onClassChange="Reallocate"), claim("shared", of="high-mem"))
    deployment = workload("Deployment", "web", 1, templates=[])
    deployment["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "shared"}]
    stage.apply(deployment)
    stage.run(10)
    assert stage.devices("shared") == ["n1/gpu-0"]
    stage.apply(gpus("n2", 1, memory=80), at_least(80))
    stage.until(lambda: evictions(stage))
    if restarted:
        stage.runner.kill()
    stage.run(60)

    assert stage.devices("shared") == ["n2/gpu-0"]
    assert list(stage.bound().values()) == ["n2"]
    assert len(evictions(stage)) == 1


def test_a_driver_upgrade_churns_nothing() -> None:
    """Every slice is published anew under the next generation, the ones of a pool one after the other, with a newer driver version."""
    objects = [node("n1"), node("n2"), device_class(), template(), workload("Deployment", "web", 3)]
    objects.append(policy(starvation={"after": "1h"}))  # no hold, which follows what is free
    stage = Stage(*objects, *in_two_slices("n1", 1), *in_two_slices("n2", 1)).run(5)
    stage.apply(claim("big", 2), pod("late", "big"))
    stage.run(60)
    [unit] = stage.engines[-1]._state.waiting.values()
    tries, written = unit.attempts, len(stage.runner.executed)
    for generation in (2, 3):
        for name in ("n1", "n2"):
            for published in in_two_slices(name, generation):
                stage.apply(published)
                stage.run(0.5)
    stage.run(20)

    assert {type(each.decision).__name__ for each in stage.runner.executed[written:]} <= {"WriteReport"}
    assert len(stage.bound()) == 3
    assert unit.attempts - tries == 4, "once for each pool that is complete again"
    assert stage.report("big")["phase"] == "Queued"


def in_two_slices(name: str, generation: int) -> list[Object]:
    slices = []
    for part in (0, 1):
        found = gpus(name, 2, driverVersion=f"1.{generation}")
        found["metadata"]["name"] += f"-{part}"
        found["spec"]["devices"] = found["spec"]["devices"][part : part + 1]
        found["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": 2}
        slices.append(found)
    return slices


def test_a_pool_that_stays_incomplete_loses_nobody() -> None:
    stage = Stage(node("n1"), device_class(), *in_two_slices("n1", 1), claim("c", 2)).run(20)
    stage.apply(in_two_slices("n1", 2)[0])
    stage.run(60)
    assert stage.report("c")["phase"] == "Allocated"
    stage.delete("ResourceSlice", "n1-gpus-1")
    stage.delete("ResourceSlice", "n1-gpus-0")
    stage.run(4)
    assert stage.phases() == {"c": "Allocated"}, "a driver that starts anew may withdraw its slices for a moment"
    stage.run(20)
    assert stage.phases() == {"c": "Unsatisfiable"}, "nobody uses it, so it gave its devices back"


def test_observing_moves_nothing() -> None:
    stage = Stage(*cluster(1), policy(onClassChange="Reallocate"), claim("c", of="high-mem"))
    stage.run(10)
    stage.apply(at_least(80))
    stage.runner.stop()
    observer = type(stage.runner)(stage.world, lambda: stage._engine(EngineSettings(mode="observe")))
    observer.start()
    stage.run(30)

    assert {type(each.decision).__name__ for each in observer.executed} <= {"WriteReport"}


def test_members_of_a_group_are_not_restarted_and_the_reports_say_so() -> None:
    gang = workload("Job", "training", 2, templates=["gpu"])
    gang["spec"]["template"]["metadata"]["labels"][LABEL] = "gang"
    stage = Stage(*cluster(0), policy(onClassChange="Reallocate"), template(of="high-mem"), group(members=2), gang)
    stage.run(10)
    before = stage.bound()
    stage.apply(gpus("n2", 2, memory=80), at_least(80))
    stage.run(120)

    assert evictions(stage) == []
    assert len(before) == 2
    assert stage.bound() == before
    for item in stage.objects("ClaimReport"):
        summary = item["status"]["explanation"]["summary"]
        assert item["status"]["phase"] == "Drifted"
        assert "it stays where it is: pod default/training-" in summary
        assert summary.endswith(
            "is a member of ClaimGroup default/gang, which starts together or not at all, so onClassChange does not "
            "restart it; to move the group, delete all of its pods at once"
        )

    for name in before:
        stage.delete("Pod", name)
    stage.run(60)
    assert sorted(stage.bound().values()) == ["n2", "n2"]


@pytest.mark.parametrize("admin", [False, True])
def test_who_evicts_from_tainted_devices_makes_no_exception_for_admin_access(admin: bool) -> None:
    wanted = claim("c")
    wanted["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = admin
    labelled = namespace("default", **{"resource.kubernetes.io/admin-access": "true"})
    stage = Stage(labelled, device_class(), node("n1"), gpus("n1", 1), wanted).run(10)
    stage.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "broken", "effect": "NoExecute"}},
        }
    )
    stage.run(20)
    # Nobody uses it, so it is given up; and as the device is tainted for everybody, it waits.
    assert not stage.devices("c")
    assert "1 has taints that are not tolerated" in stage.report("c")["conditions"][0]["message"]


def test_a_claim_with_admin_access_to_a_device_that_is_gone_is_lost() -> None:
    wanted = claim("c")
    wanted["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    labelled = namespace("default", **{"resource.kubernetes.io/admin-access": "true"})
    stage = Stage(labelled, device_class(), node("n1"), gpus("n1", 1), wanted, pod("p", "c")).run(40)
    assert stage.report("c")["phase"] == "Reserved"
    stage.delete("ResourceSlice", gpus("n1", 1)["metadata"]["name"])
    stage.run(40)
    assert (stage.report("c")["phase"], stage.report("c")["reason"]) == ("Lost", "DeviceGone")
