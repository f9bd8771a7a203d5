"""Pods that wait for a claim that is not there: an Event says so.

There is no claim whose report could tell, and kube-scheduler says nothing of a pod that has a scheduling gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.membership import Membership, Standing
from dra_operator.engine.names import GATE
from dra_operator.engine.state import State, pod_reference


@dataclass(slots=True)
class _Wait:
    uid: str
    missing: str
    since: float
    told: bool = False


class Incomplete:
    """`note` is called whenever a pod is looked at, `ring` when its alarm goes, `forget` when it is gone. A pod is told once of each
    thing it waits for."""

    def __init__(self, state: State, alarms: Alarms) -> None:
        self._state, self._alarms = state, alarms
        self._waits: dict[Key, _Wait] = {}

    def note(self, pod: Pod, found: Membership, now: float) -> None:
        """Whether it waits for a claim that is not there, and since when."""
        key = pod.meta.key
        if found.standing is not Standing.INCOMPLETE or GATE not in pod.gates:
            self.forget(key)
            return
        wait = self._waits.get(key)
        if wait is None or (wait.uid, wait.missing) != (pod.meta.uid, found.missing):
            self._waits[key] = _Wait(pod.meta.uid, found.missing, now)
            # An alarm of its own: most pods have their claims long before, and need no other look for it.
            self._alarms.set(now + self._state.settings.missing_grace, "incomplete", key)

    def ring(self, key: Key, now: float) -> None:
        """Once it has waited for `missing_grace` seconds there is an Event."""
        wait, pod = self._waits.get(key), self._state.view.pods.get(key)
        if wait is None or wait.told or pod is None or now < wait.since + self._state.settings.missing_grace:
            return
        wait.told = True
        self._state.event(pod_reference(pod), "Warning", "WaitingForClaim", "Allocate", f"waits: {wait.missing}")

    def forget(self, key: Key) -> None:
        self._waits.pop(key, None)
