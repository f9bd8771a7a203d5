"""One look at everything published, for one unit: at which step each device falls out, and what each node has left.

Counts every device once, whichever nodes see it. Answers come from masks by view and state, so that equal nodes cost little more than
one; only devices that somebody has are looked up one by one, to say who. The steps are in the order of `explanation.WHYS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dra_operator.allocator import Trial
from dra_operator.allocator.capacity import CapacityError, consumption, shortfall
from dra_operator.allocator.masks import bits_of
from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.selection import Broken, Rejected
from dra_operator.allocator.start import Start
from dra_operator.allocator.table import Table
from dra_operator.api.taints import untolerated
from dra_operator.cel import CompileError, EvaluationError
from dra_operator.explain.conjuncts import kind_of, kinds_unusable
from dra_operator.explain.explanation import WHYS, Step, Tally, counted, most_first
from dra_operator.explain.situation import Kept, Situation
from dra_operator.inventory.kinds import Kind, attribute_of
from dra_operator.inventory.pools import Offer
from dra_operator.inventory.views import NodeRecord, View
from dra_operator.queue.nodefit import Misfit

#: Holders looked up by name: each costs a look at its pods, and nobody reads more.
_NAMED_HOLDERS = 48
_ORDER = {why: number for number, why in enumerate(WHYS)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a device falls out. `detail` says which taint, node problem… it was, `holder` which claim (UID) has it."""

    why: str
    index: int | None = None
    detail: str = ""
    holder: str = ""

    @property
    def step(self) -> tuple[int, int]:
        return _ORDER[self.why], self.index or 0


@dataclass(slots=True)
class Row:
    """One way's funnel: devices by step, and within a step by detail."""

    counts: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    details: dict[tuple[str, int | None], Counter[str]] = field(default_factory=dict)
    #: Devices allocated, by the claim (UID) that has them.
    holders: Counter[str] = field(default_factory=Counter)
    usable: int = 0
    most_on_a_node: int = 0

    def add(self, verdict: Verdict | None, devices: int = 1) -> None:
        """None: nothing keeps it from being used."""
        if verdict is None:
            self.usable += devices
            return
        key = (verdict.why, verdict.index)
        self.counts[key] += devices
        if verdict.holder:
            self.holders[verdict.holder] += devices
        elif verdict.detail:
            self.details.setdefault(key, Counter())[verdict.detail] += devices

    @property
    def devices(self) -> int:
        return sum(self.counts.values()) + self.usable

    def steps(self, way: Way, holder: Callable[[str], str]) -> tuple[Step, ...]:
        keys = sorted(self.counts, key=lambda key: (_ORDER[key[0]], key[1] or 0))
        return tuple(
            Step(why, self.counts[why, index], _text(why, index, way), index, self._details(why, index, holder))
            for why, index in keys
        )

    def _details(self, why: str, index: int | None, holder: Callable[[str], str]) -> Tally:
        if why != "allocated":
            return most_first(self.details.get((why, index), Counter()).items())
        named: Counter[str] = Counter()
        ranked = self.holders.most_common()
        for uid, devices in ranked[:_NAMED_HOLDERS]:
            named[holder(uid)] += devices
        rest = ranked[_NAMED_HOLDERS:]
        others = ((f"{counted(len(rest), 'other claim')}", sum(devices for _, devices in rest)),) if rest else ()
        return (*most_first(named.items()), *others)


#: Each says what the devices are, after their number.
_TEXTS = {
    "error": "on which a selector fails",
    "pool": "in pools that cannot be used",
    "unsupported": "in need of features that are off",
    "size": "without the capacity asked for",
    "taint": "with taints that are not tolerated",
    "attribute": "without an attribute that a constraint compares",
    "node": "on nodes that are out of the question",
    "allocated": "allocated",
    "held": "held for others",
    "reserved": "reserved for others",
    "capacity": "short of capacity",
    "counters": "short of shared counters",
}


def _text(why: str, index: int | None, way: Way) -> str:
    if why == "class":
        several = len(way.filter.device_class.selectors) > 1
        return f"not of class {way.detail.device_class_name}" + (f" (selector {index})" if several else "")
    if why == "request":
        several = len(way.filter.expressions) > 1
        return f"not matching the request's selector{f' {index}' if several else ''}"
    return _TEXTS[why]


