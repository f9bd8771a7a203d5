"""Which holders are looked at again when policies, priorities or namespaces change: those of whom these say something else now."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.engine import holding
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import PRIORITY_CLASS
from dra_operator.preemption.holders import Holder
from tests.engine.stage import GPU, Object, claim, device_class, gpus, namespace, node, policy, priority_class

START = 1_000_000_000.0


class Full:
    """Eight claims without pods that have all devices: a0 … a3 in one namespace, b0 … b3 in another, of which b3 names a class."""

    def __init__(self) -> None:
        self.engine, self.version = Engine(), 0
        self.put("Namespace", namespace("a"))
        self.put("Namespace", namespace("b"))
        self.put("DeviceClass", device_class())
        self.put("PriorityClass", priority_class("some", 3))
        self.put("Node", node("n"))
        self.put("ResourceSlice", gpus("n", 8))
        for number in range(8):
            where = "ab"[number // 4]
            item = claim(f"{where}{number % 4}", namespace=where)
            item["metadata"] |= {
                "uid": f"{where}{number % 4}",
                "labels": {"dra-operator.dev/managed": "true", "even": str(number % 2 == 0).lower()},
                "annotations": {PRIORITY_CLASS: "some"} if number == 7 else {},
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            }
            result = {"request": "gpu", "driver": GPU, "pool": "n", "device": f"gpu-{number}"}
            item["status"] = {"allocation": {"devices": {"results": [result]}}}
            self.put("ResourceClaim", item)
        for kind in WATCHED:
            self.engine.synced(kind)
        self.engine.decide(START)

    def put(self, kind: str, item: Object) -> None:
        self.version += 1
        item["metadata"] = {"uid": f"u{self.version}", **item["metadata"], "resourceVersion": str(self.version)}
        self.engine.observe(kind, "ADDED", item, START)

    def settle(self) -> dict[str, Holder]:
        self.engine._holding.settle(START)
        return {holder.uid: holder for holder in self.engine._holding.index.on("n")}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """UIDs of the holders that are made anew."""
    found: list[str] = []
    make = holding.make_holder

    def noted(state: Any, tied: Any, uid: str, **more: Any) -> Any:
        found.append(uid)
        return make(state, tied, uid, **more)

    monkeypatch.setattr(holding, "make_holder", noted)
    return found


LABELLED = namespace("b", team="x")
OF_TEAM = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize(
    ("changes", "anew", "priority"),
    [
        ([], "", 0),
        ([("Namespace", namespace("other"))], "", 0),
        ([("Namespace", LABELLED)], "", 0),
        ([("PriorityClass", priority_class("other", 9))], "", 0),
        ([("PriorityClass", priority_class("some", 9))], "b3", 9),
        ([("AllocationPolicy", policy(priority=5))], "a0 a1 a2 a3 b0 b1 b2", 5),
        ([("AllocationPolicy", policy(priority=5, claimSelector={"matchLabels": {"even": "true"}}))], "a0 a2 b0 b2", 5),
        ([("AllocationPolicy", policy(priority=5, **OF_TEAM))], "", 0),
        ([("AllocationPolicy", policy(priority=5, **OF_TEAM)), ("Namespace", LABELLED)], "b0 b1 b2", 5),
        ([("AllocationPolicy", policy(quota={"limits": []}))], "", 0),
    ],
)
def test_those_are_looked_at_again_whose_standing_changed(
    changes: list[tuple[str, Object]], anew: str, priority: int, made: list[str]
) -> None:
    full = Full()
    before = {uid: holder.priority for uid, holder in full.settle().items()}
    made.clear()
    for kind, item in changes:
        full.put(kind, item)
    after = {uid: holder.priority for uid, holder in full.settle().items()}
    assert sorted(made) == anew.split()
    assert before == {"b3": 3, **dict.fromkeys(("a0", "a1", "a2", "a3", "b0", "b1", "b2"), 0)}
    assert after == {**before, **dict.fromkeys(anew.split(), priority)}


def test_who_may_not_be_preempted_any_more_is_looked_at_again(made: list[str]) -> None:
    full = Full()
    full.settle()
    made.clear()
    full.put("AllocationPolicy", policy(preemptible=False, claimSelector={"matchLabels": {"even": "true"}}))
    assert [uid for uid, holder in sorted(full.settle().items()) if not holder.preemptible] == ["a0", "a2", "b0", "b2"]
    full.engine.observe("AllocationPolicy", "DELETED", {"metadata": {"name": "p"}}, START)
    assert all(holder.preemptible for holder in full.settle().values())
    assert sorted(made) == sorted(2 * ["a0", "a2", "b0", "b2"])


def test_nobody_is_looked_at_again_right_after_the_start(made: list[str]) -> None:
    """All was known before the first holder was made."""
    full = Full()
    assert len(made) == 8
    full.settle()
    assert len(made) == 8
