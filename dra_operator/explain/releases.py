"""Whose devices would have to come free: on the nearest nodes, the fewest holders that make room, kind by kind of holder.

Not the choice of victims: disruption budgets and the preemptor's policy are not looked at. Here a person is told what would help.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dra_operator.explain.bench import Bench
from dra_operator.explain.changes import Change
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import Edit, listed, on_nodes
from dra_operator.explain.looking import Look
from dra_operator.explain.nearest import by_distance
from dra_operator.explain.situation import Holding, Situation
from dra_operator.explain.workloads import older_siblings, update_of
from dra_operator.inventory.views import NodeRecord

#: Holders on one node that are taken into account.
_HOLDERS = 24
#: Users of a quota that are taken into account.
_QUOTA_USERS = 8


@dataclass(frozen=True, slots=True)
class Release:
    """These holders going makes the unit fit on `nodes`. `kind` is one of `changes.KINDS`."""

    kind: str
    nodes: tuple[str, ...]
    holders: tuple[Holding, ...]

    @property
    def rank(self) -> tuple[int, int, int, tuple[str, ...]]:
        return (
            len(self.holders),
            max(holder.priority for holder in self.holders),
            sum(len(holder.claims) for holder in self.holders),
            self.nodes,
        )

    @property
    def claims(self) -> frozenset[str]:
        return frozenset(uid for holder in self.holders for uid in holder.claims)

    def draft(self, start: Draft) -> Draft:
        edits = tuple(Edit(name) for holder in self.holders for name in holder.objects)
        return replace(
            start,
            released=start.released | self.claims,
            gone=start.gone | {pod.meta.uid for holder in self.holders for pod in holder.pods},
            edits=(*start.edits, *edits),
        )

    def change(self, situation: Situation) -> Change:
        names = "/".join(holder.name for holder in self.holders)
        return Change(self.kind, self._text(situation), self.draft, f"release/{names}/{self.kind}", len(self.holders))

    def _text(self, situation: Situation) -> str:
        if self.kind == "strategy":
            assert situation.pod is not None
            update = update_of(situation.pod)
            assert update is not None
            old = listed([holder.name for holder in self.holders])
            return f"{update.repair}; or delete {old} now"
        names = listed([str(holder) for holder in self.holders])
        match self.kind:
            case "idle":
                return f"delete {names}"
            case "preempt":
                return f"free {names} on {on_nodes(self.nodes)}, of lower priority than {situation.priority}"
            case _:
                return (
                    f"free {names} on {on_nodes(self.nodes)}"
                    if self.nodes
                    else f"free {names}, counted to the same quota"
                )


def releases(look: Look, bench: Bench) -> list[Release]:
    """The best one of each kind, on the nearest nodes."""
    best: dict[str, Release] = {}
    seen = 0
    for place in by_distance(look):
        record = place.record
        holders = holders_on(look, record)
        if not holders:
            continue
        seen += 1
        if seen > bench.effort.places:
            break
        if not bench.fits_on(_all_gone(bench.start, holders), record):
            continue
        for kind, allowed in by_mildness(look.situation, holders):
            chosen = _fewest(bench, record, allowed)
            if chosen:
                release = Release(kind, (record.name,), tuple(chosen))
                if kind not in best or release.rank < best[kind].rank:
                    best[kind] = release
    return mildest(best)


def mildest(best: Mapping[str, Release]) -> list[Release]:
    """The best of each kind, mildest first, where no milder one does the same: that would be no news."""
    found: list[Release] = []
    for kind in ("idle", "strategy", "preempt", "free"):
        if kind in best and all(best[kind].claims != other.claims for other in found):
            found.append(best[kind])
    return found


def within_quota(bench: Bench, holders: Iterable[Holding]) -> list[Release]:
    """Devices there are, but the quota is used up: the fewest of those who use it, lowest priority first, that have to go."""
    chosen: list[Holding] = []
    for holder in sorted(holders, key=lambda holder: (not holder.idle, holder.priority, holder.name))[:_QUOTA_USERS]:
        chosen.append(holder)
        release = Release("free", (), tuple(chosen))
        if bench.fits(release.draft(bench.start)) is not None:
            return [release]
    return []


def _all_gone(start: Draft, holders: Iterable[Holding]) -> Draft:
    return Release("free", (), tuple(holders)).draft(start)


def by_mildness(situation: Situation, holders: list[Holding]) -> Iterator[tuple[str, list[Holding]]]:
    """Holders by kind, those to go first in front: the mildest kind that suffices is asked for first."""
    ranked = sorted(holders, key=lambda holder: (not holder.idle, holder.priority, len(holder.claims), holder.name))
    idle = [holder for holder in ranked if holder.idle]
    yield "idle", idle
    siblings = older_siblings(situation.pod, ranked) if situation.pod is not None else []
    yield "strategy", siblings
    lower = [holder for holder in ranked if holder.preemptible and holder.priority < situation.priority]
    yield "preempt", lower
    yield "free", ranked


def _fewest(bench: Bench, record: NodeRecord, holders: list[Holding]) -> list[Holding]:
    """Of these, in order, as few as will do; nobody where even all of them do not."""
    if not holders or not bench.fits_on(_all_gone(bench.start, holders), record):
        return []
    chosen: list[Holding] = []
    for holder in holders:
        chosen.append(holder)
        if bench.fits_on(_all_gone(bench.start, chosen), record):
            break
    for holder in list(chosen):
        rest = [other for other in chosen if other is not holder]
        if rest and bench.fits_on(_all_gone(bench.start, rest), record):
            chosen = rest
    return chosen


def holders_on(look: Look, record: NodeRecord) -> list[Holding]:
    """Who has devices that the node sees, or that take counters from these."""
    inventory, situation = look.inventory, look.situation
    found: dict[tuple[str, ...], Holding] = {}
    for offer in record.offers:
        for uid in inventory.users(offer.id):
            holding = situation.holding(uid)
            if holding is not None and len(found) < _HOLDERS:
                found.setdefault(holding.claims, holding)
    return list(found.values())
