"""What the loop does, told to people: in the log and as metrics. Decides nothing and keeps no state that matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from dra_operator.api.meta import parse_time
from dra_operator.engine.decisions import Decision, Outcome, PatchClaim, RecordEvent, WriteClaimStatus
from dra_operator.operator.metrics import Metrics

if TYPE_CHECKING:
    from dra_operator.engine.phases import PhaseChange

log = structlog.get_logger(__name__)


class Journal(Protocol):
    """An engine's own account of itself."""

    def journal(self) -> Sequence[PhaseChange]: ...
    def phases(self) -> dict[str, int]: ...
    @property
    def waiting(self) -> int: ...


class Account:
    def __init__(
        self, metrics: Metrics, *, every: float, clock: Callable[[], float], steady: Callable[[], float]
    ) -> None:
        """`every`: seconds between two looks at all claims. `clock` is seconds since the epoch, `steady` never jumps."""
        self._metrics = metrics
        self._every = every
        self._clock = clock
        self._steady = steady
        self._phases: set[str] = set()
        self._told_at = float("-inf")

    def decided(self, decisions: Sequence[Decision], seconds: float) -> None:
        """One pass of the engine, and how long it took."""
        self._metrics.decide_seconds.observe(seconds)
        for decision in decisions:
            self._metrics.decisions.labels(type(decision).__name__, _action(decision)).inc()

    def became(self, outcome: Outcome) -> None:
        """What became of a decision."""
        decision = outcome.decision
        if not outcome.ok:
            # A conflict or an object that is gone is what happens between two watchers of one world.
            level = log.debug if outcome.status in (404, 409) else log.info
            level(
                "write failed",
                decision=type(decision).__name__, status=outcome.status, reason=outcome.reason, message=outcome.message,
            )  # fmt: skip
        elif isinstance(decision, WriteClaimStatus) and decision.action == "allocate" and outcome.object:
            created = _created(outcome.object)
            if created is not None:
                self._metrics.allocation_seconds.observe(max(0.0, self._clock() - created))

    def tell(self, engine: Journal) -> None:
        """The engine's own account. Raises what the engine raises."""
        for change in engine.journal():
            if change.starved_for is not None:
                self._metrics.claim_starved_seconds.observe(change.starved_for)
            log.info(
                "claim",
                claim=str(change.claim), phase=change.phase, reason=change.reason, message=change.message,
                node=change.node,
            )  # fmt: skip
        if self._steady() - self._told_at < self._every:
            return
        self._told_at = self._steady()
        self._metrics.waiting.set(engine.waiting)
        phases = engine.phases()
        self._phases |= phases.keys()
        for phase in self._phases:
            self._metrics.claims.labels(phase).set(phases.get(phase, 0))

    def close(self) -> None:
        """There is no engine to tell of."""
        self._metrics.waiting.set(0)
        for phase in self._phases:
            self._metrics.claims.labels(phase).set(0)


def _action(decision: Decision) -> str:
    """The metric's label: of an Event its reason, so that collisions, moves and the like can be counted."""
    match decision:
        case RecordEvent():
            return decision.reason
        case WriteClaimStatus() | PatchClaim():
            return decision.action
        case _:
            return ""


def _created(item: dict[str, object]) -> float | None:
    metadata = item.get("metadata")
    try:
        return parse_time(metadata.get("creationTimestamp")) if isinstance(metadata, dict) else None
    except ValueError:
        return None
