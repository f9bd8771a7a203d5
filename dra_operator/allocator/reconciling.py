"""Groups of a gang on several nodes that may take something from each other, brought together.

Each node is first answered by itself. Of two answers that exclude each other (a value that must differ, a device both reach, counters
that do not suffice) one node has to do without something, and every such way out is tried: complete, but for devices in shares, which
a node does without altogether or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dra_operator.allocator.gathering import Gathering, Group, Limits, Sort, Spot
from dra_operator.allocator.search import Stopped, Work
from dra_operator.allocator.validation import validate
from dra_operator.api.claims import Allocation, ResourceClaim
from dra_operator.inventory import DeviceId, Snapshot

#: Members by node, in the order of the spot's group.
Groups = dict[str, tuple[int, ...]]

#: A node, and what it may do without.
WayOut = tuple[str, Callable[[Limits], Limits]]


class Reconciling:
    """`claims` and `follows` are by member. `shared`: may devices that several nodes reach be taken?"""

    def __init__(
        self,
        gathering: Gathering,
        claims: Sequence[tuple[ResourceClaim, ...]],
        follows: Sequence[tuple[tuple[int, int], ...]],
        snapshot: Snapshot,
        work: Work,
    ) -> None:
        self.gathering, self.claims, self.follows = gathering, claims, follows
        self.snapshot, self.work = snapshot, work
        self.sort_of: dict[int, Sort] = {member: sort for sort in gathering.sorts for member in sort.members}
        self.shared = False
        self._linked = any(link.distinct for link in gathering.links)

    @property
    def needed(self) -> bool:
        """Can what one node gives take something from another?"""
        return self._linked or self.shared or any(self.follows)

    def group(self, members: Sequence[int]) -> Group:
        return tuple(self.sort_of[member].index for member in members)

    def spend(self) -> None:
        self.work.left -= 1
        if self.work.left < 0:
            raise Stopped

    def reconcile(self, groups: Groups, limits: Limits) -> dict[str, Spot] | None:
        """Devices for all groups at once. Raises Stopped."""
        stack: list[dict[str, Limits]] = [{}]
        seen: set[frozenset[tuple[str, Limits]]] = set()
        while stack:
            own = stack.pop()
            key = frozenset(own.items())
            if key in seen:
                continue
            seen.add(key)
            self.spend()
            spots: dict[str, Spot] = {}
            for name, members in groups.items():
                spot = self.gathering.on(name, self.group(members), own.get(name, limits))
                if spot is None:
                    break
                spots[name] = spot
            else:
                ways_out = self._conflict(groups, spots)
                if ways_out is None:
                    return spots
                for name, narrow in reversed(ways_out):
                    stack.append({**own, name: narrow(own.get(name, limits))})
        return None

    # -- conflicts between nodes -----------------------------------------------------------------------------------

    def _conflict(self, groups: Groups, spots: dict[str, Spot]) -> list[WayOut] | None:
        """None if all spots go together; else what one of the nodes must do without, each way out of it."""
        for link, item in enumerate(self.gathering.links):
            if item.distinct:
                holder: dict[Hashable, str] = {}
                for name, spot in spots.items():
                    for value in frozenset().union(*self.gathering.values_in(spot, link)):
                        other = holder.setdefault(value, name)
                        if other != name:
                            return [(node, _without_value(link, value)) for node in (other, name)]
        if any(self.follows) and not self._followed(groups, spots):
            return []
        return self._overlap(groups, spots) if self.shared else None

    def _overlap(self, groups: Groups, spots: dict[str, Spot]) -> list[WayOut] | None:
        """Devices that several nodes reach, or their counters, taken twice."""
        taken: dict[DeviceId, str] = {}
        shared: dict[str, list[DeviceId]] = {name: [] for name in spots}
        for name, spot in spots.items():
            for way, _, offer in spot.devices():
                if way.admin or offer.home is not None:
                    continue
                shared[name].append(offer.id)
                if not offer.device.allow_multiple:
                    other = taken.setdefault(offer.id, name)
                    if other != name:
                        return [(node, _without_device(offer.id)) for node in (other, name)]
        if self.gathering.ignore_usage or sum(map(bool, shared.values())) < 2:
            return None
        return self._overdrawn(groups, {name: spots[name] for name, ids in shared.items() if ids}, shared)

    def _overdrawn(
        self, groups: Groups, spots: dict[str, Spot], shared: dict[str, list[DeviceId]]
    ) -> list[WayOut] | None:
        """Counters or capacity that do not suffice for all, seen by putting one node's devices after the other's."""
        reverts = []
        placed: list[str] = []
        try:
            for name, spot in spots.items():
                claims, allocations = self.written(groups[name], spot)
                if placed and validate(self.snapshot, claims, allocations, name):
                    pools = {(device.driver, device.pool) for device in shared[name]}
                    involved = [
                        (node, device)
                        for node in (*placed, name)
                        for device in shared[node]
                        if (device.driver, device.pool) in pools
                    ]
                    return [(node, _without_device(device)) for node, device in dict.fromkeys(involved)]
                for claim, allocation in zip(claims, allocations, strict=True):
                    reverts.append(self.snapshot.use(claim.meta.uid or str(claim.key), allocation))
                placed.append(name)
        finally:
            for revert in reversed(reverts):
                revert()
        return None

    def _followed(self, groups: Groups, spots: dict[str, Spot]) -> bool:
        """Can members that use a claim of another one reach its devices?"""
        node_of = {member: name for name, members in groups.items() for member in members}
        for name, members in groups.items():
            record = self.gathering.inventory.nodes[name]
            for member in members:
                for owner, number in self.follows[member]:
                    at = node_of.get(owner)
                    if at is None or at == name:
                        continue
                    selector = self.allocations_of(owner, groups[at], spots[at])[number].node_selector
                    labels = {} if record.node is None else record.node.labels
                    if selector is not None and not selector.matches(name, labels):
                        return False
        return True

    # -- allocations -----------------------------------------------------------------------------------------------

    def written(self, members: tuple[int, ...], spot: Spot) -> tuple[tuple[ResourceClaim, ...], tuple[Allocation, ...]]:
        """The claims of a node's members and their allocations."""
        claims = tuple(claim for member in members for claim in self.claims[member])
        return claims, self.gathering.allocations(spot, claims, self.gathering.sorts[0].problem.seed)

    def allocations_of(self, member: int, members: tuple[int, ...], spot: Spot) -> tuple[Allocation, ...]:
        _, allocations = self.written(members, spot)
        first = sum(len(self.claims[other]) for other in members[: members.index(member)])
        return allocations[first : first + len(self.claims[member])]


def _without_value(link: int, value: Hashable) -> Callable[[Limits], Limits]:
    return lambda limits: limits.without_value(link, value)


def _without_device(device: DeviceId) -> Callable[[Limits], Limits]:
    return lambda limits: limits.without_device(device)
