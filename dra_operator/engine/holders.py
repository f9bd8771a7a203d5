"""Who has the devices of a claim, for explanations: the pods that use it with all that they share, or nobody any more."""

from __future__ import annotations

from dra_operator.api.core import Pod
from dra_operator.engine.pods import priority_of_claim, priority_of_pod
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.explanation import listed
from dra_operator.explain.situation import Holding


class Holders:
    """Reads the state, changes nothing."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, uid: str) -> Holding | None:
        """Who has the devices of a claim, and what would go with it."""
        state = self._state
        seen = state.view.claim_by_uid(uid)
        if seen is None:
            return None
        claims, pods = self._together(seen)
        if not pods:
            idle = self._idle(seen)
            owner = seen.claim.meta.controller
            finished = state.view.pod_by_uid(owner.uid) if owner is not None and owner.kind == "Pod" else None
            deleted = f"ResourceClaim {seen.key}" if finished is None else f"Pod {finished.key}"
            return Holding(
                name=f"claim {seen.key}",
                objects=(deleted,),
                claims=(uid,),
                priority=priority_of_claim(seen, state),
                preemptible=seen.managed and state.terms_of(seen)[1].preemptible,
                idle=idle,
            )
        names = [str(pod.key) for pod in pods]
        return Holding(
            name=f"pod {names[0]}" if len(names) == 1 else f"pods {listed(names)}",
            objects=tuple(f"Pod {name}" for name in names),
            claims=tuple(sorted(claim.uid for claim in claims)),
            pods=tuple(pods),
            priority=max(priority_of_pod(pod, claims, state) for pod in pods),
            preemptible=all(claim.managed and state.terms_of(claim)[1].preemptible for claim in claims),
        )

    def _together(self, seen: SeenClaim) -> tuple[list[SeenClaim], list[Pod]]:
        """All allocated claims and running pods that are tied to this claim by sharing."""
        view = self._state.view
        claims, pods = {seen.uid: seen}, dict[str, Pod]()
        left = [seen]
        while left:
            claim = left.pop()
            users = (view.pod_by_uid(consumer.uid) for consumer in claim.claim.reserved_for)
            waiting = (pod for pod in view.pods_of_claim(claim.key) if not claim.claim.reserved_for)
            for pod in (*users, *waiting):
                if pod is None or pod.terminal or pod.meta.uid in pods:
                    continue
                pods[pod.meta.uid] = pod
                for key in view.claim_keys(pod):
                    other = view.claims.get(key)
                    if other is not None and other.allocated and other.uid not in claims:
                        claims[other.uid] = other
                        left.append(other)
        return list(claims.values()), list(pods.values())

    def _idle(self, seen: SeenClaim) -> str:
        """Why nobody needs the devices of a claim without running pods; "" where somebody may."""
        if not seen.allocated:
            return ""  # an allocation that is being written
        consumers = seen.claim.reserved_for
        if not consumers:
            return "no pod uses it"
        if any(consumer.resource != "pods" for consumer in consumers):
            return ""
        names = listed([f"{seen.key.namespace}/{consumer.name}" for consumer in consumers])
        known = [self._state.view.pod_by_uid(consumer.uid) for consumer in consumers]
        ended = "is gone" if all(pod is None for pod in known) else "has finished"
        return f"its pod {names} {ended}, but kube-controller-manager has not freed it yet"
