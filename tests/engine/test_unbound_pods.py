"""A pod has lost its gate and is not bound: how long kube-scheduler is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import UNGATED_AT
from tests.engine.stage import Object, device_class, gpus, node
from tests.engine.test_rejections import NOW, stored_claim, ungated_pod

FAILED = "0/2 nodes are available: running PreBind plugin: forbidden"


LET_GO = format_time(NOW)


def running(pods: list[Object], claim: Object | None = None) -> Engine:
    engine = Engine()
    known = stored_claim(5, allocated=True) if claim is None else claim
    for item in (node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class(), known):
        engine.observe(item["kind"], "ADDED", item, NOW)
    for item in pods:
        engine.observe("Pod", "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    return engine


@pytest.mark.parametrize(
    ("own", "others", "moved_at"),
    [
        (LET_GO, [], 10),
        (LET_GO, [("tried", FAILED, LET_GO)], 10),
        (LET_GO, [("untried", None, LET_GO)], 60),
        (LET_GO, [("untried", None, "yesterday")], 10),
        ("yesterday", [], 0),
        (format_time(NOW + 3600), [], 10),
    ],
    ids=[
        "nobody else waits",
        "the others were tried as well",
        "others have not been tried yet",
        "others, and somebody wrote into the annotation what is no time",
        "and somebody wrote what is no time into its own annotation: since its allocation, long ago",
        "a leader before us let it go, whose clock is ahead",
    ],
)
def test_its_claim_is_moved(own: str, others: list[tuple[str, str | None, str]], moved_at: int) -> None:
    pods = []
    for name, message, let_go in (("p", FAILED, own), *others):
        item = ungated_pod(4, message)
        item["metadata"] |= {"name": name, "uid": f"uid-{name}", "annotations": {UNGATED_AT: let_go}}
        pods.append(item)
    engine = running(pods)
    now, moved = NOW, None
    while moved is None and now < NOW + 100:
        written = [item for item in engine.decide(now) if isinstance(item, WriteClaimStatus)]
        moved = now - NOW if written else None
        wake = engine.next_wake(now)
        assert wake is not None
        now = max(wake, now + 0.5)
    assert moved is not None
    assert moved_at <= moved < moved_at + 1


@pytest.mark.parametrize(
    ("true", "at", "moved_at"),
    [
        (None, 0, 600),
        (["Attached"], 0, 600),
        (["Attached", "Powered"], 300, 310),
        (["Attached", "Failed"], 300, 300),
    ],
    ids=["nothing is said of it yet", "one of two conditions", "both, at 300 s", "it failed at 300 s"],
)
def test_a_device_that_must_be_made_ready_is_given_the_time_that_kube_scheduler_gives_it(
    true: list[str] | None, at: int, moved_at: int
) -> None:
    """What kube-scheduler said of the pod is from before: it was bound to nothing when its devices failed or its gate went early."""
    claim = stored_claim(5, allocated=True)
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    device |= {"bindingConditions": ["Attached", "Powered"], "bindingFailureConditions": ["Failed"]}
    claim["status"]["allocation"]["allocationTimestamp"] = format_time(NOW)
    engine = running([ungated_pod(4, FAILED, at=NOW)], claim)
    since = [{"type": name, "status": "True", "lastTransitionTime": format_time(NOW + at)} for name in true or ()]
    told = {**claim, "metadata": {**claim["metadata"], "resourceVersion": "6"}, "status": {**claim["status"]}}
    told["status"]["devices"] = [{name: device[name] for name in ("driver", "pool", "device")} | {"conditions": since}]
    moved = None
    for now in range(0, 640, 5):
        if now == at and true:
            engine.observe("ResourceClaim", "MODIFIED", told, NOW + now)
        if moved is None and any(isinstance(each, WriteClaimStatus) for each in engine.decide(NOW + now)):
            moved = now
    assert moved is not None
    assert moved_at <= moved <= moved_at + 5


@pytest.mark.parametrize("behind", [0, 3600])
def test_a_pod_that_was_just_let_go_is_given_its_time_whatever_the_clock_of_who_did_it(behind: int) -> None:
    engine = running([])
    engine.decide(NOW)
    item = ungated_pod(4, FAILED)
    item["metadata"]["annotations"] = {UNGATED_AT: format_time(NOW + 20 - behind)}
    engine.observe("Pod", "ADDED", item, NOW + 20)
    moved = {now for now in range(20, 40) for each in engine.decide(NOW + now) if isinstance(each, WriteClaimStatus)}
    assert min(moved) in (29, 30)


class Unwalked(dict[Key, Pod]):
    """Pods that may be asked for by name only."""

    def values(self) -> Any:
        raise AssertionError("all pods are looked at")


def test_whether_others_have_been_tried_is_known_without_a_look_at_all_pods() -> None:
    engine = running([ungated_pod(4, FAILED, at=NOW)])
    view = engine._state.view
    view.pods = Unwalked(view.pods)
    moved = [item for item in engine.decide(NOW + 11) if isinstance(item, WriteClaimStatus)]
    assert len(moved) == 1
