"""The allocation loop: the only code that touches the engine.

News and outcomes come in through `post`, decisions go out to the Writer. Nothing is awaited between two calls of the
engine that belong together, so the engine never sees half an update. Not the place for rules: when to decide is all it
knows.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import structlog

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.listing import EventType
from dra_operator.engine.decisions import Decision, Outcome
from dra_operator.operator.account import Account, Journal
from dra_operator.operator.feed import News, Observed, Replaced
from dra_operator.operator.freshness import revision_of
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import LoopSettings
from dra_operator.operator.writer import Written

log = structlog.get_logger(__name__)

#: Seconds without a crash after which the pauses between crashes start small again.
CALM = 600.0
#: Seconds by which the clock may be set back before everything that waits for a time is begun anew. Clocks that are kept right are
#: slowed down instead.
SET_BACK = 5.0


class Brain(Journal, Protocol):
    """What the loop needs of an engine."""

    def observe(self, kind: str, type: EventType, object: dict[str, object], now: float) -> None: ...
    def synced(self, kind: str) -> None: ...
    def replaced(self, kind: str, keys: set[Key], now: float) -> None: ...
    def decide(self, now: float) -> list[Decision]: ...
    def carry_on(self, now: float) -> list[Decision]: ...
    def settle(self, outcome: Outcome, now: float) -> None: ...
    def next_wake(self, now: float) -> float | None: ...


class Submit(Protocol):
    """The loop's side of the Writer."""

    @property
    def urgent_waiting(self) -> int: ...
    def submit(self, decisions: Iterable[Decision], tag: int) -> None: ...
    def drop(self, reason: str) -> None: ...


