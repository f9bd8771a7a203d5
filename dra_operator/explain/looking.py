"""One look at everything published, for one unit: at which step each device falls out, and what each node has left.

Counts every device once, whichever nodes see it. What nodes in one state have in common is found out once and counted for all of them;
only who has a device is looked up device by device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.allocator import Trial
from dra_operator.allocator.masks import bits_of, mask_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table
from dra_operator.explain.conjuncts import kind_of, kinds_unusable
from dra_operator.explain.explanation import WHYS
from dra_operator.explain.fixed import Fixed, Own
from dra_operator.explain.funnel import Row, Verdict
from dra_operator.explain.situation import Kept, Situation
from dra_operator.inventory.pools import Offer
from dra_operator.inventory.views import NodeRecord, State
from dra_operator.queue.nodefit import Misfit


@dataclass(frozen=True, slots=True)
class Spot:
    """What nodes in one state have for each way, as bits: usable now, and fitting whoever has them."""

    table: Table
    start: Start
    usable: tuple[int, ...]
    fitting: tuple[int, ...]
    #: By way the fitting bits that are not usable, with the step at which they fall out (`_dynamic`).
    lacking: tuple[tuple[tuple[int, str], ...], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One node that sees devices. `misfit`: why the unit cannot run there."""

    record: NodeRecord
    misfit: Misfit | None
    spot: Spot


