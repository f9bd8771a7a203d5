"""What holding the Lease means for the work on the main event loop: begin it, end it, and know before every write.

Whether the Lease is held is `election`'s to say, from a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from dra_operator.operator.election import Term, since_boot
from dra_operator.operator.metrics import Metrics

log = structlog.get_logger(__name__)

#: Where nobody asks for the Lease.
ENDLESS = Term(1, float("inf"))


class Leadership:
    """`leads` at any time; call `look` on the event loop whenever the term may have begun or ended.

    Invariant: `leads()` is True only in a term for which `gained` was begun, and only until that term's end by our own clock, also
    where the event loop stood still and nobody has told us yet.
    """

    def __init__(
        self,
        term: Callable[[], Term | None],
        metrics: Metrics,
        *,
        gained: Callable[[], Awaitable[None]],
        lost: Callable[[], None],
        steady: Callable[[], float] = since_boot,
    ) -> None:
        """`term`: the present one, None where another replica may lead. `gained` runs as a task, cancelled if leadership is lost
        meanwhile."""
        self._term = term
        self._metrics = metrics
        self._gained = gained
        self._lost = lost
        self._steady = steady
        #: The term we lead in; 0: none.
        self._number = 0
        self._resigned = False
        self._asked = asyncio.Event()
        self._broken = asyncio.Event()
        self._error: Exception | None = None
        self._taking_over: asyncio.Task[None] | None = None

    def leads(self) -> bool:
        """Cheap: asked before every write."""
        term = self._term()
        return term is not None and term.number == self._number and self._steady() < term.until

    async def run(self) -> None:
        """Wait for ever. Raises what a take-over ended with: a replica that holds the Lease and decides nothing must not stay."""
        await self._broken.wait()
        assert self._error is not None
        raise self._error

    async def asked(self) -> None:
        """Return when it is known for the first time whether the Lease is ours."""
        await self._asked.wait()

    def look(self) -> None:
        """Follow the term. Losing it and getting it back while the event loop stood still is both losing and getting it."""
        term = self._term()
        number = term.number if term and not self._resigned else 0
        if number != self._number:
            if self._number:
                self._end()
            if number:
                self._begin(number)
        # Last: what a new leader wants listed is asked for before the first lists begin, and they serve both.
        self._asked.set()

    def resign(self) -> None:
        """Lead no more, whatever becomes of the Lease."""
        self._resigned = True
        self.look()

    def _begin(self, number: int) -> None:
        self._number = number
        self._metrics.leader.set(1)
        self._metrics.leadership_changes.labels("gained").inc()
        log.info("leading", term=number)
        self._taking_over = asyncio.get_running_loop().create_task(self._take_over(), name="take over")

    async def _take_over(self) -> None:
        try:
            await self._gained()
        except Exception as error:
            self._error = error
            self._broken.set()

    def _end(self) -> None:
        self._number = 0
        self._metrics.leader.set(0)
        self._metrics.leadership_changes.labels("lost").inc()
        log.info("no longer leading")
        if self._taking_over:
            self._taking_over.cancel()
            self._taking_over = None
        self._lost()
