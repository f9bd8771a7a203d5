"""The nodes that come nearest to what the unit needs, and what each of them lacks."""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.allocator.plan import Way
from dra_operator.api.claims import MAX_RESULTS
from dra_operator.explain.explanation import NearNode
from dra_operator.explain.looking import Look, Place, Spot

#: Names given of nodes that lack the same.
_NAMED = 5


def nearest(look: Look, limit: int) -> tuple[tuple[NearNode, ...], int]:
    """The nearest nodes, those that lack the same together, and how many more there are that could have something to offer."""
    groups: dict[tuple[str, ...], list[str]] = {}
    texts: dict[tuple[int, str], tuple[str, ...]] = {}
    ranked = by_distance(look)
    for place in ranked:
        key = (id(place.spot), "" if place.misfit is None else place.misfit.text())
        lacks = texts.get(key)
        if lacks is None:
            lacks = texts[key] = lacks_of(look, place)
        groups.setdefault(lacks, []).append(place.record.name)
    shown = [NearNode(tuple(names[:_NAMED]), len(names), lacks) for lacks, names in list(groups.items())[:limit]]
    return tuple(shown), len(ranked) - sum(node.count for node in shown)


def by_distance(look: Look) -> list[Place]:
    """Nodes with a device that some request could use, whoever has it: those first that lack least for good, then least for now."""
    ranks: dict[int, tuple[int, int]] = {}
    found: list[tuple[tuple[int, int, str], Place]] = []
    for place in look.places:
        spot = place.spot
        if not any(spot.fitting):
            continue
        rank = ranks.get(id(spot))
        if rank is None:
            rank = ranks[id(spot)] = missing_for_good(look, spot), missing_now(look, spot)
        found.append(((rank[0], rank[1] + (place.misfit is not None), place.record.name), place))
    found.sort(key=lambda item: item[0])
    return [place for _, place in found]


def missing_for_good(look: Look, spot: Spot) -> int:
    """Devices that the node would lack even if nobody else had any."""
    return sum(
        min(max(0, _wanted(way, spot) - spot.fitting[way.index].bit_count()) for way in requirement.ways)
        for requirement in look.plan.requirements
    )


def missing_now(look: Look, spot: Spot) -> int:
    return sum(min(missing(way, spot) for way in requirement.ways) for requirement in look.plan.requirements)


def missing(way: Way, spot: Spot) -> int:
    """Devices that the node lacks now for one way."""
    return max(0, _wanted(way, spot) - spot.usable[way.index].bit_count())


def _wanted(way: Way, spot: Spot) -> int:
    if not way.all:
        return way.count
    return max(1, spot.table.columns[way.index].every.bit_count())


def lacks_of(look: Look, place: Place) -> tuple[str, ...]:
    """What keeps the unit off the node, a phrase each."""
    texts = [*_beyond_the_limit(look, place.spot), *_short_requests(look, place.spot)]
    if place.misfit is not None:
        texts.append(place.misfit.text())
    if not texts:
        texts.append("has enough for each request, but not for all together")
    return tuple(texts)


def _beyond_the_limit(look: Look, spot: Spot) -> Iterable[str]:
    """Claims that would have more devices there than a claim can have: mode All takes all that match."""
    for claim, count in enumerate(results_of(look, spot)):
        if count > MAX_RESULTS:
            name = look.situation.problem.claims[claim].meta.name
            yield f"would give claim {name} {count} devices, and a claim can have {MAX_RESULTS} at most"


def results_of(look: Look, spot: Spot) -> list[int]:
    """By claim, how many devices it would have to have on the node."""
    found = [0] * len(look.situation.problem.claims)
    for requirement in look.plan.requirements:
        found[requirement.ways[0].claim] += min(_wanted(way, spot) for way in requirement.ways)
    return found


def _short_requests(look: Look, spot: Spot) -> Iterable[str]:
    several = len({requirement.claim for requirement in look.plan.requirements}) > 1
    for requirement in look.plan.requirements:
        way = min(requirement.ways, key=lambda each: missing(each, spot))
        if not missing(way, spot):
            continue
        wanted, fitting, usable = _wanted(way, spot), spot.fitting[way.index], spot.usable[way.index]
        name = way.name
        if several:
            name = f"{name} of claim {look.situation.problem.claims[way.claim].meta.name}"
        if not fitting:
            yield f"{name}: no device that would do"
        elif fitting.bit_count() < wanted:
            yield f"{name}: {fitting.bit_count()} of {wanted} devices, {usable.bit_count()} of them free"
        else:
            yield f"{name}: {usable.bit_count()} of {wanted} devices free ({fitting.bit_count()} would do)"
