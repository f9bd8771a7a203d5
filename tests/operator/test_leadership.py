"""Replicas, one Lease, virtual time."""

from __future__ import annotations

import asyncio
import copy
import heapq
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_operator.cluster.kubernetes.client import Unreachable
from dra_operator.cluster.rest import Request, Response
from dra_operator.operator.election import Election
from dra_operator.operator.leadership import ENDLESS, Leadership
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import LeadershipSettings


class World:
    """One Lease and a clock that all replicas sleep by."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lease: dict[str, Any] | None = None
        self.revision = 0
        self.replicas: list[Replica] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, id(future), future))
        await future

    async def pass_time(self, seconds: float) -> None:
        """Let `seconds` go by; never do two replicas lead meanwhile."""
        end = self.now + seconds
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            self.check()
            if not self._sleepers or self._sleepers[0][0] > end:
                break
            self.wake_one()
        self.now = end
        self.check()

    def wake_one(self) -> None:
        """Time moves on to the end of the shortest sleep."""
        self.now, _, future = heapq.heappop(self._sleepers)
        if not future.done():
            future.set_result(None)

    def check(self) -> None:
        assert len(self.leaders) <= 1, f"two leaders at {self.now}"

    @property
    def leaders(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.leadership.leads()]

    def replica(self, name: str, **changes: Any) -> Replica:
        made = Replica(self, name, **changes)
        self.replicas.append(made)
        return made

    def answer(self, request: Request) -> Response:
        match request.method:
            case "GET" if self.lease is None:
                return Response(404, {"reason": "NotFound"})
            case "GET":
                return Response(200, copy.deepcopy(self.lease))
            case "POST" if self.lease is not None:
                return Response(409, {"reason": "AlreadyExists", "message": "exists"})
            case "PUT" if request.body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return Response(409, {"reason": "Conflict", "message": "conflict"})
        self.revision += 1
        self.lease = copy.deepcopy(request.body)
        self.lease["metadata"]["resourceVersion"] = str(self.revision)
        return Response(200, copy.deepcopy(self.lease))


class Replica:
    def __init__(self, world: World, name: str, **changes: Any) -> None:
        self.world = world
        self.name = name
        self.reachable = True
        #: The whole process runs nothing before.
        self.frozen_until = 0.0
        #: Its main event loop runs nothing before.
        self.stuck_until = 0.0
        #: Seconds since its allocation loop turned.
        self.idle = 0.0
        self.history: list[str] = []
        self.take_over: asyncio.Event | None = None
        self.election = Election(
            LeadershipSettings(**changes), identity=name, changed=self._changed, idle_for=lambda: self.idle,
            steady=lambda: world.now, clock=lambda: world.now, sleep=self.sleep,
        )  # fmt: skip
        self.leadership = Leadership(
            lambda: self.election.term, Metrics(),
            gained=self._gained, lost=lambda: self.history.append("lost"), steady=lambda: world.now,
        )  # fmt: skip
        self.task = asyncio.create_task(self.election.keep(self))
        self._told: set[asyncio.Task[None]] = set()

    def _changed(self) -> None:
        task = asyncio.create_task(self._look())
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def _look(self) -> None:
        if self.world.now < self.stuck_until:
            await self.world.sleep(self.stuck_until - self.world.now)
        self.leadership.look()

    async def sleep(self, seconds: float) -> None:
        await self.world.sleep(seconds)
        if self.world.now < self.frozen_until:
            await self.world.sleep(self.frozen_until - self.world.now)

    async def release(self) -> None:
        self.leadership.resign()
        self.election.resign()
        await self.task

    async def _gained(self) -> None:
        self.history.append("gained")
        if self.take_over:
            try:
                await self.take_over.wait()
            except asyncio.CancelledError:
                self.history.append("take-over cancelled")
                raise

    async def send(self, request: Request, *, within: float | None = None) -> Response:
        await asyncio.sleep(0)
        if not self.reachable:
            await self.world.sleep(within or 1)
            raise Unreachable("no route")
        return self.world.answer(request)

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.election.term = None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    for replica in made.replicas:
        await replica.kill()


async def test_the_first_one_makes_the_lease_and_leads(world: World) -> None:
    first, second = world.replica("a"), world.replica("b")
    await world.pass_time(60)
    assert world.leaders == [first]
    assert first.history == ["gained"]
    assert second.history == []
    assert world.lease is not None
    spec = world.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 1)
    assert spec["renewTime"] > spec["acquireTime"]


async def test_a_killed_leader_is_followed_within_twenty_seconds(world: World) -> None:
    first = world.replica("a")
    await world.pass_time(1)
    second = world.replica("b")
    await world.pass_time(30)
    await first.kill()
    waited = 0
    while not second.leadership.leads():
        await world.pass_time(1)
        waited += 1
        assert waited <= 20
    assert waited >= 12, "not before the lease has run out"
    assert world.lease is not None
    assert world.lease["spec"]["leaseTransitions"] == 2


async def test_a_released_lease_is_taken_at_the_next_attempt(world: World) -> None:
    first = world.replica("a")
    await world.pass_time(1)
    second = world.replica("b")
    await world.pass_time(10)
    await first.release()
    assert not first.leadership.leads()
    assert first.history == ["gained", "lost"]
    await world.pass_time(3)
    assert world.leaders == [second]


@pytest.mark.parametrize("steps", range(8))
async def test_a_lease_is_released_for_good_whatever_a_renewal_is_doing(world: World, steps: int) -> None:
    """The renewal has got `steps` steps far when the Lease is given up, and the replica goes on for a moment."""
    first = world.replica("a")
    await world.pass_time(1)
    world.wake_one()
    for _ in range(steps):
        await asyncio.sleep(0)
    await first.release()
    await world.pass_time(5)
    assert world.lease is not None
    assert world.lease["spec"]["holderIdentity"] == ""
    assert first.history == ["gained", "lost"]
    assert not first.leadership.leads()


async def test_a_leader_cut_off_stops_writing_before_another_begins(world: World) -> None:
    first = world.replica("a")
    await world.pass_time(1)
    second = world.replica("b")
    await world.pass_time(10)
    first.reachable = False
    await world.pass_time(11)
    assert world.leaders == [], "neither: the old one stopped, the new one waits"
    await world.pass_time(9)
    assert world.leaders == [second]
    first.reachable = True
    await world.pass_time(30)
    assert world.leaders == [second]
    assert first.history == ["gained", "lost"]


async def test_a_lease_renewed_too_late_is_gained_anew(world: World) -> None:
    """Alone, with the API server away for a while: what we know may be old when it is back."""
    only = world.replica("a")
    await world.pass_time(10)
    only.reachable = False
    await world.pass_time(60)
    only.reachable = True
    await world.pass_time(10)
    assert world.leaders == [only]
    assert only.history == ["gained", "lost", "gained"]


@pytest.mark.parametrize(("seconds", "leader"), [(4, "a"), (7, "a"), (12, "a"), (22, "b")])
async def test_a_process_that_stands_still(world: World, seconds: float, leader: str) -> None:
    """As without any processor time. It writes nothing until it has renewed, and goes on where nobody else took over."""
    first, _ = world.replica("a"), world.replica("b")
    await world.pass_time(10)
    first.frozen_until = world.now + seconds
    await world.pass_time(seconds - 0.1)
    assert first.leadership.leads() is (seconds < 10)
    await world.pass_time(5)
    assert [replica.name for replica in world.leaders] == [leader]
    assert first.history == (["gained"] if leader == "a" else ["gained", "lost"])


async def test_an_event_loop_that_stands_still_keeps_the_lease(world: World) -> None:
    """As during a pass of a minute."""
    first, _ = world.replica("a"), world.replica("b")
    await world.pass_time(10)
    first.stuck_until = world.now + 59
    for _ in range(60):
        await world.pass_time(1)
        assert world.leaders == [first]
    assert first.history == ["gained"]


async def test_a_loop_that_never_turns_again_is_left_to_another_replica(world: World) -> None:
    first, second = world.replica("a"), world.replica("b")
    await world.pass_time(10)
    first.idle, first.stuck_until = 61.0, world.now + 1000
    await world.pass_time(10)
    assert world.leaders == [], "it writes nothing although nobody told it"
    await world.pass_time(20)
    assert world.leaders == [second]
    first.idle = 0.0
    second.idle = 61.0
    await world.pass_time(60)
    assert world.leaders == [], "the first one holds it again, and has not begun anything in this term"
    assert first.election.term is not None
    await world.pass_time(1000)
    assert world.leaders == [first]
    assert first.history == ["gained", "lost", "gained"]


async def test_one_failed_renewal_changes_nothing(world: World) -> None:
    only = world.replica("a")
    await world.pass_time(10)
    only.reachable = False
    await world.pass_time(4)
    only.reachable = True
    await world.pass_time(10)
    assert only.history == ["gained"]


async def test_somebody_else_in_the_lease_ends_it_at_once(world: World) -> None:
    only = world.replica("a")
    await world.pass_time(10)
    assert world.lease is not None
    world.lease["spec"].update(holderIdentity="admin", renewTime="now")
    await world.pass_time(3)
    assert world.leaders == []
    assert only.history == ["gained", "lost"]
    await world.pass_time(20)
    assert world.leaders == [only], "and it comes back when that one does not renew"


async def test_losing_it_while_taking_over_ends_the_taking_over(world: World) -> None:
    only = world.replica("a")
    only.take_over = asyncio.Event()
    await world.pass_time(1)
    assert world.lease is not None
    world.lease["spec"].update(holderIdentity="admin", renewTime="now")
    await world.pass_time(3)
    assert only.history == ["gained", "lost", "take-over cancelled"]


async def test_restarts_under_the_same_clock_wait_for_the_old_identity(world: World) -> None:
    first = world.replica("a_1")
    await world.pass_time(5)
    await first.kill()
    second = world.replica("a_2")
    await world.pass_time(12)
    assert world.leaders == []
    await world.pass_time(8)
    assert world.leaders == [second]


async def test_without_election_there_is_nothing_to_ask() -> None:
    history: list[str] = []

    async def gained() -> None:
        history.append("gained")

    alone = Leadership(lambda: ENDLESS, Metrics(), gained=gained, lost=lambda: history.append("lost"))
    alone.look()
    await alone.asked()
    await asyncio.sleep(0)
    assert alone.leads()
    assert history == ["gained"]


async def test_the_end_of_the_lease_is_noticed_when_it_comes(world: World) -> None:
    """Not at the attempt after it: what is under way is given up before another replica may write."""
    only = world.replica("a")
    await world.pass_time(10)
    only.reachable = False
    while only.leadership.leads():
        await world.pass_time(0.1)
    await world.pass_time(1.1)
    assert only.history == ["gained", "lost"]


async def test_a_take_over_that_fails_is_not_kept_quiet() -> None:
    async def gained() -> None:
        raise RuntimeError("a bug")

    alone = Leadership(lambda: ENDLESS, Metrics(), gained=gained, lost=lambda: None)
    alone.look()
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(alone.run(), 30)