class Look:
    """`rows` by way of the plan; `places` by node name."""

    def __init__(self, situation: Situation, trial: Trial) -> None:
        self.situation, self.trial, self.plan = situation, trial, trial.plan
        self.inventory = situation.snapshot.inventory
        self.rows = [Row() for _ in self.plan.ways]
        self.places: list[Place] = []
        self._fixed = Fixed(trial, self.inventory)
        #: The furthest that any node lets a shared device come; and what was looked at to find it.
        self._shared: dict[tuple[int, object], tuple[tuple[int, int], Verdict | None]] = {}
        self._shared_in: set[tuple[object, ...]] = set()
        self._seen: set[object] = set()
        self._holders: dict[str, str] = {}
        for state in self.inventory.states.populated():
            self._look_at_nodes(state)
        self._count_shared()
        self._count_unseen()
        self._count_unusable_pools()
        self.places.sort(key=lambda place: place.record.name)

    @property
    def spots(self) -> list[Spot]:
        """Each once, however many nodes are like it."""
        return list({id(place.spot): place.spot for place in self.places}.values())

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _look_at_nodes(self, state: State) -> None:
        own = self._fixed.of(state.view)
        for verdicts, row in zip(own, self.rows, strict=True):
            for verdict, devices in verdicts.verdicts.items():
                row.add(verdict, devices * len(state.nodes))
        spots: dict[int, Spot] = {}
        several_see_some = any(fixed.shared for fixed in own)
        unfit: Counter[str] = Counter()
        fit: dict[int, list[NodeRecord]] = {}
        for name in state.nodes:
            record = self.inventory.nodes[name]
            mask = self.trial.held.get(name, 0)
            spot = spots.get(mask)
            if spot is None:
                spot = spots[mask] = self._spot(record)
            misfit = self.situation.misfit_of(name)
            self.places.append(Place(record, misfit, spot))
            if misfit is None:
                fit.setdefault(mask, []).append(record)
            else:
                unfit[misfit.reason] += 1
            if several_see_some:
                self._note_shared_on(record, misfit, spot, own)
        for fixed, row in zip(own, self.rows, strict=True):
            for reason, nodes in unfit.items() if fixed.passing else ():
                row.add(Verdict("node", detail=reason), fixed.passing.bit_count() * nodes)
        for mask, records in fit.items():
            self._count_alike(records, spots[mask], own)

    def _spot(self, record: NodeRecord) -> Spot:
        assert record.view is not None
        table, start = self.trial.table(record.view), self.trial.start(record)
        usable, lacking = [], []
        for way in self.plan.ways:
            steps = [(bit, self._dynamic(table, start, way, bit)) for bit in bits_of(table.columns[way.index].usable)]
            usable.append(mask_of((bit for bit, step in steps if step is None), len(table.order)))
            lacking.append(tuple((bit, step) for bit, step in steps if step is not None))
        fitting = tuple(column.usable for column in table.columns)
        return Spot(table, start, tuple(usable), fitting, tuple(lacking))

    def _dynamic(self, table: Table, start: Start, way: Way, bit: int) -> str | None:
        """The step at which a device falls out for what is taken; "taken" stands for allocated, held and reserved."""
        if way.admin:
            return None
        if not start.free >> bit & 1:
            return "taken"
        takes = table.columns[way.index].takes.get(bit, ())
        for at, left in start.left:
            if at == bit and any(take > have for take, have in zip(takes, left, strict=True)):
                return "capacity"
        if not start.running >> bit & 1 and any(
            amount > 0 and amount > start.counters[number]
            for number, amount in table.counters.drains.get(table.order[bit], ())
        ):
            return "counters"
        return None

    def _count_alike(self, records: list[NodeRecord], spot: Spot, own: list[Own]) -> None:
        """Nodes with equal devices of their own in one state: only who has those that are taken is another matter on each."""
        order = spot.table.order
        for way, fixed, row in zip(self.plan.ways, own, self.rows, strict=True):
            usable = spot.usable[way.index]
            row.usable += (fixed.passing & usable).bit_count() * len(records)
            row.most_on_a_node = max(row.most_on_a_node, usable.bit_count())
            steps = [(bit, step) for bit, step in spot.lacking[way.index] if fixed.passing >> bit & 1]
            taken = [order[bit] for bit, step in steps if step == "taken"]
            for record in records if taken else ():
                self._count_taken(row, [record.offers[position] for position in taken])
            for bit, step in steps:
                if step == "counters":
                    row.add(Verdict("counters", detail=self._counter_text(spot.table, spot.start, bit)), len(records))
                elif step == "capacity":
                    for record in records:
                        row.add(self._short_of_capacity(record.offers[order[bit]]))

    def _count_taken(self, row: Row, offers: list[Offer]) -> None:
        if self.situation.problem.forbidden:
            for offer in offers:
                row.add(self._taken(offer))
            return
        users = (self.inventory.users(offer.id) for offer in offers)
        row.add_allocated([uids[0] for uids in users if uids], len(offers))

    def _note_shared_on(self, record: NodeRecord, misfit: Misfit | None, spot: Spot, own: list[Own]) -> None:
        """Devices without one home, as far as this node lets them come."""
        for way, fixed in zip(self.plan.ways, own, strict=True):
            for bit, verdict in fixed.shared.items():
                offer = record.offers[spot.table.order[bit]] if bit >= 0 else record.offers[-bit - 1]
                looked = way.index, offer.id, bit, id(spot), None if misfit is None else misfit.reason
                if looked in self._shared_in:
                    continue
                self._shared_in.add(looked)
                if verdict is None and misfit is not None:
                    verdict = Verdict("node", detail=misfit.reason)
                elif verdict is None:
                    verdict = self._moving(spot, way, bit, offer)
                self._note_shared(way, offer, verdict)

    def _moving(self, spot: Spot, way: Way, bit: int, offer: Offer) -> Verdict | None:
        """What keeps a device that passes from being used now."""
        match self._dynamic(spot.table, spot.start, way, bit):
            case None:
                return None
            case "taken":
                return self._taken(offer)
            case "capacity":
                return self._short_of_capacity(offer)
            case _:
                return Verdict("counters", detail=self._counter_text(spot.table, spot.start, bit))

    def _taken(self, offer: Offer) -> Verdict:
        occupancy = self.inventory.occupancy(offer.id)
        whole = occupancy is not None and (occupancy.whole or not offer.device.allow_multiple)
        if whole or offer.id not in self.situation.problem.forbidden:
            users = self.inventory.users(offer.id)
            return Verdict("allocated", holder=users[0] if users else "")
        kept = self.situation.kept(offer.id)
        return Verdict("reserved" if kept is not None and kept.reserved else "held", detail=kept_text(kept))

    def _short_of_capacity(self, offer: Offer) -> Verdict:
        users = self.inventory.users(offer.id)
        return Verdict("capacity", detail=", ".join(sorted({self.holder(uid) for uid in users})[:3]))

    def holder(self, uid: str) -> str:
        """Who has devices, with what matters about it."""
        known = self._holders.get(uid)
        if known is None:
            found = self.situation.holding(uid)
            known = self._holders[uid] = f"claim with UID {uid}" if found is None else str(found)
        return known

    def _counter_text(self, table: Table, start: Start, bit: int) -> str:
        for number, amount in table.counters.drains[table.order[bit]]:
            if amount > start.counters[number]:
                counter_set, name = table.counters.names[number]
                left, total = max(0, start.counters[number]), table.counters.total[number]
                return f"counter {counter_set}/{name}: {plain(amount)} needed, {plain(left)} of {plain(total)} left"
        raise AssertionError("no counter is short")

    # -- devices without one home ----------------------------------------------------------------------------------

    def _note_shared(self, way: Way, offer: Offer, verdict: Verdict | None) -> None:
        far = (len(WHYS), 0) if verdict is None else verdict.step
        key = (way.index, offer.id)
        known = self._shared.get(key)
        if known is None or known[0] < far:
            self._shared[key] = far, verdict

    def _count_shared(self) -> None:
        for (index, device), (_, verdict) in self._shared.items():
            self._seen.add(device)
            self.rows[index].add(verdict)

    def _count_unseen(self) -> None:
        """Published, but for no node that there is."""
        for offer in self._unseen():
            kind = offer.kind or kind_of(self.inventory, offer)
            for way, row in zip(self.plan.ways, self.rows, strict=True):
                verdict = self._fixed.selection(way, kind)
                row.add(verdict or Verdict("node", detail="no node that there is can reach them"))

    def _unseen(self) -> Iterator[Offer]:
        for pool in self.inventory.pools.values():
            for name, offers in pool.here.items():
                record = self.inventory.nodes.get(name)
                if record is None or record.state is None:
                    yield from (offer for offer in offers if offer.home is not None)
            for offer in pool.content.offers:
                if offer.home is None and offer.id not in self._seen:
                    yield offer

    def _count_unusable_pools(self) -> None:
        for pool in self.inventory.pools.values():
            content = pool.content
            if content.usable:
                continue
            reason = Verdict(
                "pool",
                detail=f"pool {pool.id} is {'incomplete' if content.invalid is None else 'invalid'}: "
                f"{content.incomplete or content.invalid}",
            )
            for kind in kinds_unusable(pool):
                for way, row in zip(self.plan.ways, self.rows, strict=True):
                    row.add(self._fixed.selection(way, kind, once=True) or reason)


def kept_text(kept: Kept | None) -> str:
    if kept is None:
        return "somebody else"
    return kept.name if kept.priority is None else f"{kept.name} (priority {kept.priority})"


def plain(nano: int) -> str:
    """An amount in 10^-9 as a person writes it."""
    whole, rest = divmod(nano, 10**9)
    if rest and whole < 10**15:  # beyond, the fraction says nothing, and a float may not hold it
        return f"{nano / 1e9:g}"
    for power, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if whole and whole % (1 << power) == 0:
            return f"{whole >> power}{suffix}"
    return str(whole)
