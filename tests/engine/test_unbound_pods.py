"""A pod has lost its gate and is not bound: how long kube-scheduler is waited for."""

from __future__ import annotations

import pytest

from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from tests.engine.stage import device_class, gpus, node
from tests.engine.test_rejections import NOW, stored_claim, ungated_pod

FAILED = "0/2 nodes are available: running PreBind plugin: forbidden"


@pytest.mark.parametrize(
    ("others", "moved_at"),
    [
        ([], 10),
        ([("tried", FAILED)], 10),
        ([("untried", None)], 60),
    ],
    ids=["nobody else waits", "the others were tried as well", "others have not been tried yet"],
)
def test_its_claim_is_moved(others: list[tuple[str, str | None]], moved_at: int) -> None:
    engine = Engine()
    pods = [ungated_pod(4, FAILED, at=NOW)]
    for name, message in others:
        other = ungated_pod(4, message, at=NOW)
        other["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        pods.append(other)
    for item in (node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1), device_class(), stored_claim(5, allocated=True)):
        engine.observe(item["kind"], "ADDED", item, NOW)
    for item in pods:
        engine.observe("Pod", "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    now, moved = NOW, None
    while moved is None and now < NOW + 100:
        written = [item for item in engine.decide(now) if isinstance(item, WriteClaimStatus)]
        moved = now - NOW if written else None
        wake = engine.next_wake(now)
        assert wake is not None
        now = max(wake, now + 0.5)
    assert moved is not None
    assert moved_at <= moved < moved_at + 1
