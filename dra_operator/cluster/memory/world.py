"""Virtual time: delivers every change to every actor a fixed delay later, one instant after the other.

Deterministic: what falls on one instant happens in the order of rank, then in the order it was arranged. Nothing waits, nothing
runs in parallel.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dra_operator.cluster.memory.actors.actor import Actor
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.rest import CLAIM_REPORTS, DEVICE_CLASS_REPORTS, EVENTS, LEASES, Resource

#: Where virtual time starts when nothing else is said: 2027-01-01T00:00:00Z.
EPOCH = 1_798_761_600.0

#: Order of what falls on one instant: what a person does, the actors, and the operator after all of them.
STEP, ACTORS, OPERATOR, DECIDE = range(4)

#: Changes of these kinds do not keep a world from being idle: they only tell what happened.
_REMARKS = frozenset({EVENTS, LEASES, CLAIM_REPORTS, DEVICE_CLASS_REPORTS})


class Clock:
    """Seconds since the epoch; only a world moves it."""

    def __init__(self, now: float = EPOCH) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass(order=True, slots=True)
class _Appointment:
    when: float
    rank: int
    number: int
    act: Callable[[], None] = field(compare=False)
    background: bool = field(compare=False)


class World:
    """A server, its actors and a clock. `after_step` is called after every instant's every act, e.g. to check invariants."""

    def __init__(self, server: MemoryServer, actors: Sequence[Actor], clock: Clock) -> None:
        self.clock = clock
        self.after_step: list[Callable[[], None]] = []
        self._server = server
        self._appointments: list[_Appointment] = []
        self._numbers = itertools.count()
        self._foreground = 0
        self._changed = clock.now
        self._watchers: dict[Resource, list[tuple[Actor, float]]] = {}
        self._inboxes: dict[tuple[int, float], list[tuple[Resource, Change]]] = {}
        for actor in actors:
            actor.attach(self)
            for resource, delay in actor.watches.items():
                self._watchers.setdefault(resource, []).append((actor, delay))
        self.actors = tuple(actors)
        server.store.subscribe(self._on_change)
        for resource in self._watchers:
            for item in server.store.listed(resource):
                self._deliver(resource, Change(server.store.version, "ADDED", item, None, clock.now))

    @property
    def now(self) -> float:
        return self.clock.now

    @property
    def server(self) -> MemoryServer:
        return self._server

    def at(self, when: float, act: Callable[[], None], *, background: bool = False, rank: int = ACTORS) -> None:
        """Call `act` at `when`, or now if that is past. Background acts do not keep `run_until_idle` going by themselves."""
        appointment = _Appointment(max(when, self.now), rank, next(self._numbers), act, background)
        heapq.heappush(self._appointments, appointment)
        self._foreground += not background

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource not in _REMARKS:
            self._changed = self.now
        self._deliver(resource, change)

    def _deliver(self, resource: Resource, change: Change) -> None:
        for actor, delay in self._watchers.get(resource, ()):
            due = self.now + delay
            box = self._inboxes.get((id(actor), due))
            if box is not None:
                box.append((resource, change))
                continue
            self._inboxes[id(actor), due] = [(resource, change)]
            self.at(due, lambda actor=actor, due=due: self._open(actor, due), background=resource in _REMARKS)  # type: ignore[misc]

    def _open(self, actor: Actor, due: float) -> None:
        for resource, change in self._inboxes.pop((id(actor), due)):
            actor.on_change(resource, change)
        actor.work()

    def step(self) -> bool:
        """Do the next thing there is to do, moving the clock to it; False when there is none."""
        if not self._appointments:
            return False
        appointment = heapq.heappop(self._appointments)
        self._foreground -= not appointment.background
        self.clock.now = max(self.clock.now, appointment.when)
        appointment.act()
        for check in self.after_step:
            check()
        return True

    @property
    def next_time(self) -> float | None:
        return self._appointments[0].when if self._appointments else None

    def run_until(self, when: float) -> None:
        """Everything up to and including `when`; the clock ends there."""
        while self._appointments and self._appointments[0].when <= when:
            self.step()
        self.clock.now = max(self.clock.now, when)

    def run_until_idle(self, *, quiet: float = 330.0, limit: float = 30 * 86400.0) -> bool:
        """Until nothing is left to do but retries, and `quiet` seconds of those have changed nothing; False if `limit` came first.

        The default covers the longest retry of any actor (the scheduler's five minutes).
        """
        end = self.now + limit
        self._changed = self.now
        while self._appointments:
            due = self._appointments[0].when
            if due > end:
                return False
            if not self._foreground and due > self._changed + quiet:
                return True
            self.step()
        return True
