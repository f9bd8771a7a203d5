"""Which devices a unit's requests accept, whoever uses them now: what holds, reservations and the choice of victims start from.

Answers come from masks by view, so asking about every node costs little more than the nodes. Constraints, counters and capacity are
not looked at: a candidate is a device that some request accepts by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.allocator.memory import Known, memory_of
from dra_operator.allocator.problem import Failed, Problem
from dra_operator.api.taints import untolerated
from dra_operator.inventory import DeviceId, Inventory, Snapshot
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer
from dra_operator.inventory.views import NodeRecord, View


class Candidates:
    """Of one problem, on one inventory. Stays right while the classes and the published devices do not change."""

    def __init__(self, known: Known, inventory: Inventory) -> None:
        self._plan, self._inventory = known.plan, inventory
        self._kinds: dict[Kind, bool] = {}
        self._masks: dict[View, int] = {}
        #: Devices needed on one node at the least; an `All` request counts as one.
        self.needed = sum(
            min((1 if way.all else way.count) for way in requirement.ways) for requirement in self._plan.requirements
        )
        #: Do constraints or shared counters make some sets of candidates unusable?
        self.entangled = bool(self._plan.rules)

    def accepts(self, kind: Kind) -> bool:
        """Does some request accept devices of this kind, taints included?"""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = any(
                way.filter.outcome(kind) is None and untolerated(kind.taints, way.detail.tolerations) is None
                for way in self._plan.ways
            )
        return known

    def mask(self, view: View) -> int:
        """The accepted positions of a view, as bits."""
        known = self._masks.get(view)
        if known is None:
            known = 0
            for position, kind in enumerate(view.kinds):
                if self.accepts(kind):
                    known |= 1 << position
            self._masks[view] = known
        return known

    def nodes(self) -> Iterator[tuple[NodeRecord, int]]:
        """Every node with at least `needed` candidates, used or not, and their mask."""
        for state in self._inventory.states.populated():
            mask = self.mask(state.view)
            if mask.bit_count() >= self.needed:
                for name in state.nodes:
                    yield self._inventory.nodes[name], mask

    def on(self, node: str) -> list[Offer]:
        """The candidates of one node, in the order of its view."""
        record = self._inventory.nodes.get(node)
        if record is None or record.view is None:
            return []
        mask = self.mask(record.view)
        return [offer for position, offer in enumerate(record.offers) if mask >> position & 1]

    def includes(self, device: DeviceId) -> bool:
        offer = self._inventory.offer(device)
        return offer is not None and offer.kind is not None and self.accepts(offer.kind)

    def overlaps(self, other: Candidates) -> bool:
        """Is there a device both accept?"""
        views = {state.view for state in self._inventory.states.populated()}
        return any(self.mask(view) & other.mask(view) for view in views)


def candidates(problem: Problem, snapshot: Snapshot) -> Candidates | Failed:
    """The candidates of a problem; what is wrong with its claims if they cannot be planned."""
    inventory = snapshot.inventory
    known = memory_of(inventory).known(problem)
    if isinstance(known, Failed):
        return known
    if known.candidates is None or known.candidates[0] != inventory.published:
        known.candidates = inventory.published, Candidates(known, inventory)
    found = known.candidates[1]
    assert isinstance(found, Candidates)
    return found
