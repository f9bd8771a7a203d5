"""Changes of what a request takes of devices: taints it tolerates, capacity it asks for, how many it wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from dra_operator.allocator.plan import Way
from dra_operator.api.claims import MAX_RESULTS, RequestDetail
from dra_operator.api.quantity import Quantity
from dra_operator.api.taints import BLOCKING_EFFECTS, Taint, Toleration
from dra_operator.explain.changes import TRIED, Asked, Change, distance
from dra_operator.explain.drafts import with_detail
from dra_operator.explain.explanation import counted


def device_changes(asked: Asked) -> Iterator[Change]:
    for way in asked.ways:
        yield from _tolerations(asked, way)
        yield from _capacities(asked, way)
        yield from _counts(asked, way)


def toleration_of(taint: Taint) -> Toleration:
    """For this taint and no other."""
    return Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect, None)


def _tolerations(asked: Asked, way: Way) -> Iterator[Change]:
    sets: Counter[tuple[Taint, ...]] = Counter()
    for kind in asked.accepted(way):
        bare = dict.fromkeys(taint for taint in kind.taints if _blocks(taint, way.detail.tolerations))
        if bare:
            sets[tuple(bare)] += asked.kinds[kind]
    fewest_first = sorted(sets.items(), key=lambda item: (len(item[0]), -item[1], str(item[0])))
    for taints, _ in fewest_first[: 2 * TRIED]:
        names = " and ".join(map(str, taints))
        yield Change(
            "toleration",
            f"tolerate the taint{'s' if len(taints) > 1 else ''} {names} ({asked.where(way)})",
            with_detail(way, partial(_tolerating, added=tuple(map(toleration_of, taints)))),
            f"{way.index}/taints/{names}/tolerate",
            len(taints),
        )


def _blocks(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect in BLOCKING_EFFECTS and not any(item.tolerates(taint) for item in tolerations)


def _tolerating(detail: RequestDetail, added: tuple[Toleration, ...]) -> RequestDetail:
    return replace(detail, tolerations=(*detail.tolerations, *added))


def _capacities(asked: Asked, way: Way) -> Iterator[Change]:
    known = sorted({name for kind in asked.accepted(way) for name in kind.device.capacity})
    for name, wanted in way.detail.capacity.items():
        for other in _meant(name, known) if name not in known else ():
            if other not in way.detail.capacity:
                yield Change(
                    "capacity",
                    f"name the capacity {other} instead of {name} ({asked.where(way)})",
                    with_detail(way, partial(_renaming, name=name, other=other)),
                    f"{way.index}/{name}/capacity",
                )
        smaller = [amount for amount in _amounts(asked, way, name) if amount < wanted and amount.sign > 0]
        for amount in sorted(set(smaller), reverse=True)[:TRIED]:
            less = Quantity(amount.nano, wanted.format)
            yield Change(
                "capacity",
                f"ask for {less} of {name} instead of {wanted} ({asked.where(way)})",
                with_detail(way, partial(_asking, name=name, amount=less)),
                f"{way.index}/{name}/capacity",
                distance(wanted, less),
            )


def _asking(detail: RequestDetail, name: str, amount: Quantity) -> RequestDetail:
    return replace(detail, capacity={**detail.capacity, name: amount})


def _renaming(detail: RequestDetail, name: str, other: str) -> RequestDetail:
    """In its place among the others."""
    return replace(detail, capacity={other if key == name else key: value for key, value in detail.capacity.items()})


def _meant(name: str, known: list[str]) -> list[str]:
    """Names of capacities that somebody who wrote `name` may have meant: with or without the domain, or misspelt."""
    bare = name.rpartition("/")[2]
    same = [other for other in known if other.rpartition("/")[2] == bare]
    return same or get_close_matches(name, known, TRIED, 0.5) or (known if len(known) == 1 else [])


def _amounts(asked: Asked, way: Way, name: str) -> Iterator[Quantity]:
    """What devices have of a capacity: what is left of those that are shared, all of the others, and the most they give one claim."""
    for spot in asked.look.spots:
        view = spot.table.view
        for bit, left in spot.start.left:
            kind = view.kinds[spot.table.order[bit]]
            for (known, _), amount in zip(kind.sizes, left, strict=True):
                if known == name:
                    yield Quantity(amount)
    for kind in asked.accepted(way):
        if name in kind.device.capacity:
            yield kind.device.capacity[name]
        policy = kind.device.policies.get(name)
        if policy is not None:
            yield from (policy.valid_values or ())[-1:]
            if policy.maximum is not None:
                yield policy.maximum


def _counts(asked: Asked, way: Way) -> Iterator[Change]:
    most = asked.look.rows[way.index].most_on_a_node
    if way.all:
        options = [min(most, MAX_RESULTS)] if most else []
    else:
        options = sorted({number for number in (way.count - 1, most, way.count // 2, 1) if 0 < number < way.count})
    for count in reversed(options):
        instead = "all" if way.all else str(way.count)
        yield Change(
            "count",
            f"ask for {counted(count, 'device')} instead of {instead} ({asked.where(way)})",
            with_detail(way, partial(_counting, count=count)),
            f"{way.index}/count/count",
            1.0 if way.all else (way.count - count) / way.count,
        )


def _counting(detail: RequestDetail, count: int) -> RequestDetail:
    return replace(detail, allocation_mode="ExactCount", count=count)
