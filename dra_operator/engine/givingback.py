"""Devices that pods which wait cannot use, or not as they are, given back before anybody is let go with them.

Where a pod cannot run beside its devices, that is `lifecycle`'s to find out; a gang's are in `gangs`.
"""

from __future__ import annotations

from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION
from dra_operator.engine.decisions import Decision
from dra_operator.engine.membership import Membership, abandoned_by, is_early, is_only_for
from dra_operator.engine.names import GATE
from dra_operator.engine.state import State, pod_reference
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import deallocate
from dra_operator.queue.units import Unit, UnitKey


def give_back_abandoned(state: State, seen: SeenClaim, now: float) -> list[Decision]:
    """A claim that was generated for a pod which names another one by now."""
    pod = abandoned_by(seen, state.view)
    if pod is None or state.settings.mode == "observe" or state.writes.get(seen.uid) is not None:
        return []
    why = f"devices of claim {seen.key} are taken back: it was generated for the pod, which names another claim now"
    state.event(pod_reference(pod), "Warning", "Moving", "Deallocate", why)
    return [deallocate(state, seen, UnitKey("pod", pod.key), now)]


def give_back_of_incomplete(state: State, pod: Pod, found: Membership, now: float) -> list[Decision]:
    """A claim was deleted before the pod could be bound: until it has all of them again, nobody uses what the others have, and a claim
    that is being deleted goes only when nothing is allocated to it."""
    if state.settings.mode == "observe" or state.writes.get(pod.meta.uid) is not None:
        return []
    if GATE not in pod.gates and pod.unschedulable is None:
        return []  # kube-scheduler may be about to bind it
    seen = [state.view.claims[key] for key in state.view.claim_keys(pod) if key in state.view.claims]
    held = [claim for claim in seen if is_only_for(claim, pod) and state.writes.get(claim.uid) is None]
    if held:
        why = f"its devices are taken back: {found.missing}"
        state.event(pod_reference(pod), "Warning", "Moving", "Deallocate", why)
    return [deallocate(state, claim, UnitKey("pod", pod.key), now) for claim in held]


def give_back_early(state: State, unit: Unit, pod: Pod, seen: list[SeenClaim], now: float) -> list[Decision]:
    """What its claims had before the pod came was chosen without its constraints across them: they are allocated together instead."""
    if state.settings.mode == "observe" or CONSTRAINTS_ANNOTATION not in pod.meta.annotations:
        return []
    early = [claim for claim in seen if is_early(claim, state.view)]
    if early:
        why = f"its devices are taken back: they were allocated before its constraints ({CONSTRAINTS_ANNOTATION}) were known"
        state.event(pod_reference(pod), "Normal", "Moving", "Deallocate", why)
    return [deallocate(state, claim, unit.key, now) for claim in early]
