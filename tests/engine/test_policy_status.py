"""What in a policy means nothing is named in its status, and the rest works."""

from __future__ import annotations

from dra_operator.cluster.memory.faults import Fate, NoFaults
from dra_operator.engine.decisions import Decision, WritePolicyStatus
from tests.engine.budgeted import CRITICAL, cluster, quota, report, use
from tests.engine.stage import (
    GPU,
    Stage,
    device_class,
    gpus,
    node,
    policy,
)


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
