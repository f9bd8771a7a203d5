"""Disruption budgets, by the rules of the API server's eviction subresource."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import Key
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.holders import PodRef


def budget(
    name: str = "b",
    allowed: int = 1,
    selector: dict[str, Any] | None = None,
    *,
    namespace: str = "team",
    generation: int = 1,
    observed: int = 1,
    healthy: int = 1,
    desired: int = 2,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": name, "generation": generation},
        "spec": {"selector": selector, **spec},
        "status": {
            "disruptionsAllowed": allowed,
            "observedGeneration": observed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
        },
    }


def pod(name: str, namespace: str = "team", *, running: bool = True, ready: bool = True, **labels: str) -> PodRef:
    return PodRef(namespace, name, f"uid-{name}", labels, running=running, ready=ready)


A = {"matchLabels": {"app": "a"}}
NOT_B = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}


@pytest.mark.parametrize(
    ("budgets", "pods", "refused_by"),
    [
        ([], [pod("x", app="a")], []),
        ([budget(selector=A)], [pod("x", app="a")], []),
        ([budget(selector=A, allowed=0)], [pod("x", app="a")], [("team/b",)]),
        ([budget(selector=A, allowed=0)], [pod("x", app="z")], []),
        ([budget(selector=A, allowed=0)], [pod("x", "other", app="a")], []),
        # Over the whole set.
        ([budget(selector=A)], [pod("x", app="a"), pod("y", app="a")], [("team/b",)]),
        ([budget(selector=A, allowed=2)], [pod("x", app="a"), pod("y", app="a")], []),
        # No selector selects none, an empty one all.
        ([budget(selector=None, allowed=0)], [pod("x", app="a")], []),
        ([budget(selector={}, allowed=0)], [pod("x")], [("team/b",)]),
        ([budget(selector=NOT_B, allowed=0)], [pod("x"), pod("y", app="b")], [("team/b",)]),
        # The API server refuses pods with several budgets, whatever these allow.
        ([budget("b", 9, A), budget("c", 9, {})], [pod("x", app="a")], [("team/b", "team/c")]),
        ([budget("b", 9, A), budget("c", 9, {})], [pod("x", app="a", running=False)], []),
        # Not observed yet.
        ([budget(selector=A, allowed=5, generation=2)], [pod("x", app="a")], [("team/b",)]),
        # Pending pods are not protected; pods that are not ready are, unless enough others are healthy or the policy says so.
        ([budget(selector=A, allowed=0)], [pod("x", app="a", running=False)], []),
        ([budget(selector=A, allowed=0)], [pod("x", app="a", ready=False)], [("team/b",)]),
        ([budget(selector=A, allowed=0, healthy=2)], [pod("x", app="a", ready=False)], []),
        ([budget(selector=A, allowed=0, healthy=0, desired=0)], [pod("x", app="a", ready=False)], [("team/b",)]),
        ([budget(selector=A, allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")], [pod("x", app="a", ready=False)], []),
        ([budget(selector=A, allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")], [pod("x", app="a")], [("team/b",)]),
    ],
)  # fmt: skip
def test_what_budgets_refuse(
    budgets: list[dict[str, Any]], pods: list[PodRef], refused_by: list[tuple[str, ...]]
) -> None:
    known = Budgets()
    for item in budgets:
        known.apply(item)
    assert [tuple(map(str, refusal.budgets)) for refusal in known.allows(pods)] == refused_by


def test_messages_name_the_budget_the_pods_and_the_repair() -> None:
    known = Budgets()
    known.apply(budget(selector=A))
    assert [str(item) for item in known.allows([pod(name, app="a") for name in "vwxyz"])] == [
        "disruption budget team/b allows 1 more disruption, and 5 would be needed (team/v, team/w, team/x, …)"
    ]
    known.apply(budget(selector=A, generation=2))
    assert [str(item) for item in known.allows([pod("x", app="a")])] == [
        "disruption budget team/b of team/x is still being worked out by the disruption controller"
    ]
    known.apply(budget("c", selector={}))
    assert [str(item) for item in known.allows([pod("x", app="a")])] == [
        "pod team/x is selected by the disruption budgets team/b and team/c, and the eviction API refuses pods with more than one; "
        "narrow one of their selectors"
    ]


def test_a_refused_budget_counts_as_used_up_until_its_status_changes() -> None:
    known = Budgets()
    known.apply(budget(selector=A, allowed=3))
    known.exhaust(Key("team", "b"))
    assert known.allowance(Key("team", "b")) == 0
    assert not known.apply(budget(selector=A, allowed=3))
    assert known.allowance(Key("team", "b")) == 0
    assert known.apply(budget(selector=A, allowed=2))
    assert known.allowance(Key("team", "b")) == 2


def test_evictions_decided_on_are_not_counted_on_again() -> None:
    known = Budgets()
    known.apply(budget(selector=A, allowed=3))
    x, y = pod("x", app="a"), pod("y", app="a")
    known.spend([x, y, pod("z", app="other")])
    assert known.allowance(Key("team", "b")) == 1
    known.refund([y])
    assert known.allowance(Key("team", "b")) == 2
    known.apply(budget(selector=A, allowed=2))
    assert known.allowance(Key("team", "b")) == 2


def test_budgets_come_and_go() -> None:
    known = Budgets()
    assert not known
    x = pod("x", app="a")
    assert known.apply(budget(selector=A, allowed=0))
    assert known.allows([x])
    assert known.apply(budget(selector={"matchLabels": {"app": "z"}}, allowed=0))
    assert not known.allows([x])
    assert known.remove(Key("team", "b"))
    assert not known.remove(Key("team", "b"))
    assert not known
    assert known.allowance(Key("team", "b")) == 0


def test_a_budget_that_cannot_be_read_stays_as_it_was() -> None:
    known = Budgets()
    known.apply(budget(selector=A, allowed=0))
    with pytest.raises(InvalidObject, match=r"PodDisruptionBudget team/b: spec\.selector"):
        known.apply(budget(selector={"matchExpressions": [{"key": "app", "operator": "Near"}]}))
    assert known.allows([pod("x", app="a")])
