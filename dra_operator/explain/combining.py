"""Several changes at once, where no single one helps: all of them are made, then those given back that turn out not to be needed.

What is left is minimal in that none of it can be left out; of each change the smallest version that still does is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dra_operator.explain.bench import Bench, Fits
from dra_operator.explain.changes import Change
from dra_operator.explain.drafts import Draft
from dra_operator.explain.looking import Look
from dra_operator.explain.releases import Release, holders_on
from dra_operator.inventory.views import NodeRecord

#: Changes of different things that are made together at most.
_TOGETHER = 16
#: More than so many changes are no advice.
_USEFUL = 4
#: Nodes on which everybody's devices are freed besides.
_NODES = 3


@dataclass(frozen=True, slots=True)
class Combination:
    """`changes`: cheapest first."""

    changes: tuple[Change, ...]
    draft: Draft
    fits: Fits


def combine(bench: Bench, look: Look, changes: Iterable[Change]) -> Combination | None:
    """The changes that help together; None if not even all of them do, or if too many are needed."""
    versions = _by_subject(changes)
    strongest = [members[-1] for members in versions.values()][:_TOGETHER]
    found = _minimal(strongest, versions, partial(_fits, bench))
    if found is None:
        for record in _roomiest(look):
            holders = [
                Release("free", (record.name,), (holder,)).change(look.situation) for holder in holders_on(look, record)
            ]
            everything = [*strongest, *holders]
            found = _minimal(everything, versions, partial(_fits_on, bench, record))
            if found is not None:
                break
    if found is None or not 1 < len(found) <= _USEFUL:
        return None
    draft = _drafted(bench, found)
    fits = None if draft is None else bench.fits(draft)
    return None if draft is None or fits is None else Combination(tuple(found), draft, fits)


def _by_subject(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """The versions of each change, the least first."""
    found: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.cost):
        if change.kind not in ("attribute", "hold"):
            found.setdefault(change.about, []).append(change)
    return found


def _minimal(
    changes: Sequence[Change], versions: dict[str, list[Change]], fits: Callable[[Sequence[Change]], bool]
) -> list[Change] | None:
    """Of changes that help together those that are needed, the dearest given back first, and each as small as will do."""
    if not changes or not fits(changes):
        return None
    kept = sorted(changes, key=lambda change: change.cost)
    for change in reversed(list(kept)):
        rest = [other for other in kept if other is not change]
        if rest and fits(rest):
            kept = rest
    for place, change in enumerate(kept):
        for smaller in versions.get(change.about, []):
            if smaller is change:
                break
            if fits([*kept[:place], smaller, *kept[place + 1 :]]):
                kept[place] = smaller
                break
    return kept


def _drafted(bench: Bench, changes: Iterable[Change]) -> Draft | None:
    draft: Draft | None = bench.start
    for change in changes:
        if draft is not None:
            draft = change.apply(draft)
    return draft


def _fits(bench: Bench, changes: Sequence[Change]) -> bool:
    draft = _drafted(bench, changes)
    return bench.left > 0 and draft is not None and bench.fits(draft) is not None


def _fits_on(bench: Bench, record: NodeRecord, changes: Sequence[Change]) -> bool:
    draft = _drafted(bench, changes)
    return draft is not None and bench.fits_on(draft, record)


def _roomiest(look: Look) -> list[NodeRecord]:
    """The nodes with most devices that the unit may run on."""
    places = [place for place in look.places if place.misfit is None and place.record.offers]
    places.sort(key=lambda place: (-len(place.record.offers), place.record.name))
    return [place.record for place in places[:_NODES]]
