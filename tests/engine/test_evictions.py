"""What the Eviction API says, and what changes between the choice of the victims and their evictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from dra_operator.cluster.memory.actors.claims import ClaimController
from dra_operator.cluster.memory.faults import Fate, NoFaults
from dra_operator.engine.decisions import Decision, EvictPod, WriteClaimStatus
from tests.engine.stage import (
    GPU,
    Object,
    Stage,
    device_class,
    gpus,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)
from tests.engine.test_preemption import budget, evicted, holding

HIGH = priority_class("high", 1000)
AT_ONCE = policy("now", preemption={"mode": "Always"})


class AtEviction(NoFaults):
    """`happens` just before (or after) the eviction of this number (from 0; dry runs are counted apart) is served.

    The eviction has this fate. What happens after it is seen before its answer.
    """

    def __init__(
        self,
        number: int,
        *,
        dry_run: bool = False,
        moment: Literal["before", "after"] = "before",
        fate: Fate = "served",
    ) -> None:
        self._number, self._dry_run, self._moment, self._fate = number, dry_run, moment, fate
        self._seen = 0
        self._chosen: int | None = None
        self._late = False
        self.happens: Callable[[], None] = lambda: None

    def kills(self, decision: Decision, moment: Literal["before", "after"]) -> bool:
        if not isinstance(decision, EvictPod) or decision.dry_run != self._dry_run:
            return False
        if moment == "before":
            self._chosen = decision.id if self._seen == self._number else None
            self._seen += 1
        if moment == self._moment and decision.id == self._chosen:
            self.happens()
            self._late = moment == "after"
        return False

    def fate(self, decision: Decision) -> Fate:
        return self._fate if decision.id == self._chosen else "served"

    def delay(self, usual: float) -> float:
        late, self._late = self._late, False
        return usual + 1.0 if late else usual


def crowded(faults: AtEviction, *more: Object) -> Stage:
    """One node with two devices, used by `a` and `b`, which take 20 s to stop; `urgent` wants both."""
    victims = [item for name in "ab" for item in holding(name, app="web", terminationGracePeriodSeconds=20)]
    stage = Stage(node("n1"), gpus("n1", 2), device_class(), HIGH, AT_ONCE, *more, *victims, faults=faults).run(5)
    stage.apply(*holding("urgent", 2, priorityClassName="high"))
    return stage


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_conflict_is_no_refusal(number: int, dry_run: bool) -> None:
    """Nobody who went before goes in vain: what is held stays held, the others are asked again."""
    stage = crowded(AtEviction(number, dry_run=dry_run, fate="conflict"))
    stage.apply(*holding("rival", 1, priorityClassName="high"))
    stage.until(lambda: len(evicted(stage)) == 2, 10)
    stage.run(60)
    assert sorted(evicted(stage)) == ["a", "b"]
    assert stage.bound() == {"urgent": "n1"}
    assert len(stage.events("Preempting")) == 1
    assert len(stage.events("Preempted")) == 2


def test_another_pod_of_the_same_name_is_not_evicted_by_mistake() -> None:
    """`a` is replaced just before it is evicted. The Eviction API answers 409 until the watch has shown it."""
    faults = AtEviction(0)
    stage = crowded(faults)

    def replaced() -> None:
        stage.send("DELETE", "Pod", "a", {"gracePeriodSeconds": 0})
        stage.apply(pod("a", "a", labels={"app": "web"}))

    faults.happens = replaced
    stage.run(120)
    assert stage.bound() == {"urgent": "n1"}
    assert stage.get("Pod", "a") is not None


def test_a_budget_made_before_the_first_eviction_spares_all() -> None:
    faults = AtEviction(0)
    stage = crowded(faults)
    faults.happens = lambda: stage.apply(budget("web", "web", 2))
    stage.run(60)
    assert evicted(stage) == []
    assert "budget" in stage.report("urgent")["explanation"]["summary"]
    stage.delete("PodDisruptionBudget", "web")
    stage.run(60)
    assert sorted(evicted(stage)) == ["a", "b"]
    assert stage.bound() == {"urgent": "n1"}


def test_a_budget_made_before_the_second_eviction_spares_the_second() -> None:
    """Nobody can say how long the budget stays, so what the first gave back is not held; `urgent` goes on from there later."""
    faults = AtEviction(1)
    stage = crowded(faults)
    faults.happens = lambda: stage.apply(budget("web", "web", 1))
    stage.run(60)
    assert evicted(stage) == ["a"]
    assert stage.bound() == {"b": "n1"}
    assert not [hold for hold in stage.engines[-1]._state.holds if hold.wanted]
    stage.delete("PodDisruptionBudget", "web")
    stage.run(60)
    assert evicted(stage) == ["a", "b"]
    assert stage.bound() == {"urgent": "n1"}


# -- looked at again right before anyone is evicted


def edited(stage: Stage) -> None:
    stage.apply(policy("now", preemption={"mode": "Never"}))


def protected(stage: Stage) -> None:
    stage.apply(policy("now", preemption={"mode": "Always", "minPriorityDelta": 5000}))


def budgeted(stage: Stage) -> None:
    stage.apply(budget("web", "web", 1))


def shared(stage: Stage) -> None:
    """A pod as high as the preemptor begins to use one of the claims."""
    stage.apply(pod("guard", "a", labels={"app": "guard"}, priorityClassName="high"))


@pytest.mark.parametrize("change", [edited, protected, budgeted, shared])
def test_what_changes_during_the_dry_runs_counts(change: Callable[[Stage], None]) -> None:
    """No eviction is even asked for: a server that would grant it is not the judge of policies."""
    faults = AtEviction(1, dry_run=True, moment="after")
    stage = crowded(faults)
    faults.happens = lambda: change(stage)
    stage.run(40)
    asked = [each.decision for each in stage.runner.executed if isinstance(each.decision, EvictPod)]
    assert len(asked) == 2
    assert all(each.dry_run for each in asked)
    assert not [hold for hold in stage.engines[-1]._state.holds if hold.wanted]


def test_unchanged_they_go() -> None:
    stage = crowded(AtEviction(1, dry_run=True, moment="after"))
    stage.run(40)
    assert sorted(evicted(stage)) == ["a", "b"]


# -- what the victims had


def test_the_engine_frees_what_no_pod_uses_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kube-controller-manager's claim controller, which would do it some time later."""
    stage = crowded(AtEviction(0))
    monkeypatch.setattr(ClaimController, "_free", lambda *args, **more: None)
    stage.run(40)
    assert stage.bound() == {"urgent": "n1"}
    freed = [each.decision for each in stage.runner.executed if isinstance(each.decision, WriteClaimStatus)]
    assert sorted(each.claim.name for each in freed if each.action == "deallocate") == ["a", "b"]


# -- evictions for other reasons


@pytest.mark.parametrize("fate", ["conflict", "error", "lost", "unanswered"])
def test_an_eviction_for_a_move_is_asked_for_until_it_is_done(fate: Fate) -> None:
    """A pod is restarted because its class changed: asked again soon, and told once."""
    old, new = (device_class("mine", f'device.attributes["{GPU}"].memory >= {least}') for least in (40, 80))
    items = (node("n1"), gpus("n1", 1, memory=40), template(of="mine"), workload("Deployment", "web", 1))
    stage = Stage(old, policy(onClassChange="Reallocate"), *items, faults=AtEviction(0, fate=fate)).run(10)
    stage.apply(new, node("n2"), gpus("n2", 1, memory=80))
    stage.run(4)
    assert len(evicted(stage)) == 1
    stage.run(30)
    assert list(stage.bound().values()) == ["n2"]
    assert len([note for note in stage.events("Reallocating") if note.startswith("restarted")]) == 1
