"""The writes under way: what was sent, what it assumes, and what an answer, or none, means for that.

An allocation takes its devices from the moment it is decided. That assumption ends when our own watch delivers a newer version of
the claim (what it shows is then the truth) or when the API server has said for certain that the write did not happen. A write
without an answer may have happened and is repeated as it was: the resourceVersion makes it harmless, and choosing other devices
meanwhile would not be. A write that was refused for good (an admission policy of somebody else says no, the object is gone and our
watch lags behind) is not decided again at once, or it would be sent as fast as the API server can refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from dra_operator.api.claims import Allocation
from dra_operator.engine.decisions import EvictPod, Outcome, PatchClaim, PatchPod, WriteClaimStatus
from dra_operator.engine.timers import Timers
from dra_operator.queue.units import UnitKey

ObjectWrite = WriteClaimStatus | PatchClaim | PatchPod | EvictPod
#: Seconds from a denial to the next try: the first time, and up to how much it doubles each further time in a row.
_PAUSE, _LONGEST_PAUSE = 0.1, 300.0


class Stage(Enum):
    SENT = "sent"
    RETRY = "no answer, to be repeated"
    WRITTEN = "written, our watch has not shown it yet"
    REFUSED = "conflict, our watch has not shown the newer object yet"
    DENIED = "refused for good, to be decided anew after a pause"


class Effect(Enum):
    """What an outcome means for the unit."""

    WAIT = "wait for the watch"
    REPEAT = "to be repeated as it was"
    FAILED = "refused for certain: the assumption is gone"
    DENIED = "as FAILED, and nothing is written to the object before a pause is over"
    UNKNOWN = "not a write of ours (any more)"


@dataclass(slots=True)
class Write:
    """`version` is the resourceVersion of the object it was based on (0 for pods, whose patches carry none)."""

    decision: ObjectWrite
    unit: UnitKey | None
    version: int
    stage: Stage
    since: float
    allocation: Allocation | None = None
    node: str | None = None
    uncertain: bool = False
    attempts: int = 1

    @property
    def denied(self) -> bool:
        """It was not carried out and will not be: only the object is left in peace for a while."""
        return self.stage is Stage.DENIED

    @property
    def assumed(self) -> Allocation | None:
        """What the claim has if the write has happened, or will."""
        return None if self.denied else self.allocation


class Writes:
    """At most one write an object at a time, by the object's UID."""

    def __init__(self, *, retry_after: float, forget_after: float) -> None:
        self._retry_after, self._forget_after = retry_after, forget_after
        self._open: dict[str, Write] = {}
        self._in_flight: dict[int, str] = {}
        #: How often in a row an object's writes were denied.
        self._denials: dict[str, int] = {}
        self._last_id = 0
        #: By UID: when to repeat what was not answered, and when to give up what the watch does not show.
        self._retries: Timers[str] = Timers()
        self._late: Timers[str] = Timers()

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def get(self, uid: str) -> Write | None:
        return self._open.get(uid)

    def __iter__(self) -> Iterator[Write]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def placing(self) -> bool:
        """Whether an allocation, or letting its pod go, is on its way."""
        under_way = (write.decision for write in self._open.values() if write.stage in (Stage.SENT, Stage.WRITTEN))
        return any(isinstance(decision, WriteClaimStatus | PatchPod) for decision in under_way)

    def allocating(self, uid: str) -> bool:
        """Whether an allocation of this claim is on its way, and nothing has gone wrong with it."""
        write = self._open.get(uid)
        return write is not None and write.allocation is not None and write.stage in (Stage.SENT, Stage.WRITTEN)

    def begin(
        self,
        decision: ObjectWrite,
        unit: UnitKey | None,
        *,
        version: int,
        now: float,
        allocation: Allocation | None = None,
        node: str | None = None,
    ) -> None:
        """Note a write as sent. Raises RuntimeError if the object has one open: two could both be carried out."""
        if decision.uid in self._open:
            raise RuntimeError(f"{self._open[decision.uid].decision} is not settled, so this must wait: {decision}")
        self._open[decision.uid] = Write(decision, unit, version, Stage.SENT, now, allocation, node)
        self._in_flight[decision.id] = decision.uid

    def settle(self, outcome: Outcome, now: float) -> tuple[Effect, Write | None]:
        """Take an answer in. Returns what it means, and the write."""
        uid = self._in_flight.pop(outcome.decision.id, None)
        write = self._open.get(uid) if uid is not None else None
        if uid is None or write is None or write.decision.id != outcome.decision.id:
            return Effect.UNKNOWN, None
        if outcome.ok:
            if isinstance(write.decision, EvictPod) and write.decision.dry_run:
                self._end(uid)
                return Effect.WAIT, write
            self._await(uid, write, Stage.WRITTEN, now)
            self._denials.pop(uid, None)
            return Effect.WAIT, write
        evicting = isinstance(write.decision, EvictPod)
        if evicting and outcome.status == 429:
            self._end(uid)  # the disruption budget says no: not to be repeated, others are chosen
            return Effect.FAILED, write
        # A conflict says nothing about an eviction: the pod changed meanwhile, or is another one, which the watch will show.
        conflict = evicting and outcome.status == 409
        if conflict or outcome.status in (0, 408, 429) or outcome.status >= 500:
            write.stage, write.uncertain = Stage.RETRY, write.uncertain or outcome.status not in (409, 429)
            self._retries.set(uid, now + self._retry_after * min(2 ** (write.attempts - 1), 30))
            return Effect.REPEAT, write
        if write.version and (outcome.status == 409 or write.uncertain):
            # Somebody else was faster, or our own unanswered write was: the watch will tell.
            self._await(uid, write, Stage.REFUSED, now)
            return Effect.WAIT, write
        if write.allocation is not None and outcome.status != 404:
            self._end(uid)  # its unit backs off
            return Effect.FAILED, write
        self._deny(uid, write, outcome.status, now)
        return Effect.DENIED, write

    def _deny(self, uid: str, write: Write, status: int, now: float) -> None:
        """Keep the object waiting: until our watch shows that it is gone, or for twice as long as the last time."""
        write.stage = Stage.DENIED
        if status == 404:
            self._late.set(uid, now + self._forget_after)
            return
        times = self._denials.get(uid, 0)
        self._denials[uid] = times + 1
        self._late.set(uid, now + min(_PAUSE * 2.0 ** min(times, 16), _LONGEST_PAUSE))

    def seen(self, uid: str, version: int) -> Write | None:
        """Our watch has delivered the object at `version`; returns the write that this ends."""
        write = self._open.get(uid)
        return None if write is None or version <= write.version else self._end(uid)

    def gone(self, uid: str) -> Write | None:
        """The object is deleted, or what the write wanted is there."""
        self._denials.pop(uid, None)
        return self._end(uid)

    def repeats(self, now: float) -> list[ObjectWrite]:
        """The unanswered writes that are due again, each with a new id."""
        due = []
        for uid in self._retries.due(now):
            write = self._open[uid]
            write.decision = replace(write.decision, id=self.next_id())
            write.stage, write.attempts = Stage.SENT, write.attempts + 1
            self._in_flight[write.decision.id] = uid
            due.append(write.decision)
        return due

    def expired(self, now: float) -> list[Write]:
        """Writes to be given up: their answer was clear but the watch has not shown what came of it, or their pause is over."""
        late = [self._end(uid) for uid in self._late.due(now)]
        return [write for write in late if write is not None]

    def next_wake(self) -> float | None:
        times = (self._retries.next(), self._late.next())
        return min((time for time in times if time is not None), default=None)

    def _await(self, uid: str, write: Write, stage: Stage, now: float) -> None:
        """Until the watch shows it."""
        write.stage, write.since = stage, now
        self._late.set(uid, now + self._forget_after)

    def _end(self, uid: str) -> Write | None:
        write = self._open.pop(uid, None)
        if write is not None:
            self._retries.drop(uid)
            self._late.drop(uid)
        return write


def status_body(raw: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """The claim as last seen with another status, for UpdateStatus."""
    return {**raw, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "status": status}
