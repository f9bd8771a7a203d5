"""Disruption budgets: which pods the eviction API would let go, counted over a whole set of them.

Follows what the API server does on an eviction (policy/v1, registry/core/pod/storage/eviction.go). A dry run of each eviction alone
cannot tell, since it does not see the others. How budgets come by their status is the disruption controller's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.api.errors import inside
from dra_operator.api.meta import Key, ObjectMeta, read_object
from dra_operator.api.selectors import LabelSelector
from dra_operator.preemption.holders import PodRef

#: Matches are remembered for so many pods.
_MATCHES_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget. `selector` None matches no pod, an empty one all pods of the namespace (policy/v1)."""

    key: Key
    selector: LabelSelector | None
    always_allow_unhealthy: bool
    generation: int
    observed: int
    allowed: int
    healthy: int
    desired: int

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Budget:
        """Raises InvalidObject."""
        return read_object("PodDisruptionBudget", data, cls._read)

    @classmethod
    def _read(cls, data: dict[str, Any], meta: ObjectMeta) -> Budget:
        spec, status = data.get("spec") or {}, data.get("status") or {}
        selector = spec.get("selector")
        return cls(
            key=meta.key,
            selector=None if selector is None else inside("spec.selector", selector, LabelSelector.from_dict),
            always_allow_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
            generation=meta.generation,
            observed=int(status.get("observedGeneration") or 0),
            allowed=int(status.get("disruptionsAllowed") or 0),
            healthy=int(status.get("currentHealthy") or 0),
            desired=int(status.get("desiredHealthy") or 0),
        )

    @property
    def needs_label(self) -> tuple[str, str] | None:
        """A label without which no pod is selected, where there is one."""
        for item in () if self.selector is None else self.selector.requirements:
            if item.operator == "In" and len(item.values) == 1:
                return item.key, item.values[0]
        return None

    def spares(self, pod: PodRef) -> bool:
        """May the pod go without being counted? Pods that are not ready: always, or while enough others are healthy."""
        if pod.ready:
            return False
        return self.always_allow_unhealthy or self.healthy >= self.desired > 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why pods cannot be evicted, all of them: which budgets stand against it and what would help."""

    budgets: tuple[Key, ...]
    pods: tuple[PodRef, ...]
    message: str

    def __str__(self) -> str:
        return self.message


class Budgets:
    """All budgets, by namespace, with what was learnt and promised since their status was last seen."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[Key, Budget]] = {}
        self._status: dict[Key, Any] = {}
        self._exhausted: set[Key] = set()
        self._spent: Counter[Key] = Counter()
        self._matches: dict[str, tuple[PodRef, tuple[Budget, ...]]] = {}
        self._likely: dict[str, dict[tuple[str, str] | None, list[Budget]]] = {}

    def __bool__(self) -> bool:
        """Is there any budget?"""
        return bool(self._budgets)

    def apply(self, raw: dict[str, Any]) -> bool:
        """Add or replace; returns whether something changed that evictions depend on.

        Raises InvalidObject; the budget then stays as it was last read.
        """
        budget = Budget.from_dict(raw)
        key = budget.key
        places = self._budgets.setdefault(key.namespace, {})
        known, status = places.get(key), raw.get("status") or {}
        if known == budget and self._status[key] == status:
            return False
        places[key], self._status[key] = budget, status
        self._forget(key)
        return True

    def remove(self, key: Key) -> bool:
        """Returns whether it was known."""
        places = self._budgets.get(key.namespace, {})
        if places.pop(key, None) is None:
            return False
        if not places:
            del self._budgets[key.namespace]
        del self._status[key]
        self._forget(key)
        return True

    def exhaust(self, key: Key) -> None:
        """The API server answered 429 for it: count on no disruption until its spec or status changes."""
        self._exhausted.add(key)

    def spend(self, pods: Sequence[PodRef]) -> None:
        """These evictions are decided on: do not count on the same disruptions again until the status changes."""
        for pod in pods:
            key = self.charged(pod)
            if isinstance(key, Key):
                self._spent[key] += 1

    def refund(self, pods: Sequence[PodRef]) -> None:
        """Take back `spend`: these evictions will not be asked for after all."""
        for pod in pods:
            key = self.charged(pod)
            if isinstance(key, Key) and self._spent[key]:
                self._spent[key] -= 1

    def of(self, pod: PodRef) -> tuple[Budget, ...]:
        """The budgets that select the pod."""
        places = self._budgets.get(pod.namespace)
        if not places:
            return ()
        known = self._matches.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        likely = self._by_label(pod.namespace)
        found = tuple(
            item
            for label in (None, *pod.labels.items())
            for item in likely.get(label, ())
            if item.selector is not None and item.selector.matches(pod.labels)
        )
        if len(self._matches) >= _MATCHES_KEPT:
            self._matches.clear()
        self._matches[pod.uid] = pod, found
        return found

    def _by_label(self, namespace: str) -> dict[tuple[str, str] | None, list[Budget]]:
        """A namespace's budgets by one label that their pods must have (None: no single one)."""
        found = self._likely.get(namespace)
        if found is None:
            found = self._likely[namespace] = {}
            for budget in self._budgets[namespace].values():
                found.setdefault(budget.needs_label, []).append(budget)
        return found

    def charged(self, pod: PodRef) -> Key | Refusal | None:
        """The budget that one eviction of the pod takes a disruption from, if any."""
        if not pod.running:
            return None
        covering = self.of(pod)
        if not covering:
            return None
        if len(covering) > 1:
            keys = tuple(sorted(item.key for item in covering))
            names = " and ".join(map(str, keys))
            return Refusal(
                keys,
                (pod,),
                f"pod {pod} is selected by the disruption budgets {names}, and the eviction API refuses pods with more than one; "
                "narrow one of their selectors",
            )
        return None if covering[0].spares(pod) else covering[0].key

    def allowance(self, key: Key) -> int:
        """How many more pods may be evicted under a budget."""
        budget = self._budgets.get(key.namespace, {}).get(key)
        if budget is None:
            return 0
        if key in self._exhausted or budget.observed < budget.generation:
            return 0
        return max(0, budget.allowed - self._spent[key])

    def allows(self, pods: Iterable[PodRef]) -> tuple[Refusal, ...]:
        """What stands against evicting all of these pods; nothing = they may go."""
        refusals: list[Refusal] = []
        charged: dict[Key, list[PodRef]] = {}
        for pod in pods:
            key = self.charged(pod)
            if isinstance(key, Refusal):
                refusals.append(key)
            elif key is not None:
                charged.setdefault(key, []).append(pod)
        for key, members in sorted(charged.items()):
            allowance = self.allowance(key)
            if len(members) > allowance:
                refusals.append(Refusal((key,), tuple(members), self._shortage(key, members, allowance)))
        return tuple(refusals)

    def _shortage(self, key: Key, pods: list[PodRef], allowance: int) -> str:
        budget = self._budgets[key.namespace][key]
        names = ", ".join(str(pod) for pod in pods[:3]) + (", …" if len(pods) > 3 else "")
        if budget.observed < budget.generation:
            return f"disruption budget {key} of {names} is still being worked out by the disruption controller"
        more = f"{allowance} more disruption{'' if allowance == 1 else 's'}" if allowance else "no more disruption"
        return f"disruption budget {key} allows {more}, and {len(pods)} would be needed ({names})"

    def _forget(self, key: Key) -> None:
        self._exhausted.discard(key)
        self._spent.pop(key, None)
        self._likely.pop(key.namespace, None)
        self._matches.clear()
