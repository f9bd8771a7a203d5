"""Choosing victims for a gang: who gives way so that all of its members fit, all or nobody; or why that cannot be.

Whether the members fit is asked of the caller, who solves them together; the criteria are those for one unit (`criteria`). A member
alone says which nodes are cheap to clear: these are looked at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dra_operator.allocator import Failed, Trial, trial
from dra_operator.inventory import Inventory
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.criteria import for_eviction
from dra_operator.preemption.gangground import GangGround
from dra_operator.preemption.gangsearch import Fits, Gang, GangSearch, Terms
from dra_operator.preemption.holders import Holder, Holders
from dra_operator.preemption.search import protected
from dra_operator.preemption.victims import NoVictims, reasons


@dataclass(frozen=True, slots=True)
class GangVictims:
    """`holders`: who gives way, in the order to evict them; nobody if the gang fits once those that leave anyway are gone."""

    holders: tuple[Holder, ...]


def choose_for_gang(
    gang: Gang,
    inventory: Inventory,
    holders: Holders,
    *,
    priority: int,
    min_delta: int,
    max_victims: int,
    budgets: Budgets,
) -> GangVictims | NoVictims:
    """The best victims for all members together; deterministic. The arguments are as for `victims.choose`.

    Exact as long as there is little to compare (`PLACES`, `TRIES`, `SETS`); beyond that victims are filled in and given back, so that
    each one chosen is still needed. `gang.fits` may change `inventory`, if it takes everything back.
    """
    gang = replace(gang, fits=_remembered(gang.fits))
    if gang.fits((), None) is not None:
        return GangVictims(())
    if gang.leaving:
        with inventory.snapshot() as snapshot:
            for claim in gang.leaving:
                snapshot.release(claim)
            ground = _ground_of(gang, inventory)
    else:
        ground = _ground_of(gang, inventory)
    if isinstance(ground, Failed):
        return NoVictims((ground.message,))
    if not ground.places:
        return NoVictims(("no node has the devices that its members ask for, whoever holds them",))
    terms = Terms(priority - max(1, min_delta), max_victims, budgets)
    search = GangSearch(gang, ground, holders, terms)
    found = search.run()
    if found is not None:
        return GangVictims(for_eviction(found, protected(found, budgets)))
    # Each of the searches that follow may give more than the one before; where it cannot, it is left out.
    lifted: list[Terms] = []
    terms = replace(terms, max_victims=1 << 30)
    if search.over_limit:
        lifted.append(terms)
    terms = replace(terms, budgets=None)
    if budgets:
        lifted.append(terms)
    if search.spares_any():
        lifted.append(replace(terms, heed_preemptible=False))
    for each in lifted:
        found = GangSearch(gang, ground, holders, each).run(compare=False)
        if found is not None:
            return NoVictims(tuple(reasons(found, budgets, max_victims)), closest=found)
    if not search.any_below():
        return NoVictims((f"nothing of priority {terms.limit} or lower holds a device on a node it could use",))
    return NoVictims((f"its members would not fit even if everything of priority {terms.limit} or lower gave way",))


def _ground_of(gang: Gang, inventory: Inventory) -> GangGround | Failed:
    """Failed: a member's claims are wrong."""
    snapshot = inventory.snapshot()
    trials: list[tuple[Trial, int]] = []
    for problem, count in gang.sorts:
        asked = trial(problem, snapshot)
        if isinstance(asked, Failed):
            return asked
        trials.append((asked, count))
    return GangGround(trials, inventory, gang.domains)


def _remembered(fits: Fits) -> Fits:
    """Asked once about the same victims and nodes: filling in comes by the same sets from several sides."""
    known: dict[tuple[frozenset[str], tuple[str, ...] | None], tuple[str, ...] | None] = {}

    def remembered(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
        key = frozenset([holder.uid for holder in gone]), None if nodes is None else tuple(nodes)
        if key not in known:
            known[key] = fits(gone, nodes)
        return known[key]

    return remembered


__all__ = ["Fits", "Gang", "GangVictims", "choose_for_gang"]
