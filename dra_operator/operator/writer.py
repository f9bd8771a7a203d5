"""Send decisions to the API server: what is begun first, what can wait last, a bounded number at once, one at a time for each object.

It asks before every single write whether this replica still leads, and again where a write has had to wait for its
turn or its connection. It decides nothing: each decision comes back as one Outcome, sent or not.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from dra_operator.cluster.kubernetes.client import Unreachable, Withdrawn
from dra_operator.cluster.requests import nomination_for, request_for
from dra_operator.cluster.rest import Request, Response
from dra_operator.engine.decisions import (
    Decision,
    DeleteReport,
    EvictPod,
    Outcome,
    PatchClaim,
    PatchPod,
    RecordEvent,
    WriteClaimStatus,
    WriteDeviceClass,
    WriteGroupStatus,
    WriteNetworkStatus,
    WritePolicyStatus,
    WriteReport,
)
from dra_operator.operator.events import EventGate
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import Settings

log = structlog.get_logger(__name__)

#: Reasons of outcomes that no API server gave. All but Suppressed and InternalError have status 0.
NOT_LEADER, STOPPING, OBSERVING, NO_ANSWER = "NotLeader", "Stopping", "ObserveMode", "NoAnswer"
SUPPRESSED, INTERNAL_ERROR = "Suppressed", "InternalError"


class Sender(Protocol):
    async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response: ...


class Lane(IntEnum):
    """In this order. A pod that has its devices is let go before the next one gets any: kube-scheduler has work from the first
    allocation on, and in a burst the first pods do not wait for the allocations of the last."""

    PODS = 0
    CLAIMS = 1
    EVICTIONS = 2
    REPORTS = 3
    EVENTS = 4


BACKGROUND = (Lane.REPORTS, Lane.EVENTS)


def lane_of(decision: Decision) -> Lane:
    match decision:
        case WriteClaimStatus() | PatchClaim():
            return Lane.CLAIMS
        case WriteDeviceClass():
            return Lane.EVICTIONS
        case PatchPod():
            return Lane.PODS
        case EvictPod():
            return Lane.EVICTIONS
        case WriteReport() if _guards(decision):
            return Lane.EVICTIONS
        case WriteReport() | DeleteReport() | WritePolicyStatus() | WriteGroupStatus() | WriteNetworkStatus():
            return Lane.REPORTS
        case RecordEvent():
            return Lane.EVENTS


def _guards(report: WriteReport) -> bool:
    """Whether the engine waits for this report: a hold is written before the first eviction."""
    status = report.body.get("status") or {}
    return bool(status.get("hold") or status.get("preemption"))


def object_of(decision: Decision) -> tuple[str, ...]:
    """What the decision writes; decisions about the same are sent in the order in which they were made."""
    match decision:
        case WriteClaimStatus() | PatchClaim():
            return ("ResourceClaim", *decision.claim)
        case PatchPod() | EvictPod():
            return ("Pod", *decision.pod)
        case WriteReport() | DeleteReport():
            return (decision.kind, *decision.key)
        case WritePolicyStatus():
            return ("AllocationPolicy", decision.policy)
        case WriteGroupStatus():
            return ("ClaimGroup", *decision.group)
        case WriteDeviceClass():
            return ("DeviceClass", decision.name)
        case WriteNetworkStatus():
            return ("NetworkDeviceClass", decision.name)
        case RecordEvent():
            return ("Event", str(decision.id))


class Written(NamedTuple):
    """`tag` is what came with the decision; `sent` False where the API server has never heard of it."""

    tag: int
    outcome: Outcome
    sent: bool


class _Waiting(NamedTuple):
    decision: Decision
    tag: int
    since: float
    lane: Lane


class Writer:
    """Tasks on the running event loop; `done` is called on it, once for every decision."""

    def __init__(
        self,
        sender: Sender,
        settings: Settings,
        metrics: Metrics,
        *,
        leads: Callable[[], bool],
        done: Callable[[Written], None],
        clock: Callable[[], float],
        instance: str,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: seconds since the epoch, which with `instance` goes into Events and nowhere else. `steady` never jumps."""
        self._sender = sender
        self._settings = settings
        self._metrics = metrics
        self._leads = leads
        self._done = done
        self._clock = clock
        self._instance = instance
        self._steady = steady
        self._gate = EventGate(settings.events)
        self._lanes: dict[Lane, deque[_Waiting]] = {lane: deque() for lane in Lane}
        #: Objects with a write waiting in a lane or in flight, and what waits behind it.
        self._busy: dict[tuple[str, ...], deque[_Waiting]] = {}
        self._in_flight: dict[asyncio.Task[tuple[Outcome, bool]], _Waiting] = {}
        self._closed: str | None = None
        # Asked for when somebody reads the metrics, not set with every write.
        for lane, queue in self._lanes.items():
            metrics.waiting_writes.labels(lane.name.lower()).set_function(partial(len, queue))
        metrics.writes_in_flight.set_function(partial(len, self._in_flight))

    def submit(self, decisions: Iterable[Decision], tag: int) -> None:
        for decision in decisions:
            waiting = _Waiting(decision, tag, self._steady(), lane_of(decision))
            target = object_of(decision)
            if target in self._busy:
                self._busy[target].append(waiting)
            else:
                self._busy[target] = deque()
                self._lanes[waiting.lane].append(waiting)
        self._pump()

    @property
    def urgent_waiting(self) -> int:
        return sum(len(queue) for lane, queue in self._lanes.items() if lane not in BACKGROUND)

    def drop(self, reason: str) -> None:
        """Give back everything that has not been sent."""
        while (queue := next((queue for queue in self._lanes.values() if queue), None)) is not None:
            waiting = queue.popleft()
            self._report(waiting.tag, Outcome(waiting.decision, 0, reason), sent=False)
            self._next(object_of(waiting.decision))  # may put a successor into a lane

    def abandon(self) -> None:
        """Another replica may write from now on: give up what is in flight. A request that still waits in a queue of the API server
        leaves it with its connection."""
        for task in tuple(self._in_flight):
            task.cancel()

    async def stop(self, grace: float) -> None:
        """Send nothing more and let what is in flight finish, for `grace` seconds at most."""
        self._closed = STOPPING
        self.drop(STOPPING)
        if self._in_flight:
            _, late = await asyncio.wait(tuple(self._in_flight), timeout=grace)
            for task in late:
                task.cancel()
            if late:
                log.warning("writes without an answer at the end", count=len(late))

    def _pump(self) -> None:
        """Start what may be started."""
        while (waiting := self._pick()) is not None:
            task = asyncio.create_task(self._carry_out(waiting.decision), name=f"write {waiting.lane.name.lower()}")
            self._in_flight[task] = waiting
            task.add_done_callback(self._finished)

    def _pick(self) -> _Waiting | None:
        limits = self._settings.loop
        in_background = sum(waiting.lane in BACKGROUND for waiting in self._in_flight.values())
        urgent = next((queue for lane, queue in self._lanes.items() if queue and lane not in BACKGROUND), None)
        background = next((self._lanes[lane] for lane in BACKGROUND if self._lanes[lane]), None)
        if background is not None and in_background < limits.background_writes:
            overdue = self._steady() - background[0].since > limits.background_patience
            if urgent is None or (overdue and in_background == 0):
                return background.popleft()
        if urgent is not None and len(self._in_flight) - in_background < limits.writes:
            return urgent.popleft()
        return None

    def _finished(self, task: asyncio.Task[tuple[Outcome, bool]]) -> None:
        waiting = self._in_flight.pop(task)
        if task.cancelled():
            # Perhaps before it began; whether the API server acts on it is not known.
            outcome, sent = Outcome(waiting.decision, 0, self._closed or NOT_LEADER), True
        else:
            outcome, sent = task.result()
        self._report(waiting.tag, outcome, sent)
        self._next(object_of(waiting.decision))
        self._pump()

    async def _carry_out(self, decision: Decision) -> tuple[Outcome, bool]:
        """What became of it, and whether the API server may have heard of it."""
        try:
            refusal = self._refusal(decision)
            if refusal is None and (nomination := nomination_for(decision)) is not None:
                await self._nominate(nomination)
                refusal = self._refusal(decision)
            if refusal is not None:
                return Outcome(decision, 200 if refusal == SUPPRESSED else 0, refusal), False
            return await self._send(decision), True
        except Withdrawn:
            return Outcome(decision, 0, self._closed or NOT_LEADER), False
        except Exception as error:
            # A decision that cannot be sent is a bug; it must not take the others with it.
            subject = "/".join(object_of(decision))
            log.exception("a decision cannot be sent", decision=type(decision).__name__, object=subject)
            return Outcome(decision, 500, INTERNAL_ERROR, f"{type(error).__name__}: {error}"), True

    def _may_write(self) -> bool:
        return self._closed is None and self._leads()

    def _refusal(self, decision: Decision) -> str | None:
        """Asked at the last moment before the write; None: go ahead."""
        if self._closed:
            return self._closed
        if not self._leads():
            return NOT_LEADER
        if self._settings.mode == "observe" and not isinstance(decision, WriteReport | DeleteReport):
            return OBSERVING
        if isinstance(decision, RecordEvent):
            why = self._gate.refuses(decision, self._steady())
            if why:
                self._metrics.events_dropped.labels(why).inc()
                return SUPPRESSED
        return None

    async def _nominate(self, nomination: Request) -> None:
        """It only spares kube-scheduler work, so whatever becomes of it, the pod is let go."""
        try:
            response = await self._sender.send(nomination, allowed=self._may_write)
        except Unreachable:
            return
        if not response.ok:
            log.debug(
                "a pod has no nominated node", path=nomination.path, status=response.status, reason=response.message
            )

    async def _send(self, decision: Decision) -> Outcome:
        request = request_for(decision, now=self._clock(), instance=self._instance)
        try:
            response = await self._sender.send(request, allowed=self._may_write)
        except Unreachable as error:
            return Outcome(decision, 0, NO_ANSWER, str(error))
        if response.ok:
            return Outcome(decision, response.status, object=response.body)
        return Outcome(decision, response.status, response.reason, response.message)

    def _report(self, tag: int, outcome: Outcome, sent: bool) -> None:
        kind = type(outcome.decision).__name__
        self._metrics.outcome(kind, outcome.status, outcome.reason)
        self._done(Written(tag, outcome, sent))

    def _next(self, target: tuple[str, ...]) -> None:
        """The object is free: what waited behind it goes to the head of its lane, for it has waited longest."""
        behind = self._busy.get(target)
        if not behind:
            self._busy.pop(target, None)
            return
        waiting = behind.popleft()
        self._lanes[waiting.lane].appendleft(waiting)
