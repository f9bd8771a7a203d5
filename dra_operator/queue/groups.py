"""ClaimGroups and who carries their label: names only. What the members are up to is looked up in `engine.groups`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dra_operator.api.group import ClaimGroup
from dra_operator.api.meta import Key

Kind = Literal["pod", "claim"]


class GroupBook:
    """`label` is the label's key. A pod or claim belongs to at most one group, of its own namespace, whether that exists or not."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._groups: dict[Key, ClaimGroup] = {}
        self._group_of: dict[tuple[Kind, Key], Key] = {}
        self._members: dict[Key, dict[tuple[Kind, Key], None]] = {}

    # -- groups

    def apply(self, group: ClaimGroup) -> bool:
        """Returns whether anything changed that matters."""
        old = self._groups.get(group.meta.key)
        self._groups[group.meta.key] = group
        return old is None or (old.meta.uid, old.spec) != (group.meta.uid, group.spec)

    def remove(self, key: Key) -> bool:
        return self._groups.pop(key, None) is not None

    def get(self, key: Key) -> ClaimGroup | None:
        return self._groups.get(key)

    # -- members

    def enlist(self, kind: Kind, key: Key, labels: Mapping[str, str]) -> tuple[Key, ...]:
        """Follow an object's label; returns the groups for which that is news: the one it left and the one it joined."""
        name = labels.get(self._label)
        new = Key(key.namespace, name) if name else None
        old = self._group_of.get((kind, key))
        if new == old:
            return ()
        self.strike(kind, key)
        if new is not None:
            self._group_of[kind, key] = new
            self._members.setdefault(new, {})[kind, key] = None
        return tuple(group for group in (old, new) if group is not None)

    def strike(self, kind: Kind, key: Key) -> Key | None:
        """The object is gone; returns the group it was in."""
        group = self._group_of.pop((kind, key), None)
        if group is not None:
            members = self._members[group]
            del members[kind, key]
            if not members:
                del self._members[group]
        return group

    def of(self, kind: Kind, key: Key) -> Key | None:
        return self._group_of.get((kind, key))

    def members(self, group: Key, kind: Kind) -> tuple[Key, ...]:
        """In the order they were seen."""
        return tuple(key for found, key in self._members.get(group, ()) if found == kind)
