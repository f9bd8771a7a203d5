from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest

from dra_operator.operator.metrics import Metrics
from dra_operator.operator.probes import Probes


@dataclass
class Rig:
    idle: float = 0.0
    missing: list[str] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    port: int = 0

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    probes = Probes(made.metrics, idle_for=lambda: made.idle, missing=lambda: made.missing, stale=30)
    made.port = await probes.start(0, "127.0.0.1")
    yield made
    await probes.stop()


async def test_healthy_while_the_loop_turns(rig: Rig) -> None:
    assert await rig.get("/healthz") == (200, "ok\n")
    rig.idle = 31
    status, text = await rig.get("/healthz")
    assert status == 503
    assert "31 s" in text


async def test_ready_once_all_kinds_are_listed(rig: Rig) -> None:
    rig.missing = ["Pod", "Node"]
    assert await rig.get("/readyz") == (503, "not listed yet: Pod, Node\n")
    rig.missing = []
    assert (await rig.get("/readyz"))[0] == 200


async def test_metrics_are_in_the_text_format(rig: Rig) -> None:
    rig.metrics.leader.set(1)
    status, text = await rig.get("/metrics")
    assert status == 200
    assert "dra_operator_leader 1.0" in text
    assert "dra_operator_synced 1.0" in text
    assert "_created" not in text


async def test_a_port_that_is_taken_is_an_error(rig: Rig) -> None:
    second = Probes(rig.metrics, idle_for=lambda: 0, missing=list, stale=30)
    with pytest.raises(OSError, match="address already in use"):
        await second.start(rig.port, "127.0.0.1")
