"""Fair share between namespaces: the weighted dominant share of devices per class (DRF; Ghodsi et al., NSDI 2011).

A namespace's share of a class is what its claims hold over what there is; its dominant share is the largest of these, divided by the
weight of its policy. Under FairShare, of two units with equal effective priority the one goes first whose namespace has less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Share:
    """The dominant share by which units stand in line: one object for all units of a namespace whose policies have the same weight,
    so that all of them move when it changes. `value`: 0 = holds nothing."""

    value: float = 0.0


#: Of units whose policy does not ask for fair shares.
NO_SHARE = Share()


class Holdings:
    """Devices that each namespace's claims hold, by class. Follows allocations one claim at a time."""

    def __init__(self) -> None:
        self._of_claim: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._held: dict[str, dict[str, int]] = {}

    def hold(self, uid: str, namespace: str, by_class: Mapping[str, int]) -> None:
        """The claim `uid` holds so many devices of each class. Replaces what it held."""
        self.release(uid)
        if by_class:
            self._of_claim[uid] = (namespace, by_class)
            self._add(namespace, by_class, 1)

    def release(self, uid: str) -> None:
        known = self._of_claim.pop(uid, None)
        if known is not None:
            self._add(*known, -1)

    def of(self, namespace: str) -> Mapping[str, int]:
        return self._held.get(namespace, {})

    def _add(self, namespace: str, by_class: Mapping[str, int], sign: int) -> None:
        held = self._held.setdefault(namespace, {})
        for name, count in by_class.items():
            held[name] = held.get(name, 0) + sign * count
            if not held[name]:
                del held[name]
        if not held:
            del self._held[namespace]


def dominant_share(held: Mapping[str, int], totals: Mapping[str, int], weight: int) -> float:
    """0 = holds nothing. Classes of which nothing is published do not count."""
    return max((count / totals[name] for name, count in held.items() if totals.get(name)), default=0.0) / weight
