"""Runs an engine in a world, as the operator runs it on a real cluster: watch events in, requests out, with latencies and faults.

What the operator process would be: when it is killed, all it knew is gone, and a new one lists everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.faults import Faults, NoFaults
from dra_operator.cluster.memory.identity import OPERATOR, User
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.store import Change, key_of
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.memory.world import DECIDE, World
from dra_operator.cluster.memory.world import OPERATOR as OPERATOR_RANK
from dra_operator.cluster.requests import request_for
from dra_operator.cluster.rest import CLAIM_REPORTS, DEVICE_CLASS_REPORTS, ENGINE_KINDS, Resource, Response
from dra_operator.engine.decisions import (
    Decision,
    Outcome,
    RecordEvent,
    WriteGroupStatus,
    WriteNetworkStatus,
    WritePolicyStatus,
    WriteReport,
)

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class EnginePort(Protocol):
    """What the runner needs of `engine.Engine`."""

    def observe(self, kind: str, type: EventType, object: Object, now: float) -> None: ...
    def synced(self, kind: str) -> None: ...
    def replaced(self, kind: str, keys: set[Key], now: float) -> None: ...
    def decide(self, now: float) -> Iterable[Decision]: ...
    def settle(self, outcome: Outcome, now: float) -> None: ...
    def next_wake(self, now: float) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Usual seconds: a change to the operator's watch, a request to the server, its answer back, a killed operator to its restart."""

    watch: float = 0.005
    request: float = 0.002
    answer: float = 0.002
    restart: float = 1.0
    relist: float = 0.5


@dataclass(frozen=True, slots=True)
class Executed:
    """One decision carried out. `response` is what the server answered, None where the request never got there."""

    at: float
    decision: Decision
    response: Response | None


