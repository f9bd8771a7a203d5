"""The scheduler's queue: by priority, then age; pods that failed wait for a change that may help, or out their back-off.

An unschedulable pod is tried again at once when something wakes it (an idle scheduler takes pods out of their back-off). After an
*error* nothing wakes it before its back-off is over: seen as +1, +4, +9, +18 s and then every 11 s.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.cluster.memory.actors.actor import Agenda

_MOST = 10.0
#: Pods whose back-off is over are moved once a second.
_FLUSH = 1.0
#: An unschedulable pod that nothing woke is tried again all the same.
_LEFTOVER = 300.0
#: A woken pod is not tried in the same instant.
_WAKE = 0.015


@dataclass(slots=True)
class _Entry:
    pod: Pod
    order: int
    active: bool = False
    in_error: bool = False
    errors: int = 0
    turn: int = 0


class SchedulingQueue:
    """`work` is called when a pod has become due."""

    def __init__(self, agenda: Agenda, work: Callable[[], None]) -> None:
        self._agenda = agenda
        self._work = work
        self._entries: dict[str, _Entry] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._order = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def add(self, pod: Pod, *, forget_backoff: bool) -> None:
        """A new pod, or one that has changed in a way that matters."""
        entry = self._entries.get(pod.meta.uid)
        if entry is None or forget_backoff:
            self._order += 1
            entry = self._entries[pod.meta.uid] = _Entry(pod, self._order)
        entry.pod = pod
        if not entry.in_error:
            self._activate(entry)

    def _activate(self, entry: _Entry) -> None:
        entry.active = True
        heapq.heappush(self._heap, (-entry.pod.priority, entry.order, entry.pod.meta.uid))

    def remove(self, uid: str) -> None:
        self._entries.pop(uid, None)

    def pop(self) -> Pod | None:
        """The next pod to try; it is inactive until it is added or woken again."""
        while self._heap:
            _, order, uid = heapq.heappop(self._heap)
            entry = self._entries.get(uid)
            if entry is not None and entry.active and entry.order == order:
                entry.active = False
                return entry.pod
        return None

    def failed(self, pod: Pod, *, error: bool) -> None:
        entry = self._entries.get(pod.meta.uid)
        if entry is None:
            return
        entry.in_error = error
        entry.turn += 1
        if error:
            wait = min(2.0**entry.errors, _MOST) + (_FLUSH if entry.errors else 0.0)
            entry.errors += 1
        else:
            entry.errors = 0
            wait = _LEFTOVER
        turn = entry.turn
        self._agenda.at(self._agenda.now + wait, lambda: self._again(pod.meta.uid, turn), background=True)

    def _again(self, uid: str, turn: int) -> None:
        entry = self._entries.get(uid)
        if entry is not None and entry.turn == turn and not entry.active:
            entry.in_error = False
            self._activate(entry)
            self._work()

    def wake(self, concerns: Callable[[Pod], bool] = lambda _: True) -> None:
        """Something changed: unschedulable pods that it concerns are tried again in a moment."""
        woken = [
            (uid, entry.turn)
            for uid, entry in self._entries.items()
            if not entry.active and not entry.in_error and concerns(entry.pod)
        ]
        if woken:
            self._agenda.at(self._agenda.now + _WAKE, lambda: self._awake(woken))

    def _awake(self, woken: list[tuple[str, int]]) -> None:
        for uid, turn in woken:
            entry = self._entries.get(uid)
            if entry is not None and entry.turn == turn and not entry.in_error:
                self._activate(entry)
        self._work()
