"""Order, bounds, leadership right before the write, one outcome for every decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_operator.cluster.kubernetes.client import Unreachable, Withdrawn
from dra_operator.cluster.rest import Request, Response
from dra_operator.engine.decisions import Decision
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import EventSettings, LoopSettings, Settings
from dra_operator.operator.writer import NOT_LEADER, Writer, Written
from tests.operator.fakes import (
    CLAIM_STATUS,
    POD,
    Clock,
    FakeSender,
    claim_patch,
    event,
    evict,
    report,
    status_write,
    turn,
    ungate,
)

OK = lambda request: Response(200, {})  # noqa: E731


class Rig:
    def __init__(self, sender: FakeSender, **changes: Any) -> None:
        self.sender = sender
        self.done: list[Written] = []
        self.leading = True
        self.clock = Clock()
        #: By how much what the clock shows differs from the steady one.
        self.shift = 0.0
        loop = changes.pop("loop", LoopSettings())
        self.metrics = Metrics()
        self.writer = Writer(
            sender, replace(Settings(loop=loop), **changes), self.metrics,
            leads=lambda: self.leading, done=self.done.append,
            clock=lambda: self.clock.now + self.shift, steady=self.clock, instance="test",
        )  # fmt: skip

    @property
    def results(self) -> list[tuple[int, int, str]]:
        return [(written.outcome.decision.id, written.outcome.status, written.outcome.reason) for written in self.done]


def kinds(sender: FakeSender) -> list[str]:
    return [request.path.rsplit("/", 2)[-2 if request.method == "PATCH" else -1] for request in sender.sent]


async def test_pods_then_claims_then_evictions_then_reports_then_events() -> None:
    rig = Rig(FakeSender(OK), loop=LoopSettings(writes=1, background_writes=1))
    decisions: list[Decision] = [
        event(1), report(2, phase="Reserved"), evict(3, "e"), ungate(4), claim_patch(5, "d"), status_write(6),
    ]  # fmt: skip
    rig.writer.submit(decisions, 0)
    await turn(20)
    assert [written.outcome.decision.id for written in rig.done] == [4, 5, 6, 3, 2, 1]


async def test_a_pod_that_has_its_devices_overtakes_allocations_that_wait() -> None:
    rig = Rig(FakeSender(OK), loop=LoopSettings(writes=1))
    rig.writer.submit([status_write(number, f"c{number}") for number in range(1, 5)], 0)
    rig.writer.submit([ungate(5)], 0)
    await turn(20)
    assert [written.outcome.decision.id for written in rig.done] == [1, 5, 2, 3, 4]


@pytest.mark.parametrize("answer", [200, 403, 409, 500])
async def test_a_pod_that_is_not_pinned_is_nominated_before_it_is_let_go(answer: int) -> None:
    """Whatever comes of the nomination: it only spares kube-scheduler the other nodes."""
    rig = Rig(FakeSender(lambda request: Response(answer if request.path.endswith("/status") else 200, {})))
    rig.writer.submit([replace(ungate(1, "free"), node="n1"), replace(ungate(2, "pinned"), node="n1", pinned="n1")], 0)
    await turn(20)
    assert [path for path in rig.sender.paths if "free" in path] == [POD.format("free") + "/status", POD.format("free")]
    assert [path for path in rig.sender.paths if "pinned" in path] == [POD.format("pinned")]
    (nomination,) = [request for request in rig.sender.sent if request.path.endswith("/status")]
    assert nomination.body == {"metadata": {"uid": "u-free"}, "status": {"nominatedNodeName": "n1"}}
    assert [(number, status) for number, status, _ in sorted(rig.results)] == [(1, 200), (2, 200)]


async def test_a_pod_is_not_let_go_by_a_replica_that_lost_the_lead_while_it_nominated() -> None:
    rig = Rig(FakeSender())
    rig.writer.submit([replace(ungate(1, "free"), node="n1")], 0)
    await turn()
    rig.leading = False
    rig.sender.answer(POD.format("free") + "/status")
    await turn(20)
    assert rig.sender.paths == [POD.format("free") + "/status"]
    assert [reason for _, _, reason in rig.results] == [NOT_LEADER]


async def test_a_report_that_guards_an_eviction_is_not_left_to_the_end() -> None:
    rig = Rig(FakeSender(OK), loop=LoopSettings(writes=1, background_writes=1))
    rig.writer.submit([report(1, "a", phase="Reserved"), report(2, "b", phase="Preempting", hold={"nodes": ["n"]})], 0)
    await turn(20)
    assert [written.outcome.decision.id for written in rig.done] == [2, 1]


async def test_decisions_about_one_object_keep_their_order_and_never_overlap() -> None:
    rig = Rig(FakeSender())
    rig.writer.submit([evict(1), ungate(2), status_write(3)], 0)
    await turn()
    assert sorted(rig.sender.paths) == sorted([POD.format("p") + "/eviction", CLAIM_STATUS.format("c")])
    rig.sender.answer(POD.format("p") + "/eviction")
    await turn()
    assert rig.sender.paths[-1] == POD.format("p")


async def test_no_more_writes_at_once_than_allowed() -> None:
    rig = Rig(FakeSender(), loop=LoopSettings(writes=2, background_writes=1))
    rig.writer.submit([status_write(number, f"c{number}") for number in range(5)], 0)
    await turn()
    assert rig.sender.paths == [CLAIM_STATUS.format("c0"), CLAIM_STATUS.format("c1")]
    assert rig.writer.urgent_waiting == 3
    assert rig.metrics.registry.get_sample_value("dra_operator_waiting_writes", {"lane": "claims"}) == 3
    assert rig.metrics.registry.get_sample_value("dra_operator_writes_in_flight") == 2
    rig.sender.answer(CLAIM_STATUS.format("c1"))
    await turn()
    assert rig.sender.paths[2:] == [CLAIM_STATUS.format("c2")]


async def test_reports_wait_for_urgent_writes_but_not_for_ever() -> None:
    limits = LoopSettings(writes=1, background_writes=4, background_patience=5)
    rig = Rig(FakeSender(), loop=limits)
    rig.writer.submit([status_write(1, "a"), status_write(2, "b"), report(3, "r"), report(4, "s")], 0)
    await turn()
    assert len(rig.sender.sent) == 1
    rig.clock.now += 6
    rig.writer.submit([], 0)
    await turn()
    assert [path.rsplit("/", 1)[-1] for path in rig.sender.paths] == ["status", "claimreports"]


async def test_leadership_is_asked_right_before_each_write() -> None:
    rig = Rig(FakeSender(), loop=LoopSettings(writes=1))
    rig.writer.submit([status_write(1, "a"), status_write(2, "b")], 0)
    await turn()
    rig.leading = False
    rig.sender.answer(CLAIM_STATUS.format("a"))
    await turn()
    assert rig.sender.paths == [CLAIM_STATUS.format("a")]
    assert rig.results == [(1, 200, ""), (2, 0, "NotLeader")]
    assert [written.sent for written in rig.done] == [True, False]


async def test_a_write_that_still_waits_when_the_lead_is_lost_is_not_sent() -> None:
    """For a pause that the API server asked for, or for a connection."""

    class Throttled(FakeSender):
        async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response:
            await super().send(request, allowed=allowed)
            if not allowed():
                raise Withdrawn
            return Response(200, {})

    rig = Rig(Throttled(), loop=LoopSettings(writes=2))
    rig.writer.submit([status_write(1, "a"), replace(ungate(2), node="n1")], 0)
    await turn()
    rig.leading = False
    rig.sender.answer(CLAIM_STATUS.format("a"), 429)
    rig.sender.answer(POD.format("p") + "/status", 429)
    await turn(20)
    assert sorted(rig.results) == [(1, 0, NOT_LEADER), (2, 0, NOT_LEADER)]
    assert not any(written.sent for written in rig.done)
    assert len(rig.sender.sent) == 2


@pytest.mark.parametrize("begun", [True, False])
async def test_what_is_in_flight_is_given_up_with_the_lead(begun: bool) -> None:
    rig = Rig(FakeSender())
    rig.writer.submit([status_write(1, "a")], 0)
    if begun:
        await turn()
    rig.leading = False
    rig.writer.abandon()
    await turn()
    assert rig.results == [(1, 0, NOT_LEADER)]
    rig.leading = True
    rig.writer.submit([status_write(2, "a")], 0)
    await turn()
    assert rig.sender.paths == [CLAIM_STATUS.format("a")] * (1 + begun), "the object is free again"


async def test_observing_writes_reports_and_nothing_else() -> None:
    rig = Rig(FakeSender(OK), mode="observe")
    rig.writer.submit([status_write(1), claim_patch(2, "d"), ungate(3), evict(4, "q"), event(5), report(6)], 0)
    await turn(20)
    assert kinds(rig.sender) == ["claimreports"]
    assert {reason for _, status, reason in rig.results if status == 0} == {"ObserveMode"}
    assert len(rig.done) == 6


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Response(409, {"reason": "Conflict", "message": "old"}), (1, 409, "Conflict")),
        (Response(200, {"metadata": {}}), (1, 200, "")),
        (Unreachable("gone"), (1, 0, "NoAnswer")),
        (RuntimeError("a bug"), (1, 500, "InternalError")),
    ],
)
async def test_what_became_of_it(answer: Response | Exception, expected: tuple[int, int, str]) -> None:
    def script(request: Request) -> Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    rig = Rig(FakeSender(script))
    rig.writer.submit([status_write(1)], 7)
    await turn()
    assert rig.results == [expected]
    assert rig.done[0].tag == 7


async def test_stopping_finishes_what_is_sent_and_gives_back_the_rest() -> None:
    rig = Rig(FakeSender(), loop=LoopSettings(writes=1))
    rig.writer.submit([status_write(1, "a"), status_write(2, "b"), status_write(3, "b"), report(4)], 0)
    await turn()
    stopping = asyncio.create_task(rig.writer.stop(5))
    await turn()
    assert not stopping.done()
    rig.sender.answer(CLAIM_STATUS.format("a"))
    await stopping
    assert len(rig.sender.sent) == 1
    assert rig.results == [(2, 0, "Stopping"), (3, 0, "Stopping"), (4, 0, "Stopping"), (1, 200, "")]


async def test_stopping_does_not_wait_for_ever() -> None:
    rig = Rig(FakeSender())
    rig.writer.submit([status_write(1)], 0)
    await turn()
    await rig.writer.stop(0.01)
    await turn()
    assert rig.results == [(1, 0, "Stopping")]
    assert rig.done[0].sent


async def test_dropped_decisions_come_back_and_their_objects_are_free_again() -> None:
    rig = Rig(FakeSender(), loop=LoopSettings(writes=1))
    rig.writer.submit([status_write(1, "a"), status_write(2, "b"), status_write(3, "b")], 0)
    await turn()
    rig.writer.drop("NotLeader")
    assert rig.results == [(2, 0, "NotLeader"), (3, 0, "NotLeader")]
    rig.sender.answer(CLAIM_STATUS.format("a"))
    rig.writer.submit([status_write(4, "b")], 0)
    await turn()
    assert rig.sender.paths == [CLAIM_STATUS.format("a"), CLAIM_STATUS.format("b")]


async def test_repeated_events_are_not_written_but_settled() -> None:
    rig = Rig(FakeSender(OK))
    rig.writer.submit([event(1), event(2), event(3, note="other")], 0)
    await turn(20)
    assert len(rig.sender.sent) == 2
    assert (2, 200, "Suppressed") in rig.results


async def test_a_clock_that_is_set_back_silences_nobody() -> None:
    rig = Rig(FakeSender(OK), events=EventSettings(rate=1, burst=2, repeat=300))
    rig.writer.submit([event(1), report(2)], 0)
    await turn(20)
    rig.shift = -3600.0
    rig.clock.now += 301
    rig.writer.submit([event(3), event(4, note="other")], 0)
    await turn(20)
    assert sorted(rig.results) == [(number, 200, "") for number in (1, 2, 3, 4)]
    assert len(rig.sender.sent) == 4
