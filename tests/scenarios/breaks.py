"""Ways to break a rule of the engine: patches, each of one place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_operator.api.claims import ClaimSpec
from dra_operator.engine import choosing, constraining, membership, phases, preferring, ties
from dra_operator.engine.gangproblems import GangProblems
from dra_operator.engine.gangs import Gangs
from dra_operator.engine.gangtrial import GangTrial
from dra_operator.engine.groups import Roll
from dra_operator.engine.judging import Judge
from dra_operator.engine.line import Line, strict_queue
from dra_operator.engine.names import GATE
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.state import State
from dra_operator.engine.strict import Strict
from dra_operator.engine.turns import Turns
from dra_operator.preemption import criteria, ground, holds
from dra_operator.preemption.holders import HolderIndex
from dra_operator.preemption.holds import Holds
from dra_operator.preemption.search import Search
from dra_operator.queue.policies import PolicyBook

Patch = pytest.MonkeyPatch


def everywhere(patch: Patch, original: Any, new: Any) -> None:
    """Replace a function in every module that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dra_operator"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    patch.setattr(module, attribute, new)


def method(owner: type, name: str, new: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, new)


def function(original: Any, new: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: everywhere(patch, original, new)


def asked(**changed: Any) -> Callable[[Patch], None]:
    """The choice of victims is asked with other terms, and nobody looks at it again."""
    choose = choosing.choose

    def other(*args: Any, **terms: Any) -> Any:
        return choose(*args, **{**terms, **changed})

    def without(patch: Patch) -> None:
        everywhere(patch, choose, other)
        patch.setattr(Preempting, "_stand", yes)

    return without


def dearer(**changed: Any) -> Callable[[Patch], None]:
    """A criterion does not count."""
    cost = criteria.cost

    def other(*args: Any) -> Any:
        return cost(*args)._replace(**changed)

    return function(cost, other)


def no(*args: Any, **more: Any) -> bool:
    return False


def yes(*args: Any, **more: Any) -> bool:
    return True


def none(*args: Any, **more: Any) -> None:
    return None


def nothing(*args: Any, **more: Any) -> frozenset[Any]:
    return frozenset()


def empty(*args: Any, **more: Any) -> list[Any]:
    return []


def no_holds(patch: Patch) -> None:
    patch.setattr(Holds, "against", nothing)
    patch.setattr(Holds, "before", empty)


def no_quotas(patch: Patch) -> None:
    patch.setattr(Judge, "certain", empty)
    patch.setattr(Judge, "breaches", empty)


def no_reservations(patch: Patch) -> None:
    patch.setattr(Judge, "_reserve_breaches", empty)
    patch.setattr(Judge, "certainly_reserved", no)


def only_rank(self: Holds, unit: Any, rank: Any, priority: int, ends_at: Any) -> list[Any]:
    return [hold for hold in self if hold.unit != unit and hold.rank < rank]


def every_hold(self: Holds, unit: Any, rank: Any, priority: int, ends_at: Any) -> list[Any]:
    return [hold for hold in self if hold.unit != unit]


def blind_to_counters(patch: Patch) -> None:
    found = ground.ground_of

    def other(*args: Any) -> Any:
        seen = found(*args)
        return None if seen is None else replace(seen, relevant=seen.usable, hidden=False)

    everywhere(patch, found, other)


def all_or_nobody(self: Search, chosen_at: Any, chosen: Any) -> bool:
    return len(chosen) == len(chosen_at.candidates)


def first_member(patch: Patch) -> None:
    made = GangTrial.__init__

    def other(self: Any, state: Any, gangs: Any, solve: Any, terms: Any, parties: Any, leaving: Any) -> None:
        made(self, state, gangs, solve, terms, parties[:1], leaving)

    patch.setattr(GangTrial, "__init__", other)


def alone(patch: Patch) -> None:
    found = ties.tie

    def other(state: Any, seen: Any) -> Any:
        tied = found(state, seen)
        return ties.Tied({seen.uid: seen}, dict(list(tied.pods.items())[:1]))

    everywhere(patch, found, other)


def one_by_one(patch: Patch) -> None:
    may_go = ties._may_go
    everywhere(patch, may_go, lambda state, tied: len(tied.pods) < 2 and may_go(state, tied))


def one_policy(patch: Patch) -> None:
    found = State.terms
    patch.setattr(State, "terms", lambda self, unit: ("", found(self, unit)[1]))


def always_holding(patch: Patch) -> None:
    found = State.terms_of

    def other(self: State, seen: Any) -> Any:
        name, terms = found(self, seen)
        return name, terms.model_copy(update={"starvation": terms.starvation.model_copy(update={"hold": True})})

    patch.setattr(State, "terms_of", other)


def since_it_was_made(patch: Patch) -> None:
    wait = State.wait

    def other(self: State, unit: Any, now: float) -> None:
        unit.waiting_since = min(self.view.claims[key].claim.meta.created or now for key in unit.claims)
        wait(self, unit, now)

    patch.setattr(State, "wait", other)


def must(patch: Patch) -> None:
    found = GangProblems.topology

    def other(self: Any, terms: Any) -> Any:
        topology = found(self, terms)
        return None if topology is None else replace(topology, mode="Same")

    patch.setattr(GangProblems, "topology", other)


def fair(patch: Patch) -> None:
    found = State.terms_of
    patch.setattr(
        State,
        "terms_of",
        lambda self, seen: (found(self, seen)[0], found(self, seen)[1].model_copy(update={"fairness": "FairShare"})),
    )


def deaf_to_edits(patch: Patch) -> None:
    apply = PolicyBook.apply

    def other(self: PolicyBook, policy: Any) -> bool:
        return False if policy.name in {known.name for known in self} else apply(self, policy)

    patch.setattr(PolicyBook, "apply", other)


def patient(patch: Patch) -> None:
    """Preemption only for the starved, whatever the mode."""
    wants = Preempting._wants
    patch.setattr(Preempting, "_wants", lambda self, unit: unit.starved_since is not None and wants(self, unit))


def always_preempting(patch: Patch) -> None:
    """Every unit, at once, whatever the mode."""
    patch.setattr(Preempting, "_wants", yes)
    patch.setattr(Line, "_preempts_at_once", yes)


def same_phase(patch: Patch) -> None:
    found = phases.standpoint

    def other(*args: Any) -> Any:
        return replace(found(*args), phase="Starved")

    everywhere(patch, found, other)


def ignoring_the_end(patch: Patch) -> None:
    patch.setattr(State, "drop_hold", none)
    patch.setattr(State, "rest_hold", none)


def only_pods(patch: Patch) -> None:
    put = HolderIndex.put
    patch.setattr(HolderIndex, "put", lambda self, holder, homes: put(self, holder, homes) if holder.pods else None)


def by_name(patch: Patch) -> None:
    def other(found: Any, inventory: Any, fits: Any, ends: Any, taken: Any) -> Any:
        names = sorted(record.name for record, _ in found.nodes() if record.name not in taken)
        return holds.Choice(names[0], None) if names else None

    everywhere(patch, holds.soonest_node, other)


def ungraceful(patch: Patch) -> None:
    made = Preempting._eviction

    def other(self: Any, *args: Any, **more: Any) -> Any:
        return replace(made(self, *args, **more), grace_period=None)

    patch.setattr(Preempting, "_eviction", other)


def polling(patch: Patch) -> None:
    def other(self: Any) -> None:
        self.changes, self._awake = self._state.changes, dict(self._line.lots)

    patch.setattr(Turns, "wake", other)


def strict_for_all(patch: Patch) -> None:
    patch.setattr(Strict, "_keeps_back", lambda self, unit: unit.key in self._state.waiting)
    everywhere(patch, strict_queue, lambda policy, terms: policy)


def lowest_user(patch: Patch) -> None:
    def other(state: Any, tied: Any) -> int:
        return min([0, *(pod.priority for pod in tied.pods.values())])

    everywhere(patch, ties._priority, other)


def only_for_pods(patch: Patch) -> None:
    consider = Preempting.consider
    patch.setattr(
        Preempting, "consider", lambda self, unit, pod, now: pod is not None and consider(self, unit, pod, now)
    )


def later_as_gang(patch: Patch) -> None:
    """Members that come after the others are placed all at once or not at all."""
    patch.setattr(Roll, "established", property(lambda self: not self.waiting))
    patch.setattr(Gangs, "attempt", lambda self, unit, place, now: place())


def other_gates(patch: Patch) -> None:
    """Gates of others are not seen."""
    found = membership.membership

    def other(pod: Any, view: Any) -> Any:
        return found(replace(pod, gates=tuple(gate for gate in pod.gates if gate == GATE)), view)

    everywhere(patch, found, other)


def _required(original: Any) -> Callable[[Patch], None]:
    return function(original, lambda *args: tuple(replace(item, required=True) for item in original(*args)))


preferred_is_required = _required(constraining.within_unit)
wishes_are_required = _required(preferring.device_wishes)


def without_constraints(patch: Patch) -> None:
    read = ClaimSpec.from_dict

    def other(cls: type[ClaimSpec], spec: Any) -> ClaimSpec:
        return replace(read(spec), constraints=())

    patch.setattr(ClaimSpec, "from_dict", classmethod(other))


def always_reallocating(patch: Patch) -> None:
    found = State.terms_of

    def other(self: State, seen: Any) -> Any:
        name, terms = found(self, seen)
        return name, terms.model_copy(update={"on_class_change": "Reallocate"})

    patch.setattr(State, "terms_of", other)
