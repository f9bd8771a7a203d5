"""The disruption controller: how many pods of each PodDisruptionBudget may be evicted right now."""

from __future__ import annotations

import math
from typing import Any

from dra_operator.api.meta import Key, format_time, parse_time
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import controller, deleting, key, ready, terminal
from dra_operator.cluster.memory.identity import DISRUPTION_CONTROLLER
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.subresources import covers
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import BY_KIND, DISRUPTION_BUDGETS, PODS, Resource

#: An eviction that did not lead to a deletion is forgotten after two minutes.
_DELETION_TIMEOUT = 120.0


class DisruptionController(Reconciler):
    user = DISRUPTION_CONTROLLER
    watches = {DISRUPTION_BUDGETS: 0.005, PODS: 0.005}  # noqa: RUF012

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is DISRUPTION_BUDGETS:
            self.mark(resource, key(change.object))
            return
        namespace = change.object["metadata"].get("namespace") or ""
        for budget in self.store.all(DISRUPTION_BUDGETS):
            if budget["metadata"].get("namespace") == namespace and any(
                covers(budget, item["metadata"].get("labels") or {})
                for item in (change.object, change.previous)
                if item
            ):
                self.mark(DISRUPTION_BUDGETS, key(budget))

    def reconcile(self, resource: Resource, key: Key) -> None:
        budget = self.get(DISRUPTION_BUDGETS, key)
        if budget is None:
            return
        pods = [
            pod
            for pod in self.store.listed(PODS, key.namespace)
            if covers(budget, pod["metadata"].get("labels") or {}) and not terminal(pod)
        ]
        disrupted = self._disrupted(budget, {pod["metadata"]["name"]: pod for pod in pods})
        healthy = sum(ready(pod) and not deleting(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        expected, desired = self._expectations(budget, pods)
        status: dict[str, Any] = {
            "observedGeneration": budget["metadata"].get("generation") or 1,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        known = {name: value for name, value in (budget.get("status") or {}).items() if name != "conditions"}
        if known != status:
            updated = clone(budget)
            updated["status"] = status
            self.put(DISRUPTION_BUDGETS, updated, "status")

    def _disrupted(self, budget: Object, pods: dict[str, Object]) -> dict[str, str]:
        """Evictions that the budget has been charged with and that cannot be seen on the pods yet."""
        found: dict[str, str] = {}
        for name, stamped in (dig(budget, "status", "disruptedPods") or {}).items():
            pod = pods.get(name)
            expires = (parse_time(stamped) or self.now) + _DELETION_TIMEOUT
            if pod is None or deleting(pod) or self.now >= expires:
                continue
            found[name] = format_time(parse_time(stamped) or self.now)
            self.at(expires, DISRUPTION_BUDGETS, key(budget))
        return found

    def _expectations(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must stay healthy."""
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - _amount(most, expected))
        if isinstance(least, str):
            expected = self._scale(pods)
            return expected, _amount(least, expected)
        return len(pods), int(least if least is not None else 1)

    def _scale(self, pods: list[Object]) -> int:
        """What the pods' controllers want, each counted once."""
        wanted: dict[str, int] = {}
        for pod in pods:
            place, owner = pod, controller(pod)
            while owner is not None:
                resource = BY_KIND.get(owner["kind"])
                found = (
                    self.get(resource, Key(place["metadata"].get("namespace") or "", owner["name"]))
                    if resource
                    else None
                )
                if found is None:
                    break
                place, owner = found, controller(found)
            replicas = dig(place, "spec", "replicas")
            wanted[place["metadata"]["uid"]] = int(replicas) if replicas is not None else 1
        return sum(wanted.values())


def _amount(value: int | str, of: int) -> int:
    """Percentages are rounded up, as for both fields of a budget."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * of / 100)
    return int(value)
