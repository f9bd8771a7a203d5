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
    """`note` is called whenever a pod is looked at, `forget` when it is gone. A pod is told once of each thing it waits for."""

    def __init__(self, state: State, alarms: Alarms) -> None:
        self._state, self._alarms = state, alarms
        self._waits: dict[Key, _Wait] = {}

    def note(self, pod: Pod, found: Membership, now: float) -> None:
        """After `missing_grace` seconds there is an Event."""
        key = pod.meta.key
        if found.standing is not Standing.INCOMPLETE or GATE not in pod.gates:
            self.forget(key)
            return
        wait = self._waits.get(key)
        if wait is None or (wait.uid, wait.missing) != (pod.meta.uid, found.missing):
            wait = self._waits[key] = _Wait(pod.meta.uid, found.missing, now)
        due = wait.since + self._state.settings.missing_grace
        if now < due:
            self._alarms.set(due, "pod", key)
        elif not wait.told:
            wait.told = True
            self._state.event(pod_reference(pod), "Warning", "WaitingForClaim", "Allocate", f"waits: {wait.missing}")

    def forget(self, key: Key) -> None:
        self._waits.pop(key, None)
