"""Views and states: what makes two nodes the same to the allocator.

A *view* is the ordered list of devices a node can use, described so that equal nodes get the same view: kinds for devices that only
this node sees, the devices themselves for those that others see as well. A *state* is a view together with what is taken of the
node's own devices. Nodes in one state share every answer, which is why the allocator looks at states and not at nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import ref

from dra_operator.api.core import Node
from dra_operator.api.selectors import NodeSelector, node_by_name
from dra_operator.inventory.identity import DeviceId
from dra_operator.inventory.kinds import Kind, attribute_of, typed
from dra_operator.inventory.pools import Offer, Pool
from dra_operator.inventory.trail import Trail

#: The node feature without which devices with `skipNodeOperations` cannot be used (KEP-5945).
SKIP_NODE_OPERATIONS = "DRAOptionalNodeOperations"

#: Shares taken of a node's own devices: (position, consumed capacity by name in 10^-9).
Shares = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One pool's part of a view: positions from `start` to before `stop`. Without devices where the pool is not usable."""

    pool: Pool
    start: int
    stop: int
    local: bool

    @property
    def status(self) -> str | None:
        """None, "incomplete" or "invalid"."""
        content = self.pool.content
        return "incomplete" if content.incomplete is not None else "invalid" if content.invalid is not None else None


class View:
    """`offers` are those of the first node found with this view: names and unread attributes are the representative's."""

    __slots__ = ("broken", "kinds", "offers", "sections", "seq", "shared_pools", "skips_allowed")

    def __init__(self, seq: int, offers: Sequence[Offer], sections: tuple[Section, ...], skips_allowed: bool) -> None:
        self.seq = seq
        self.offers = tuple(offers)
        self.kinds: tuple[Kind, ...] = tuple(_kind(offer) for offer in offers)
        self.sections = sections
        self.skips_allowed = skips_allowed
        self.shared_pools = tuple(
            section.pool
            for section in sections
            if any(self.offers[position].home is None for position in range(section.start, section.stop))
        )
        self.broken = tuple(section for section in sections if section.status is not None)


class Waiter(Protocol):
    """Somebody who put a state without nodes aside."""

    def returned(self, state: State) -> None:
        """The state has nodes again."""


class State:
    """A view and what is taken of the devices only one node sees. `nodes` are the nodes in this state, by name.

    `waiting`: who wants to know when it has nodes again.
    """

    __slots__ = ("nodes", "seq", "shares", "used", "view", "waiting")

    def __init__(self, seq: int, view: View, used: int, shares: Shares) -> None:
        self.seq, self.view, self.used, self.shares = seq, view, used, shares
        self.nodes: list[str] = []
        self.waiting: list[ref[Waiter]] = []

    def wait(self, waiter: ref[Waiter]) -> None:
        """Tell it when there are nodes again, if it is still there then."""
        self.waiting.append(waiter)
        if len(self.waiting) % _WAITING == 0:
            self.waiting = [each for each in self.waiting if each() is not None]


#: After so many came to wait, those that are gone are forgotten.
_WAITING = 64


class NodeRecord:
    """A node as the inventory knows it. `offers` are its devices, in the order of its view."""

    __slots__ = ("name", "node", "offers", "sections", "selector", "shares", "state", "used", "view")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.offers: list[Offer] = []
        self.sections: tuple[Section, ...] = ()
        self.view: View | None = None
        self.used = 0
        self.shares: dict[int, tuple[tuple[str, int], ...]] = {}
        self.state: State | None = None
        self.selector = NodeSelector.from_dict(node_by_name(name))

    @property
    def skips_allowed(self) -> bool:
        return self.node is not None and SKIP_NODE_OPERATIONS in self.node.declared_features