def _plain_error(message: str) -> str:
    """An error of a selector without what cel-go puts around it: the expression once more, and an arrow."""
    return re.sub(
        r"CEL (\w+) error: .*?ERROR: <input>:(\d+:\d+): (.*?)\s+\|.*", r"\1 error at \2: \3", message, flags=re.DOTALL
    )


@dataclass(frozen=True, slots=True)
class Spot:
    """What nodes in one state have for each way, as bits: usable now, and fitting whoever has them."""

    table: Table
    start: Start
    usable: tuple[int, ...]
    fitting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One node that sees devices. `misfit`: why the unit cannot run there."""

    record: NodeRecord
    misfit: Misfit | None
    spot: Spot


@dataclass(slots=True)
class _Own:
    """What is fixed for one way on all nodes with one view: `verdicts` of their own devices, with how many; `passing` bits."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    passing: int = 0
    shared: dict[int, Verdict | None] = field(default_factory=dict)


class Look:
    """`rows` by way of the plan; `places` by node name."""

    def __init__(self, situation: Situation, trial: Trial) -> None:
        self.situation, self.trial, self.plan = situation, trial, trial.plan
        self.inventory = situation.snapshot.inventory
        self.rows = [Row() for _ in self.plan.ways]
        self.places: list[Place] = []
        self._selectors = memory_of(self.inventory).selectors
        self._own: dict[View, list[_Own]] = {}
        #: The furthest that any node lets a shared device come.
        self._shared: dict[tuple[int, object], tuple[tuple[int, int], Verdict | None]] = {}
        self._seen: set[object] = set()
        self._holders: dict[str, str] = {}
        self._look_at_nodes()
        self._count_shared()
        self._count_unseen()
        self._count_unusable_pools()
        self.places.sort(key=lambda place: place.record.name)

    @property
    def spots(self) -> list[Spot]:
        """Each once, however many nodes are like it."""
        return list({id(place.spot): place.spot for place in self.places}.values())

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _look_at_nodes(self) -> None:
        held = self.trial.held
        for state in self.inventory.states.populated():
            own = self._fixed(state.view)
            spots: dict[int, Spot] = {}
            for verdicts, row in zip(own, self.rows, strict=True):
                for verdict, devices in verdicts.verdicts.items():
                    row.add(verdict, devices * len(state.nodes))
            for name in state.nodes:
                record = self.inventory.nodes[name]
                mask = held.get(name, 0)
                spot = spots.get(mask)
                if spot is None:
                    spot = spots[mask] = self._spot(record, own)
                misfit = self.situation.misfit_of(name)
                self.places.append(Place(record, misfit, spot))
                self._count_node(record, misfit, spot, own)

    def _spot(self, record: NodeRecord, own: list[_Own]) -> Spot:
        assert record.view is not None
        table, start = self.trial.table(record.view), self.trial.start(record)
        usable = tuple(
            sum(
                1 << bit
                for bit in bits_of(table.columns[way.index].usable)
                if self._dynamic(table, start, way, bit) is None
            )
            for way in self.plan.ways
        )
        return Spot(table, start, usable, tuple(column.usable for column in table.columns))

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

    def _count_node(self, record: NodeRecord, misfit: Misfit | None, spot: Spot, own: list[_Own]) -> None:
        table = spot.table
        for way, fixed, row in zip(self.plan.ways, own, self.rows, strict=True):
            if misfit is not None:
                if fixed.passing:
                    row.add(Verdict("node", detail=misfit.reason), fixed.passing.bit_count())
            else:
                usable = spot.usable[way.index]
                row.usable += (fixed.passing & usable).bit_count()
                row.most_on_a_node = max(row.most_on_a_node, usable.bit_count())
                for bit in bits_of(fixed.passing & ~usable):
                    row.add(self._moving(table, spot.start, way, bit, record.offers[table.order[bit]]))
            for bit, verdict in fixed.shared.items():
                offer = record.offers[table.order[bit]] if bit >= 0 else record.offers[-bit - 1]
                if verdict is None:
                    if misfit is not None:
                        verdict = Verdict("node", detail=misfit.reason)
                    else:
                        verdict = self._moving(table, spot.start, way, bit, offer)
                self._note_shared(way, offer, verdict)

    def _moving(self, table: Table, start: Start, way: Way, bit: int, offer: Offer) -> Verdict | None:
        """What keeps a device that passes from being used now."""
        why = self._dynamic(table, start, way, bit)
        if why is None:
            return None
        users = self.inventory.users(offer.id)
        if why == "taken":
            occupancy = self.inventory.occupancy(offer.id)
            whole = occupancy is not None and (occupancy.whole or not offer.device.allow_multiple)
            if whole or offer.id not in self.situation.problem.forbidden:
                return Verdict("allocated", holder=users[0] if users else "")
            kept = self.situation.kept(offer.id)
            return Verdict("reserved" if kept is not None and kept.reserved else "held", detail=kept_text(kept))
        if why == "capacity":
            return Verdict("capacity", detail=", ".join(sorted({self.holder(uid) for uid in users})[:3]))
        return Verdict("counters", detail=self._counter_text(table, start, bit))

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

    # -- what is fixed by a view -----------------------------------------------------------------------------------

    def _fixed(self, view: View) -> list[_Own]:
        known = self._own.get(view)
        if known is not None:
            return known
        table = self.trial.table(view)
        bit_of = {position: bit for bit, position in enumerate(table.order)}
        found = [_Own() for _ in self.plan.ways]
        for position, (kind, offer) in enumerate(zip(view.kinds, view.offers, strict=True)):
            for way, own in zip(self.plan.ways, found, strict=True):
                bit = bit_of.get(position)
                usable = bit is not None and bool(table.columns[way.index].usable >> bit & 1)
                verdict = None if usable else self._verdict(way, kind, offer, view.skips_allowed)
                if offer.home is None:
                    own.shared[bit if bit is not None else -position - 1] = verdict
                elif verdict is not None:
                    own.verdicts[verdict] += 1
                else:
                    assert bit is not None
                    own.passing |= 1 << bit
        self._own[view] = found
        return found

    def _verdict(self, way: Way, kind: Kind, offer: Offer, skips_allowed: bool) -> Verdict:
        """Why a device that the table does not offer falls out."""
        verdict = self._selection(way, kind)
        if verdict is not None:
            return verdict
        features, device = self.inventory.features, kind.device
        if (
            (device.binding_conditions and not features.device_binding_and_status)
            or (kind.skips_node and not (features.optional_node_operations and skips_allowed))
            or (device.consumes and not features.partitionable_devices)
        ):
            return Verdict("unsupported")
        if features.consumable_capacity:
            try:
                if consumption(way.detail.capacity, device, features.fractional_capacity_range) is None:
                    short = shortfall(way.detail.capacity, device, features.fractional_capacity_range)
                    return Verdict("size", detail=short)
            except CapacityError as error:
                return Verdict("error", detail=str(error))
        taint = untolerated(kind.taints, way.detail.tolerations) if features.device_taints else None
        if taint is not None:
            return Verdict("taint", detail=str(taint))
        for number in way.constraints:
            attributes = self.plan.rules[number].attributes
            expression = way.derived.get(attributes[0])
            if expression is not None:
                try:
                    self._selectors.value(expression, kind)
                except (CompileError, EvaluationError) as error:
                    return Verdict("error", detail=f"derived attribute {attributes[0]}: {error}")
            elif all(attribute_of(offer.device, kind.driver, name) is None for name in attributes):
                return Verdict("attribute", detail=attributes[0])
        return Verdict("attribute", detail="an attribute that it has as a list")

    def _selection(self, way: Way, kind: Kind, *, once: bool = False) -> Verdict | None:
        outcome = way.filter.judge(kind) if once else way.filter.outcome(kind)
        match outcome:
            case None:
                return None
            case Rejected():
                return Verdict("class" if outcome.by_class else "request", outcome.index)
            case Broken():
                source = f"class {way.detail.device_class_name}" if outcome.by_class else "the request"
                return Verdict("error", detail=f"selector {outcome.index} of {source}: {_plain_error(outcome.message)}")

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
                verdict = self._selection(way, kind)
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
                    row.add(self._selection(way, kind, once=True) or reason)


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
