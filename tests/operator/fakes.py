"""Stand-ins for what surrounds the parts of the operator: an engine, an API server's answers, time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.rest import Request, Response
from dra_operator.engine.decisions import (
    Decision,
    EvictPod,
    Outcome,
    PatchClaim,
    PatchPod,
    RecordEvent,
    WriteClaimStatus,
    WriteReport,
)


class Clock:
    """Virtual time: `sleep` returns at once and moves it on."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class FakeEngine:
    """Records what it is told; decides what `plan` says, and carries on with `releases`."""

    told: list[tuple[Any, ...]] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    plan: list[list[Decision]] = field(default_factory=list)
    decided_at: list[float] = field(default_factory=list)
    carried_on_at: list[float] = field(default_factory=list)
    releases: list[Decision] = field(default_factory=list)
    wake: float | None = None
    breaks_on: Callable[[str, dict[str, Any]], bool] = lambda kind, item: False
    crash: Exception | None = None
    waiting: int = 0

    def observe(self, kind: str, type: str, object: dict[str, Any], now: float) -> None:
        if self.breaks_on(kind, object):
            raise ValueError("bad object")
        self.told.append((type, kind, object["metadata"]["name"]))

    def synced(self, kind: str) -> None:
        self.told.append(("SYNCED", kind))

    def replaced(self, kind: str, keys: set[Key], now: float) -> None:
        self.told.append(("REPLACED", kind, frozenset(key.name for key in keys)))

    def decide(self, now: float) -> list[Decision]:
        if self.crash:
            error, self.crash = self.crash, None
            raise error
        self.decided_at.append(now)
        return self.plan.pop(0) if self.plan else []

    def carry_on(self, now: float) -> list[Decision]:
        self.carried_on_at.append(now)
        released, self.releases = self.releases, []
        return released

    def settle(self, outcome: Outcome, now: float) -> None:
        self.outcomes.append(outcome)

    def next_wake(self, now: float) -> float | None:
        return self.wake

    def journal(self) -> list[Any]:
        return []

    def phases(self) -> dict[str, int]:
        return {"Queued": self.waiting}


class FakeSender:
    """Holds every request until `answer` is called, or answers by `script` at once."""

    def __init__(self, script: Callable[[Request], Response] | None = None) -> None:
        self.script = script
        self.sent: list[Request] = []
        self._open: dict[str, asyncio.Future[Response]] = {}

    async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response:
        self.sent.append(request)
        if self.script:
            return self.script(request)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._open[request.path] = future
        return await future

    def answer(self, path: str, status: int = 200, **body: Any) -> None:
        self._open.pop(path).set_result(Response(status, body))

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.sent]


@dataclass
class Writes:
    """The loop's view of a writer that keeps what it is given."""

    given: list[tuple[Decision, int]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    urgent_waiting: int = 0

    def submit(self, decisions: Iterable[Decision], tag: int) -> None:
        self.given.extend((decision, tag) for decision in decisions)

    def drop(self, reason: str) -> None:
        self.dropped.append(reason)


def status_write(number: int, name: str = "c") -> WriteClaimStatus:
    return WriteClaimStatus(number, Key("ns", name), f"u-{name}", {"metadata": {"name": name}}, "allocate")


def claim_patch(number: int, name: str = "c") -> PatchClaim:
    return PatchClaim(number, Key("ns", name), f"u-{name}", {}, "protect")


def ungate(number: int, name: str = "p") -> PatchPod:
    return PatchPod(number, Key("ns", name), f"u-{name}", {}, None)


def evict(number: int, name: str = "p") -> EvictPod:
    return EvictPod(number, Key("ns", name), f"u-{name}", "preempted")


def report(number: int, name: str = "c", **status: Any) -> WriteReport:
    return WriteReport(number, "ClaimReport", Key("ns", name), {"metadata": {"name": name}, "status": status})


def event(number: int, note: str = "n", uid: str = "u") -> RecordEvent:
    regarding = {"kind": "Pod", "namespace": "ns", "name": "p", "uid": uid}
    return RecordEvent(number, regarding, "Normal", "Allocated", "Allocate", note)


CLAIM_STATUS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/{}/status"
POD = "/api/v1/namespaces/ns/pods/{}"


async def turn(times: int = 5) -> None:
    """Let every task that can run do so."""
    for _ in range(times):
        await asyncio.sleep(0)