class Loop:
    """`run` until cancelled. Decides only between `lead` and `follow`, and never after `stop`."""

    def __init__(
        self,
        engine: Callable[[], Brain],
        settings: LoopSettings,
        metrics: Metrics,
        *,
        start_over: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`start_over` makes the sources forget what they told and tell everything again, for a fresh engine.

        `clock` is seconds since the epoch (the engine's time), `steady` never jumps.
        """
        self._make = engine
        self._engine: Brain | None = engine()
        self._settings = settings
        self._metrics = metrics
        self._account = Account(metrics, every=settings.heartbeat, clock=clock, steady=steady)
        self._start_over = start_over
        self._clock = clock
        self._steady = steady
        self._ahead = clock() - steady()
        self._sleep = sleep
        self._writer: Submit | None = None
        self._inbox: deque[News | Written] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._leading = False
        self._stopped = False
        self._due = False
        self._wake: float | None = None
        self._next_decision = float("-inf")
        self._generation = 0
        self._broken: dict[tuple[str, Key], int] = {}
        self._spoilt: Exception | None = None
        self._crashes = 0
        self._crashed_at = float("-inf")
        self._pause = 0.0
        self._recovery: asyncio.Task[None] | None = None
        self.last_turn = steady()
        """When the loop last turned, by `steady`; the health probe reads it."""

    def write_through(self, writer: Submit) -> None:
        """Where decisions go. Not in the constructor, because the writer reports back to this loop."""
        self._writer = writer

    # -- called from other tasks of the same event loop

    def post(self, item: News | Written) -> None:
        self._inbox.append(item)
        self._news.set()
        if len(self._inbox) > self._settings.backlog:
            self._room.clear()

    async def room(self) -> None:
        """Return when so much of what was posted has been taken in that more may come. Events come all the same."""
        await self._room.wait()

    def lead(self) -> None:
        """From now on decisions are wanted: this replica leads, and what it knows is fresh."""
        self._leading = self._due = True
        self._news.set()

    def follow(self) -> None:
        """Another replica may lead: decide nothing, take back what has not been sent, follow with a fresh engine.

        The old one waits for answers and would repeat what it did not get through, evictions too, when it leads again.
        """
        self._leading = False
        self._replace_engine(0.0, "NotLeader")

    def stop(self) -> None:
        self._stopped = True

    # -- the loop

    async def run(self) -> None:
        """Raises only what the sources raise while they start over."""
        try:
            while True:
                await self._wait()
                self.turn()
                if self._recovery and self._recovery.done() and not self._recovery.cancelled():
                    self._recovery.result()
        finally:
            if self._recovery:
                self._recovery.cancel()

    async def _wait(self) -> None:
        """Until there is something to do, or the heartbeat."""
        if self._inbox:
            await asyncio.sleep(0)  # a full batch is behind us: let the others run, then take in the rest
            return
        # Not asyncio.wait_for: before Python 3.12 it can swallow the cancellation that ends this task.
        try:
            async with asyncio.timeout(self._patience()):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
        pause = self._next_decision - self._steady()
        if pause > 0:
            await self._sleep(pause)

    def _rest(self, began: float) -> None:
        """Under load at most half of the time goes into turns that decide, and what arrives meanwhile is seen together: watches and
        writes need many short turns on the event loop for one of these."""
        backlog = self._writer is not None and self._writer.urgent_waiting > 0
        settle = self._settings.settle_backlog if backlog else self._settings.settle_events
        now = self._steady()
        self._next_decision = now + max(settle, now - began)

    def _patience(self) -> float:
        patience = self._settings.heartbeat
        # Where nothing may be decided, a time to decide that has passed would not let us wait at all.
        if self._wake is not None and self._may_decide() and self._keeps_up():
            patience = min(patience, max(0.0, self._wake - self._clock()))
        return patience

    def turn(self) -> None:
        """Take in what has come, then decide if that is called for. Never raises, never awaits."""
        self.last_turn = began = self._steady()
        self._mind_the_clock()
        self._take_in()
        if self._spoilt and not self._inbox and (self._recovery is None or self._recovery.done()):
            self._crash(self._spoilt)
        if self._inbox and self._steady() < self._next_decision:
            return  # the rest first
        if self._wanted():
            self._decide()
            self._rest(began)

    def _mind_the_clock(self) -> None:
        """With a clock that was set back by an hour the engine would wait that much longer for everything it waits for: a fresh one
        knows the time from the objects."""
        before, self._ahead = self._ahead, self._clock() - self._steady()
        back = before - self._ahead
        if back > SET_BACK and self._engine is not None:
            log.warning("the clock was set back; a fresh engine starts from a new list", seconds=round(back, 1))
            self._replace_engine(0.0, "ClockSetBack")

    def _take_in(self) -> None:
        until = self._steady() + self._settings.turn
        for _ in range(len(self._inbox)):
            if self._steady() > until:
                return
            item = self._inbox.popleft()
            if len(self._inbox) <= self._settings.backlog:
                self._room.set()
            if isinstance(item, Written):
                self._take_answer(item)
            elif self._engine is not None:
                self._learn(self._engine, item)

    def _learn(self, engine: Brain, item: News) -> None:
        try:
            match item:
                case Observed(kind=kind, type=type, item=body):
                    if self._is_broken(item):
                        return
                    engine.observe(kind, type, body, self._clock())
                case Replaced(kind, keys, first):
                    engine.replaced(kind, keys, self._clock())
                    if first:
                        engine.synced(kind)
        except Exception as error:
            if isinstance(item, Observed):
                # Left aside until it changes, or the next engine would fall over the same object. The rest is still
                # heard before this engine goes, so that one restart finds all that break it.
                self._broken[(item.kind, item.key)] = revision_of(item.item)
                log.error("an object breaks the engine and is left aside", kind=item.kind, object=str(item.key))
                self._spoilt = self._spoilt or error
            else:
                self._crash(error)
            return
        self._due = True

    def _is_broken(self, item: Observed) -> bool:
        name = (item.kind, item.key)
        if name not in self._broken:
            return False
        if item.type != "DELETED" and self._broken[name] == revision_of(item.item):
            return True
        del self._broken[name]
        return False

    def _take_answer(self, written: Written) -> None:
        outcome = written.outcome
        self._account.became(outcome)
        if self._engine is None or written.tag != self._generation:
            return  # decided by an engine that is no more; its successor has read the result, or will
        try:
            self._engine.settle(outcome, self._clock())
        except Exception as error:
            self._crash(error)
        self._due = True

    def _may_decide(self) -> bool:
        return bool(self._engine and self._writer and self._leading and not self._spoilt and not self._stopped)

    def _keeps_up(self) -> bool:
        """Whether what is decided would be written soon; else outcomes will wake us until it would."""
        return self._writer is not None and self._writer.urgent_waiting <= self._settings.ahead

    def _wanted(self) -> bool:
        if not self._may_decide():
            return False
        return self._due or (self._wake is not None and self._clock() >= self._wake and self._keeps_up())

    def _decide(self) -> None:
        assert self._engine is not None
        assert self._writer is not None
        began = self._steady()
        now = self._clock()
        try:
            if self._keeps_up():
                decisions = self._engine.decide(now)
                self._wake = self._engine.next_wake(now)
            else:
                # Pods that have their devices do not wait behind those that have none yet; the rest is due when there is room.
                decisions = self._engine.carry_on(now)
                self._wake = now
        except Exception as error:
            self._crash(error)
            return
        self._due = False
        self._account.decided(decisions, self._steady() - began)
        self._writer.submit(decisions, self._generation)
        try:
            self._account.tell(self._engine)
        except Exception as error:
            self._crash(error)

    # -- a fresh engine

    def _crash(self, error: Exception) -> None:
        """Its state may be half changed: throw it away and read everything back from the API, where all state is."""
        self._metrics.engine_crashes.inc()
        if self._steady() - self._crashed_at > CALM:
            self._crashes = 0
        self._crashed_at = self._steady()
        self._pause = min(self._settings.crash_pause * 2**self._crashes, self._settings.longest_crash_pause)
        self._crashes += 1
        log.error("the engine crashed; a fresh one starts from a new list", restart_in=self._pause, exc_info=error)
        self._replace_engine(self._pause, "EngineRestart")

    def _replace_engine(self, pause: float, reason: str) -> None:
        self._engine = self._spoilt = None
        self._wake = None
        self._generation += 1
        self._pause = pause
        self._account.close()
        if self._writer:
            self._writer.drop(reason)
        if self._stopped:
            return
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.get_running_loop().create_task(self._recover(), name="engine restart")

    async def _recover(self) -> None:
        while self._engine is None:  # it may crash again while the sources still tell everything
            await self._sleep(self._pause)
            # No await in between: no news may reach the new engine that the sources will not repeat.
            self._inbox = deque(item for item in self._inbox if isinstance(item, Written))
            self._room.set()
            self._engine = self._make()
            await self._start_over()
