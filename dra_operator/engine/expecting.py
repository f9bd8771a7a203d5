"""What the cluster asks for as a whole: what the strategy Fragmentation keeps room for.

Counted anew from what the watches have shown once enough of it has changed, never carried on from the past: so a restart expects
the same, and what is kept is bounded by what is there. Claims that wait are asked for now, so each of them counts as several.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dra_operator.allocator import Demand
from dra_operator.api.claims import ClaimSpec, DeviceResult
from dra_operator.api.core import Pod
from dra_operator.engine.view import SeenClaim, View
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.queue.companions import Companions
from dra_operator.queue.nodefit import NodeLedger
from dra_operator.queue.policies import classes_of

#: What one waiting claim counts as, against one that is placed.
_WAITING = 4.0
#: Kinds of claims that are told apart: the most frequent.
_KINDS = 32
#: Counted anew after this part of all claims changed: each change costs a constant in the long run.
_PART = 8
#: The demand is replaced if more than this part of it is another, or if it is drawn from twice or half as many claims: answers are
#: remembered with it.
_CHANGE = 0.2


class Expecting:
    """Follows `changes`, a count of claims that came, went or were placed."""

    def __init__(self, view: View, inventory: Inventory, ledger: NodeLedger) -> None:
        self._view, self._inventory, self._ledger = view, inventory, ledger
        self._demand: Demand | None = None
        self._shares: dict[bytes, float] = {}
        self._companions = Companions()
        self._due = 0
        self.counts = 0

    def demand(self) -> Demand | None:
        """One object for as long as it describes well enough what there is; None while there is next to nothing."""
        self._catch_up()
        return self._demand

    def serves(self, pod: Pod, todo: Sequence[SeenClaim]) -> Callable[[str], tuple[float, float]] | None:
        """By node, for how many devices such as the claims ask for its CPU and memory suffice, without the pod and with it."""
        self._catch_up()
        return self._companions.serves(_kind(todo), pod, self._ledger)

    def _catch_up(self) -> None:
        if self._view.claim_changes < self._due:
            return
        self._due = self._view.claim_changes + max(1, len(self._view.claims) // _PART)
        self.counts += 1
        self._count_claims()
        self._count_pods()

    def _count_claims(self) -> None:
        weights: dict[bytes, float] = {}
        specs: dict[bytes, ClaimSpec] = {}
        evidence = 0
        for seen in self._view.claims.values():
            if seen.error is None:
                evidence += 1
                weights[seen.spec_key] = weights.get(seen.spec_key, 0.0) + (1.0 if seen.allocated else _WAITING)
                specs.setdefault(seen.spec_key, seen.claim.spec)
        kept = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:_KINDS]
        total = sum(weights.values())
        shares = {key: weight / total for key, weight in kept}
        changed = sum(abs(shares.get(key, 0.0) - self._shares.get(key, 0.0)) for key in {**shares, **self._shares})
        before = 0.0 if self._demand is None else self._demand.evidence
        if changed > 2 * _CHANGE or not before / 2 < evidence < before * 2:
            self._shares = shares
            items = tuple((specs[key], share) for key, share in shares.items())
            self._demand = Demand(items, float(evidence)) if evidence else None

    def _count_pods(self) -> None:
        self._companions = Companions()
        for pod in self._view.pods.values():
            if not pod.claims or pod.terminal:
                continue
            seen = [found for key in self._view.claim_keys(pod) if (found := self._view.claims.get(key)) is not None]
            devices = sum(self._devices(claim) for claim in seen)
            if devices:
                self._companions.note(_kind(seen), devices, pod.requests)

    def _devices(self, seen: SeenClaim) -> float:
        allocation = seen.claim.allocation
        return 0.0 if allocation is None else sum(self._part(result) for result in allocation.results)

    def _part(self, result: DeviceResult) -> float:
        """How much of the device it is: of a shared one by the capacity of which it takes most."""
        if result.admin_access:
            return 0.0
        if not result.consumed_capacity:
            return 1.0
        device = self._inventory.device(DeviceId(result.driver, result.pool, result.device))
        if device is None:
            return 0.0
        limits = {name: amount.approximate_float() for name, amount in device.capacity.items()}
        taken = result.consumed_capacity.items()
        return max(
            (amount.approximate_float() / limits[name] for name, amount in taken if limits.get(name)), default=1.0
        )


def _kind(claims: Sequence[SeenClaim]) -> Hashable:
    """Pods with devices of the same classes are taken to be alike."""
    return frozenset().union(*(classes_of(seen.claim) for seen in claims))
