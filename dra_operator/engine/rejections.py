"""Placements of ours that kube-scheduler gave back: the node is avoided for a while, and the report says what it said.

Learns from what happened; where a pod could run in the first place is `placing`'s to judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.core import Pod
from dra_operator.api.meta import format_time
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.membership import owner_key
from dra_operator.engine.names import GUARD_POLICY
from dra_operator.engine.state import Lost, State, pod_reference

WHY = "kube-scheduler could not bind the pod there"
#: Characters of kube-scheduler's message: with many nodes it goes on for long.
_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class _Untold:
    """Its Event waits until `until` for what kube-scheduler says."""

    lost: Lost
    until: float


class Rejections:
    """Notes what is in `state.lost`.

    kube-scheduler clears an allocation first and writes why into the pod's condition then, in two requests.
    """

    def __init__(self, state: State, alarms: Alarms) -> None:
        self._state, self._alarms = state, alarms
        self._untold: list[_Untold] = []

    def note(self, now: float) -> None:
        """Avoid at once; tell when there is something to tell, or when it has been waited for long enough."""
        state = self._state
        lost, state.lost = state.lost, []
        for entry in lost:
            avoided = state.avoided.add(owner_key(entry.pod), entry.node, _why(_said(entry.pod)), now)
            self._alarms.set(avoided.until, "pod", entry.pod.key)
            self._alarms.set(now + state.settings.rejection_grace, "pod", entry.pod.key)
            state.dirty_pods[entry.pod.key] = None
            state.stale_reports[entry.claim] = None
            self._untold.append(_Untold(entry, now + state.settings.rejection_grace))
        self._untold = [entry for entry in self._untold if not self._tell(entry, now)]

    def _tell(self, entry: _Untold, now: float) -> bool:
        state, lost = self._state, entry.lost
        pod = state.view.pod_by_uid(lost.pod.meta.uid)
        before = _said(lost.pod)
        message = before if pod is None else _said(pod)
        if pod is not None and message in (before, None) and now < entry.until:
            return False
        why = _why(message)
        avoided = state.avoided.explain(owner_key(lost.pod), lost.node, why)
        state.stale_reports[lost.claim] = None
        until = "" if avoided is None else f"; node {lost.node} is avoided until {format_time(avoided.until)}"
        state.event(pod_reference(lost.pod), "Warning", "PlacementRejected", "Allocate", why + until)
        return True


def _said(pod: Pod) -> str | None:
    """What kube-scheduler said of the pod, but for this: in its next attempt it may try to allocate by itself, which the admission
    policy refuses. That is no reason why it gave the placement back."""
    message = pod.unschedulable
    return None if message is None or GUARD_POLICY in message else message


def _why(message: str | None) -> str:
    return f"{WHY}: {message:.{_MESSAGE}}" if message else WHY
