"""Nodes on which a placement did not bind, avoided for a growing while by pods of the same controller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Avoided:
    """`until` in seconds since the epoch; `written` once a report carries it (an eviction waits for that)."""

    node: str
    until: float
    why: str
    times: int = 1
    written: bool = False


class AvoidedNodes:
    """By owner (`membership.owner_key`) and node. `owners_seen` grows with every owner that is new here."""

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial, self._maximum = initial, maximum
        self._owners: dict[str, dict[str, Avoided]] = {}
        self._pruned = float("-inf")
        self.owners_seen = 0

    def add(self, owner: str, node: str, why: str, now: float) -> Avoided:
        """Avoid `node` from now on: for `initial` seconds, twice as long each further time."""
        nodes = self._nodes_of(owner)
        known = nodes.get(node)
        if known is None:
            known = nodes[node] = Avoided(node, now + self._initial, why)
            return known
        if known.until <= now:
            known.times += 1
            known.until = now + min(self._maximum, self._initial * 2.0 ** (known.times - 1))
            known.why, known.written = why, False
        return known

    def explain(self, owner: str, node: str, why: str) -> Avoided | None:
        """More is known about why it is avoided; None where it is not."""
        known = self._owners.get(owner, {}).get(node)
        if known is not None:
            known.why = why
        return known

    def restore(self, owner: str, node: str, until: float, why: str) -> None:
        """What a report says from before a restart."""
        nodes = self._nodes_of(owner)
        if node not in nodes:
            nodes[node] = Avoided(node, until, why, written=True)

    def _nodes_of(self, owner: str) -> dict[str, Avoided]:
        if owner not in self._owners:
            self.owners_seen += 1
        return self._owners.setdefault(owner, {})

    def knows(self, owner: str) -> bool:
        """Is any node avoided for it, or was until lately?"""
        return owner in self._owners

    def active(self, owner: str, now: float) -> dict[str, Avoided]:
        """Those avoided now. Expired entries stay known for a while, so that a repeated failure counts as one."""
        nodes = self._owners.get(owner)
        if not nodes:
            return {}
        return {node: entry for node, entry in nodes.items() if entry.until > now}

    def prune(self, now: float) -> None:
        """Forget what expired longer ago than the longest time a node is avoided. Cheap: looks once a minute."""
        if now < self._pruned + 60.0:
            return
        self._pruned = now
        for owner, nodes in list(self._owners.items()):
            for node, entry in list(nodes.items()):
                if entry.until + self._maximum < now:
                    del nodes[node]
            if not nodes:
                del self._owners[owner]
