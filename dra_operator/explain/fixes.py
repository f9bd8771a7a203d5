"""What would fix it: changes, cheapest first, each tried on the snapshot before it is told. What did not help is not mentioned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from dra_operator.explain.bench import Bench, Fits
from dra_operator.explain.changes import Change
from dra_operator.explain.combining import combine
from dra_operator.explain.drafts import Draft, both
from dra_operator.explain.edits import edits_of
from dra_operator.explain.explanation import COPIES, Edit, Fix, counted, listed
from dra_operator.explain.looking import Look
from dra_operator.explain.situation import Situation

#: Fixes looked for; further ones would not be read.
_ENOUGH = 8
#: Of changes that do not help alone, so many are tried in pairs.
_PAIRED = 8


@dataclass(frozen=True, slots=True)
class Found:
    """A fix, the draft that proved it, and what it costs."""

    fix: Fix
    draft: Draft
    cost: tuple[int, float, str]

    @classmethod
    def of(cls, situation: Situation, change: Change, draft: Draft, fits: Fits | None = None) -> Found:
        nodes = () if fits is None else fits.nodes
        return cls(Fix(change.kind, change.text, edits_of(situation, draft), nodes), draft, change.cost)


def find_fixes(
    bench: Bench, look: Look | None, changes: Iterable[Change], larger: Iterable[Change], *, pairs: bool = False
) -> list[Found]:
    """Try `changes` one by one, then the `larger` ones that cost more; if none of them helps, several together."""
    situation = bench.situation
    # The same change of a class is proposed for each request of the class.
    changes = sorted({change.text: change for change in changes}.values(), key=lambda change: change.cost)
    found = _singles(bench, changes, reserve=bench.effort.drafts // 4)
    found += _singles(bench, larger, reserve=1)
    if (look is not None or pairs) and not found:
        found += _pairs(bench, changes)
    if look is not None and not found:
        combination = combine(bench, look, changes)
        if combination is not None:
            text = ", and ".join(change.text for change in combination.changes)
            whole = replace(combination.changes[-1], text=text, size=float(len(combination.changes)))
            found.append(Found.of(situation, whole, combination.draft, combination.fits))
    if len(found) < _ENOUGH:
        found += _with_another_node(bench)
    return sorted(found, key=lambda item: item.cost)[:_ENOUGH]


def _singles(bench: Bench, changes: Iterable[Change], *, reserve: int) -> list[Found]:
    found: list[Found] = []
    helped: set[str] = set()
    for change in changes:
        if bench.left <= reserve or len(found) >= _ENOUGH:
            break
        if change.family in helped:
            continue
        draft = change.apply(bench.start)
        fits = None if draft is None else bench.fits(draft)
        if draft is not None and fits is not None:
            helped.add(change.family)
            found.append(Found.of(bench.situation, change, draft, fits))
    return found


def _pairs(bench: Bench, changes: list[Change]) -> list[Found]:
    """The cheapest pair of changes of any two things."""
    found: list[Found] = []
    helped: set[frozenset[str]] = set()
    for first, second in _by_cost(_distinct(changes)):
        if bench.left <= bench.effort.drafts // 3 or len(found) >= 3:
            break
        about = frozenset((first.about, second.about))
        if about in helped:
            continue
        draft = both(first.apply, second.apply)(bench.start)
        fits = None if draft is None else bench.fits(draft)
        if draft is not None and fits is not None:
            helped.add(about)
            change = replace(second, text=f"{first.text}, and {second.text}", size=first.size + second.size + 1)
            found.append(Found.of(bench.situation, change, draft, fits))
    return found


def _distinct(changes: Iterable[Change]) -> list[Change]:
    """The first of each family and the last, which changes most."""
    families: dict[str, list[Change]] = {}
    for change in changes:
        families.setdefault(change.family, []).append(change)
    ends = [change for members in families.values() for change in dict.fromkeys((members[0], members[-1]))]
    return sorted(ends, key=lambda change: change.cost)[: 2 * _PAIRED]


def _by_cost(changes: list[Change]) -> Iterator[tuple[Change, Change]]:
    pairs = ((first, second) for first, second in combinations(changes, 2) if first.about != second.about)
    yield from sorted(pairs, key=lambda pair: (pair[1].cost[0] + pair[0].cost[0], pair[0].size + pair[1].size))


def _with_another_node(bench: Bench) -> list[Found]:
    """More nodes like one there is: one, and one more for each unit before this one that would take it."""
    draft = replace(bench.start, another_node=True)
    fits = bench.fits(draft)
    if fits is None or not fits.nodes:
        return []
    node = fits.nodes[0]
    count = bench.nodes_needed(node)
    text = f"add a node like {node}"
    if count > 1:
        text = f"add {count} nodes like {node}: {counted(count - 1, 'unit')} before it in the queue may take the others"
    draft = replace(draft, edits=(Edit(f"Node {node}", COPIES, count),))
    return [Found.of(bench.situation, Change("new node", text, lambda _: draft, "new node"), draft, fits)]


def relaxing(bench: Bench, placed: Fits) -> list[Found]:
    """A larger quota, or a smaller reservation, where that is all that is in the way. `placed`: without budgets."""
    situation = bench.situation
    claims = situation.problem.claims
    waiver = None if situation.behind_for_quota else situation.relaxed(claims, placed.allocations)
    if waiver is None:
        return []
    draft = replace(bench.start, edits=(waiver.edit,))
    return [Found.of(situation, Change("budget", waiver.text, lambda _: draft, "budget"), draft, placed)]


def outranking(look: Look) -> list[Change]:
    """Devices held or reserved for others: to be served before them."""
    situation = look.situation
    forbidden = situation.problem.forbidden
    if not forbidden:
        return []
    holds: dict[str, int | None] = {}
    reserved: dict[str, None] = {}
    for device in sorted(forbidden):
        kept = situation.kept(device)
        if kept is not None and kept.reserved:
            reserved[kept.name] = None
        elif kept is not None:
            holds[kept.name] = kept.priority
    parts = []
    if holds:
        highest = max((priority for priority in holds.values() if priority is not None), default=None)
        above = "" if highest is None else f", or give it a priority above {highest}"
        parts.append(f"wait until {listed(list(holds))} {'has' if len(holds) == 1 else 'have'} been served{above}")
    if reserved:
        parts.append(f"reduce the reservation of {listed(list(reserved))}")
    if not parts:
        return []

    def apply(draft: Draft) -> Draft:
        return replace(draft, problem=replace(draft.problem, forbidden=frozenset()))

    return [Change("hold", ", and ".join(parts), apply, "hold")]