class Runner:
    """One operator process in a world; `engine` is the running engine, None while it is down.

    `executed` collects what was carried out, `listeners` hear of each at once.
    """

    def __init__(
        self,
        world: World,
        make_engine: Callable[[], EnginePort],
        *,
        user: User = OPERATOR,
        timing: Timing | None = None,
        faults: Faults | None = None,
        instance: str = "memory",
    ) -> None:
        self.engine: EnginePort | None = None
        self.executed: list[Executed] = []
        self.listeners: list[Callable[[Executed], None]] = []
        self.restarts = 0
        self._world = world
        self._make_engine = make_engine
        self._user = user
        self._timing = timing or Timing()
        self._faults: Faults = faults or NoFaults()
        self._instance = instance
        self._life = 0
        self._streams: dict[Resource, _Stream] = {}
        self._deciding_at: float | None = None
        self._wake: float | None = None
        world.server.store.subscribe(self._on_change)

    # -- life and death

    def start(self) -> None:
        """A new process: list every kind, then follow the watches."""
        self._life += 1
        self.engine = self._make_engine()
        self._deciding_at = self._wake = None
        self._streams = {resource: _Stream() for resource in ENGINE_KINDS}
        for resource in ENGINE_KINDS:
            for item in self._world.server.store.listed(resource):
                self.engine.observe(resource.kind, "ADDED", item, self._world.now)
            self.engine.synced(resource.kind)
        self._decide_soon()

    def kill(self) -> None:
        """The process is gone at once; another one is started later."""
        if self.engine is None:
            return
        self.engine = None
        self._life += 1
        self.restarts += 1
        self._world.at(self._world.now + self._timing.restart, self.start, rank=OPERATOR_RANK)

    def stop(self) -> None:
        """The process ends for good."""
        self.engine = None
        self._life += 1

    def _while_alive(self, act: Callable[[], None]) -> Callable[[], None]:
        """`act`, unless the process that arranged it has gone by then."""
        life = self._life

        def guarded() -> None:
            if life == self._life:
                act()

        return guarded

    # -- watches

    def _on_change(self, resource: Resource, change: Change) -> None:
        stream = self._streams.get(resource)
        if self.engine is None or stream is None or stream.broken:
            return
        background = resource in (CLAIM_REPORTS, DEVICE_CLASS_REPORTS)
        if self._faults.drops_watch(resource.kind):
            stream.broken = True
            stream.number += 1
            again = self._world.now + self._faults.delay(self._timing.relist)
            self._world.at(again, self._while_alive(lambda: self._relist(resource)), rank=OPERATOR_RANK)
            return
        # A watch keeps its order, however slow one of its events is.
        stream.last = max(stream.last, self._world.now + self._faults.delay(self._timing.watch))
        number = stream.number

        def deliver() -> None:
            if number == stream.number and self.engine is not None:
                self.engine.observe(resource.kind, _event_type(change.type), change.object, self._world.now)
                self._decide_soon()

        self._world.at(stream.last, self._while_alive(deliver), background=background, rank=OPERATOR_RANK)

    def _relist(self, resource: Resource) -> None:
        if self.engine is None:
            return
        stream = self._streams[resource]
        stream.broken = False
        items = self._world.server.store.listed(resource)
        for item in items:
            self.engine.observe(resource.kind, "MODIFIED", item, self._world.now)
        self.engine.replaced(resource.kind, {key_of(item) for item in items}, self._world.now)
        self._decide_soon()

    # -- decisions

    def _decide_soon(self) -> None:
        """Decide once everything that falls on this instant has been seen."""
        if self._deciding_at == self._world.now:
            return
        self._deciding_at = self._world.now
        self._world.at(self._world.now, self._while_alive(self._decide), rank=DECIDE)

    def _decide(self) -> None:
        if self.engine is None:
            return
        self._deciding_at = None
        for decision in self.engine.decide(self._world.now):
            self._submit(decision)
        self._sleep()

    def _sleep(self) -> None:
        """Be woken when the engine asks for it."""
        if self.engine is None:
            return
        wake = self.engine.next_wake(self._world.now)
        if wake is None or (self._wake is not None and self._world.now < self._wake <= wake):
            return
        self._wake = wake

        def woken() -> None:
            if self._wake == wake:
                self._wake = None
            self._decide_soon()

        self._world.at(wake, self._while_alive(woken), background=True, rank=OPERATOR_RANK)

    def _submit(self, decision: Decision) -> None:
        arrival = self._world.now + self._faults.delay(self._timing.request)
        background = isinstance(decision, _QUIET)
        self._world.at(
            arrival, self._while_alive(lambda: self._arrive(decision)), background=background, rank=OPERATOR_RANK
        )

    def _arrive(self, decision: Decision) -> None:
        """The request reaches the server, or does not."""
        if self._faults.kills(decision, "before"):
            self.kill()
            return
        fate = self._faults.fate(decision)
        response: Response | None = None
        if fate == "conflict":
            response = Refused(409, "Conflict", "injected: the object has been modified").response()
        elif fate == "error":
            response = Refused(500, "InternalError", "injected: internal error").response()
        elif fate == "denied":
            response = Refused(403, "Forbidden", "injected: denied by an admission policy").response()
        elif fate != "lost":
            request = request_for(decision, now=self._world.now, instance=self._instance)
            response = self._world.server.handle(request, self._user)
        self._note(Executed(self._world.now, decision, response))
        if self._faults.kills(decision, "after"):
            self.kill()
            return
        answer = None if fate in ("lost", "unanswered") else response
        when = self._world.now + self._faults.delay(self._timing.answer)
        background = isinstance(decision, _QUIET)
        settle = self._while_alive(lambda: self._settle(decision, answer))
        self._world.at(when, settle, background=background, rank=OPERATOR_RANK)

    def _note(self, executed: Executed) -> None:
        self.executed.append(executed)
        for listener in self.listeners:
            listener(executed)

    def _settle(self, decision: Decision, response: Response | None) -> None:
        if self.engine is None:
            return
        if response is None:
            outcome = Outcome(decision, 0, "Timeout", "no answer")
        else:
            body = response.body if response.ok else None
            outcome = Outcome(decision, response.status, response.reason, response.message, body)
        self.engine.settle(outcome, self._world.now)
        self._decide_soon()


#: Decisions that nothing else waits for: a run may end before they are carried out.
_QUIET = (WriteReport, WritePolicyStatus, WriteGroupStatus, WriteNetworkStatus, RecordEvent)


class _Stream:
    """One watch: when its last event arrives, and which of its connections that was."""

    __slots__ = ("broken", "last", "number")

    def __init__(self) -> None:
        self.last = 0.0
        self.number = 0
        self.broken = False


def _event_type(text: str) -> EventType:
    return "ADDED" if text == "ADDED" else "DELETED" if text == "DELETED" else "MODIFIED"
