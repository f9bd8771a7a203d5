"""The shares by which units of FairShare policies stand in line.

One a namespace and weight: worked out anew in each pass, but not for each unit.
"""

from __future__ import annotations

from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.state import State
from dra_operator.queue.fairness import NO_SHARE, Share, dominant_share


class Shares:
    """`Share` objects are handed out and kept up to date until they are forgotten."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[tuple[str, int], Share] = {}
        self._key_of: dict[Share, tuple[str, int]] = {}

    def of(self, namespace: str, terms: AllocationPolicySpec) -> Share:
        """By which a unit of the namespace stands under these terms."""
        if terms.fairness != "FairShare":
            return NO_SHARE
        key = namespace, terms.weight
        share = self._known.get(key)
        if share is None:
            share = self._known[key] = Share(self._value(*key))
            self._key_of[share] = key
        return share

    def forget(self, share: Share) -> None:
        """No unit has it any more."""
        key = self._key_of.pop(share, None)
        if key is not None:
            del self._known[key]

    def follow(self, namespace: str | None = None) -> list[Share]:
        """Bring all of them up to date, or those of one namespace; returns those that are another now."""
        changed = []
        for key, share in self._known.items():
            if namespace is None or key[0] == namespace:
                value = self._value(*key)
                if value != share.value:
                    share.value = value
                    changed.append(share)
        return changed

    def _value(self, namespace: str, weight: int) -> float:
        held = self._state.usage.holdings.of(namespace)
        return dominant_share(held, self._state.totals(held), weight)