class States:
    """Interns views and states, and keeps a journal of new states (and of shared pools whose usage changed).

    A reader of the journal that remembers how far it has read learns of every state; where it puts one aside because it has no
    nodes, it asks the state to tell it once there are some (`State.wait`).
    """

    _JOURNAL_LIMIT = 65_536
    _STATES_LIMIT = 8192

    def __init__(self) -> None:
        self._views: dict[tuple[object, ...], View] = {}
        self._states: dict[tuple[int, int, Shares], State] = {}
        self._count = 0
        self._limit = self._STATES_LIMIT
        self.journal: list[State | Pool] = []
        self.journal_start = 0
        #: Nodes that got into another state.
        self.moves = Trail[str]()
        #: Devices without a home that were taken or given back.
        self.shared_uses = Trail[DeviceId]()

    @property
    def journal_end(self) -> int:
        return self.journal_start + len(self.journal)

    def view(self, record: NodeRecord, linked: Iterable[str]) -> View:
        """The view of a node whose offers and sections are set. `linked`: attributes that only constraints read."""
        key = (
            record.skips_allowed and any(_kind(offer).skips_node for offer in record.offers),
            tuple(_section_key(section) for section in record.sections),
            tuple(
                _kind(offer).seq if offer.home is not None else (offer.id, _kind(offer).seq) for offer in record.offers
            ),
            tuple(_linked(name, record.offers) for name in linked),
        )
        view = self._views.get(key)
        if view is None:
            self._count += 1
            view = self._views[key] = View(self._count, record.offers, record.sections, bool(key[0]))
        return view

    def move(self, record: NodeRecord) -> None:
        """Put a known node into the state that its view, `used` and `shares` make, and an unknown one into none."""
        old = record.state
        if record.node is None or record.view is None:
            new = None
        else:
            shares: Shares = tuple(sorted(record.shares.items())) if record.shares else ()
            key = (record.view.seq, record.used, shares)
            new = self._states.get(key)
            if new is None:
                self._count += 1
                new = self._states[key] = State(self._count, record.view, record.used, shares)
                self.note(new)
        if new is old:
            return
        name = record.name
        if old is not None:
            del old.nodes[bisect_left(old.nodes, name)]
        record.state = new
        self.moves.note(name)
        if new is not None:
            insort(new.nodes, name)
            if new.waiting:
                waiting, new.waiting = new.waiting, []
                for each in waiting:
                    waiter = each()
                    if waiter is not None:
                        waiter.returned(new)
        if len(self._states) > self._limit:
            self._forget_unused()

    def note(self, item: State | Pool) -> None:
        """Append to the journal; readers that are too far behind must start over."""
        self.journal.append(item)
        if len(self.journal) > self._JOURNAL_LIMIT:
            drop = self._JOURNAL_LIMIT // 2
            del self.journal[:drop]
            self.journal_start += drop

    def known(self) -> list[State]:
        """All states, also those without nodes."""
        return list(self._states.values())

    def populated(self) -> list[State]:
        """All states with nodes."""
        return [state for state in self._states.values() if state.nodes]

    def _forget_unused(self) -> None:
        """Drop states without nodes, and views without states: usage may never come back to most of them."""
        self._states = {key: state for key, state in self._states.items() if state.nodes}
        views = {state.view for state in self._states.values()}
        self._views = {key: view for key, view in self._views.items() if view in views}
        self._limit = max(self._STATES_LIMIT, 4 * len(self._states))


def _kind(offer: Offer) -> Kind:
    assert offer.kind is not None
    return offer.kind


def _section_key(section: Section) -> tuple[object, ...]:
    pool = section.pool
    if section.status is not None:
        return (pool.id.driver, section.status, section.start)
    if not section.local:
        return (pool, pool.version, section.start, section.stop)
    counters = tuple(
        (item.name, tuple((name, amount.nano) for name, amount in sorted(item.counters.items())))
        for item in pool.content.counter_sets
    )
    return (pool.id.driver, section.start, section.stop, counters)


def _linked(attribute: str, offers: Sequence[Offer]) -> tuple[object, ...]:
    """The pattern of equal values of an attribute over a node's devices: values are numbered as they appear, so that nodes that
    differ only in the values themselves are equal. Devices that other nodes see keep theirs, and then so do all."""
    values = [typed(attribute_of(offer.device, offer.id.driver, attribute)) for offer in offers]
    if any(offer.home is None and value != ("unknown",) for offer, value in zip(offers, values, strict=True)):
        return tuple(values)
    numbers: dict[object, int] = {}

    def number(value: object) -> object:
        if value == ("unknown",):
            return None
        if isinstance(value, tuple) and value[0] == "list":
            return tuple(number(item) for item in value[1:])
        return numbers.setdefault(value, len(numbers))

    return tuple(number(value) for value in values)
