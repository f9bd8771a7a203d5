"""What the cluster asks for as a whole: what the strategy Fragmentation keeps room for.

Counted anew from what the watches have shown once enough of it has changed, never carried on from the past: so a restart expects
the same, and what is kept is bounded by what is there. Claims that wait are asked for now, so each of them counts as several.
"""

from __future__ import annotations

from dra_operator.allocator import Besides, Demand, by_spec, kinds_of
from dra_operator.api.claims import ClaimSpec
from dra_operator.api.meta import Key
from dra_operator.engine.view import View
from dra_operator.queue.nodefit import beside_devices

#: What one waiting claim counts as, against one that is placed.
_WAITING = 4.0
#: Counted anew after this part of all claims changed: each change costs a constant in the long run.
_PART = 8
#: The demand is replaced if more than this part of it is another, or if it is drawn from twice or half as many claims: answers are
#: remembered with it.
_CHANGE = 0.2


class Expecting:
    """Follows `claim_changes` of the view, a count of claims that came, went or were placed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._demand: Demand | None = None
        self._shares: dict[bytes, float] = {}
        self._due = 0
        self.counts = 0

    def demand(self) -> Demand | None:
        """One object for as long as it describes well enough what there is; None while there is next to nothing."""
        if self._view.claim_changes >= self._due:
            self._due = self._view.claim_changes + max(1, len(self._view.claims) // _PART)
            self.counts += 1
            self._count()
        return self._demand

    def _count(self) -> None:
        pods = self._beside_claims()
        kinds: dict[bytes, tuple[ClaimSpec, Besides]] = {}
        evidence = 0
        for key, seen in self._view.claims.items():
            if seen.error is None:
                evidence += 1
                _, besides = kinds.setdefault(seen.spec_key, (seen.claim.spec, {}))
                beside = pods.get(key, (0, 0))
                besides[beside] = besides.get(beside, 0.0) + (1.0 if seen.allocated else _WAITING)
        # Among equally frequent ones those that sort first, so that a restart expects the same.
        items = kinds_of([kinds[key] for key in sorted(kinds)])
        by_id = by_spec(items)
        shares = {key: share for key in sorted(kinds) if (share := by_id.get(id(kinds[key][0]))) is not None}
        changed = sum(abs(shares.get(key, 0.0) - self._shares.get(key, 0.0)) for key in {**shares, **self._shares})
        drawn = 0.0 if self._demand is None else self._demand.evidence
        if changed > 2 * _CHANGE or not drawn / 2 < evidence < drawn * 2:
            self._shares = shares
            self._demand = Demand(items, float(evidence)) if evidence else None

    def _beside_claims(self) -> dict[Key, tuple[int, int]]:
        """What pods take beside each claim: in equal parts beside those of one pod, and of all pods that share it."""
        found: dict[Key, tuple[int, int]] = {}
        for pod in self._view.pods.values():
            if pod.claims and not pod.terminal:
                keys = [key for key in self._view.claim_keys(pod) if key in self._view.claims]
                cpu, memory = beside_devices(pod)
                for key in keys:
                    before = found.get(key, (0, 0))
                    found[key] = before[0] + cpu // len(keys), before[1] + memory // len(keys)
        return found
