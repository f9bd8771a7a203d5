"""The unit: the smallest thing allocated all-or-nothing: the claims of one pod, one bare claim, or a whole claim group."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.queue.budgets import Scope
from dra_operator.queue.fairness import NO_SHARE, Share


class UnitKey(NamedTuple):
    """The pod, the bare claim, or the ClaimGroup that the unit is made of."""

    kind: Literal["pod", "claim", "group"]
    subject: Key


@dataclass(slots=True)
class Unit:
    """One unit and how it fared so far. Times are seconds since the epoch.

    `created` orders it; `waiting_since` is None while it waits for nothing; `position` is where it stood when its
    report was last to say so; `not_before` is the end of its backoff; `lacks_node`: its
    pod did not fit some node, so room there may help it; `short_of`: budgets that keep it back, so freeing there may help it, and
    nothing else where `only_short`; `terms_of`: what its policy was last found to be, and for which claim and rules; `told_unsuitable`:
    the nodes of which an Event has said that they have its devices and do not take its pod; `tried_at`: how often devices had been
    taken when it was tried last.
    """

    key: UnitKey
    uid: str
    claims: tuple[Key, ...]
    created: float
    priority: int = 0
    effective: int = 0
    share: Share = NO_SHARE
    starved_since: float | None = None
    waiting_since: float | None = None
    attempts: int = 0
    failures: int = 0
    not_before: float = 0.0
    reason: str = ""
    message: str = ""
    impossible: bool = False
    position: int | None = None
    warnings: tuple[str, ...] = ()
    lacks_node: bool = False
    short_of: tuple[Scope, ...] = ()
    only_short: bool = False
    victims: tuple[str, ...] = ()
    preemption_note: str = ""
    terms_of: tuple[object, int, tuple[str, AllocationPolicySpec]] | None = None
    told_unsuitable: tuple[str, ...] | None = None
    tried_at: int = -1

    def block(self, reason: str, message: str) -> bool:
        """Note why it waits; returns whether that is news."""
        news = (self.reason, self.message) != (reason, message)
        self.reason, self.message = reason, message
        return news

    def back_off(self, now: float, initial: float, maximum: float) -> None:
        """Wait after a failed write or a rejected placement: doubling, capped, with up to 20 % of jitter.

        The jitter is drawn from the unit's identity, since the engine has no other randomness than its inputs.
        """
        delay = min(maximum, initial * 2.0 ** min(self.failures, 30))
        self.failures += 1
        jitter = zlib.crc32(f"{self.uid}/{self.failures}".encode()) % 1000 / 5000
        self.not_before = now + delay * (1 + jitter)


def order(unit: Unit) -> tuple[int, float, float, str]:
    """Sorts the queue: effective priority (highest first), then fair share where the policy asks for it (smallest first, FIFO units
    count as 0), then age (oldest first), then UID."""
    return (-unit.effective, unit.share.value, unit.created, unit.uid)
