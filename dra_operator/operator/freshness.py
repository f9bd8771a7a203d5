"""Which news about the objects of a kind is news, when two sources tell of them and lists and watches overlap.

Our own watch tells everything, in order. Kopf's tells the same, sooner or later. resourceVersions of one kind can be compared as
integers (KEP-5504, GA in 1.35; true of every etcd-backed kind before), so what was told already is recognised and dropped. Holds
numbers, not objects.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from dra_operator.api.meta import Key


class Ledger:
    """The revision last seen of every object of one kind.

    Invariant: what `news` and `gone` accept for one key has strictly growing revisions.
    """

    def __init__(self) -> None:
        self._alive: dict[Key, int] = {}
        #: Deletions of which our own watch has not told yet.
        self._dead: dict[Key, int] = {}
        #: Up to here our own watch and lists have told everything.
        self._floor = 0

    def __len__(self) -> int:
        return len(self._alive)

    def listing(self, revision: int) -> None:
        """A list at `revision` begins. One older than a complete list before means a store restored from a backup:
        everything known is void."""
        if revision < self._floor:
            self._alive.clear()
            self._dead.clear()
            self._floor = 0

    def would_be_news(self, key: Key, revision: int) -> bool:
        """What `news` would answer."""
        return revision > max(self._floor, self._alive.get(key, -1), self._dead.get(key, -1))

    def listed_item(self, key: Key, revision: int) -> bool:
        """Whether an item of a list tells something new."""
        if revision <= max(self._alive.get(key, -1), self._dead.get(key, -1)):
            return False
        self._dead.pop(key, None)
        self._alive[key] = revision
        return True

    def news(self, key: Key, revision: int, *, ordered: bool) -> bool:
        """Whether an ADDED or MODIFIED event tells something new. `ordered`: it comes from our own watch, which leaves nothing out."""
        fresh = revision > self._floor and self.listed_item(key, revision)
        if ordered:
            self._advance(revision)
        return fresh

    def gone(self, key: Key, revision: int, *, ordered: bool) -> bool:
        """Whether a DELETED event tells something new. `revision` is that of the deletion, as the watch carries it."""
        fresh = self.would_be_news(key, revision)
        if fresh:
            self._alive.pop(key, None)
            if not ordered:
                self._dead[key] = revision
        if ordered:
            self._advance(revision)
        return fresh

    def complete(self, keys: Set[Key], revision: int) -> set[Key]:
        """A list is complete: at `revision` there was nothing but `keys`. Returns what is alive by all we know."""
        for key in [key for key, seen in self._alive.items() if seen <= revision and key not in keys]:
            del self._alive[key]
        self._advance(revision)
        return set(self._alive)

    def _advance(self, revision: int) -> None:
        self._floor = max(self._floor, revision)
        if self._dead:
            self._dead = {key: seen for key, seen in self._dead.items() if seen > self._floor}


def revision_of(item: dict[str, Any]) -> int:
    """The object's resourceVersion, 0 where there is none that can be compared."""
    try:
        return int(item["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        return 0
