"""Situations: nodes that are alike in their devices, in what is taken of these, and in the CPU and memory left beside them.

A state says nothing of CPU and memory, which pods take without any device as well. Nodes in one situation are worth the same to
whoever weighs these too. What changed is learnt from the trails of the inventory and of the ledger, so a call looks at changed nodes only.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from dra_operator.allocator.problem import Room, Rooms
from dra_operator.inventory import Inventory
from dra_operator.inventory.views import State

#: New situations that are kept for readers however few there are in all.
_SPARE = 64


class Situation:
    """`nodes`: those in it, by name. One that has no nodes any more never has any again."""

    __slots__ = ("nodes", "room", "state")

    def __init__(self, state: State, room: Room) -> None:
        self.state, self.room = state, room
        self.nodes: list[str] = []


class Situations:
    """Of all nodes of one inventory, as one ledger has it."""

    def __init__(self, inventory: Inventory, rooms: Rooms) -> None:
        self.rooms = rooms
        self._inventory = inventory
        self._known: dict[tuple[State, Room], Situation] = {}
        self._where: dict[str, Situation] = {}
        self._moves = self._changes = -1
        #: New situations, after the first `journal_start`. No longer than makes it quicker to read than all there are, or what
        #: is over would be kept in it.
        self.journal: list[Situation] = []
        self.journal_start = 0

    @property
    def journal_end(self) -> int:
        return self.journal_start + len(self.journal)

    def catch_up(self) -> None:
        """Take in what changed since the last call."""
        moves, changes = self._inventory.states.moves, self.rooms.changes
        if self._moves == moves.end and self._changes == changes.end:
            return
        moved, changed = moves.since(self._moves), changes.since(self._changes)
        self._moves, self._changes = moves.end, changes.end
        if moved is None or changed is None:
            self._start_over()
        else:
            for name in dict.fromkeys((*moved, *changed)):
                self._place(name)

    def populated(self) -> list[Situation]:
        return list(self._known.values())

    def _start_over(self) -> None:
        # Beyond what any reader has read.
        self.journal_start = self.journal_end + 1
        self.journal, self._known, self._where = [], {}, {}
        for name in self._inventory.nodes:
            self._place(name)

    def _place(self, name: str) -> None:
        record = self._inventory.nodes.get(name)
        state = None if record is None else record.state
        old = self._where.pop(name, None)
        key = None if state is None else (state, self.rooms.room(name))
        if old is not None:
            if key == (old.state, old.room):
                self._where[name] = old
                return
            del old.nodes[bisect_left(old.nodes, name)]
            if not old.nodes:
                del self._known[old.state, old.room]
        if key is None:
            return
        new = self._known.get(key)
        if new is None:
            new = self._known[key] = Situation(*key)
            self.journal.append(new)
            spare = len(self.journal) - _SPARE - len(self._known)
            if spare > len(self._known):
                self.journal_start += spare
                del self.journal[:spare]
        insort(new.nodes, name)
        self._where[name] = new
