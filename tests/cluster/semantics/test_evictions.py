"""The Eviction API and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cluster.rest import Response
from tests.cluster.semantics.things import pod, said
from tests.cluster.semantics.worlds import Place

WRONG = "99999999-9999-9999-9999-999999999999"


def evict(place: Place, name: str, *, uid: str | None = None, **query: str) -> Response:
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": place.namespace},
    }
    if uid is not None:
        body["deleteOptions"] = {"preconditions": {"uid": uid}}
    return place.send("POST", "Pod", name, body, sub="eviction", query=query)


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


@pytest.fixture
def guarded(place: Place) -> Place:
    """Two running pods, one of which may be disrupted."""
    place.world.add_nodes(1)
    for name in ("a", "b"):
        place.create(pod(name, labels={"app": "a"}, terminationGracePeriodSeconds=2))
    place.create(budget(minAvailable=1))
    place.eventually(lambda: allowed(place) == 1)
    return place


def allowed(place: Place) -> int:
    found: int = place.get("PodDisruptionBudget", "b").get("status", {}).get("disruptionsAllowed", 0)
    return found


def test_an_eviction_gives_grace(guarded: Place) -> None:
    response = evict(guarded, "a")
    assert (said(response), response.body["status"]) == ("201", "Success")
    assert guarded.get("Pod", "a")["metadata"]["deletionGracePeriodSeconds"] == 2
    guarded.eventually(lambda: guarded.gone("Pod", "a"))


def test_an_exhausted_budget_refuses(guarded: Place) -> None:
    assert evict(guarded, "a").ok
    response = evict(guarded, "b")
    assert (response.status, response.reason) == (429, "TooManyRequests")
    assert response.body["details"]["causes"][0]["reason"] == "DisruptionBudget"


def test_dry_runs_consume_nothing(guarded: Place) -> None:
    assert evict(guarded, "a", dryRun="All").ok
    assert evict(guarded, "b", dryRun="All").ok
    assert allowed(guarded) == 1
    assert "deletionTimestamp" not in guarded.get("Pod", "a")["metadata"]
    assert evict(guarded, "a").ok
    assert evict(guarded, "b", dryRun="All").status == 429


def test_a_wrong_uid_consumes_budget_all_the_same(guarded: Place) -> None:
    assert said(evict(guarded, "a", uid=WRONG)) == "409 Conflict"
    assert "deletionTimestamp" not in guarded.get("Pod", "a")["metadata"]
    assert evict(guarded, "b").status == 429


def test_the_right_uid(guarded: Place) -> None:
    assert evict(guarded, "a", uid=guarded.get("Pod", "a")["metadata"]["uid"]).ok


def test_pending_pods_need_no_budget(place: Place) -> None:
    place.create(pod("a", labels={"app": "a"}, schedulerName="nobody"))
    place.create(budget(minAvailable=1))
    assert evict(place, "a").ok
    assert place.gone("Pod", "a")


def test_no_such_pod(place: Place) -> None:
    assert said(evict(place, "a")) == "404 NotFound"


def test_two_budgets_for_one_pod(guarded: Place) -> None:
    second = budget(minAvailable=0)
    second["metadata"]["name"] = "c"
    guarded.create(second)
    assert evict(guarded, "a").status == 500


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 2}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": "34%"}, 2),
        ({"minAvailable": "100%"}, 0),
    ],
    ids=str,
)
def test_budgets_of_a_deployment(place: Place, spec: dict[str, Any], want: int) -> None:
    place.world.add_nodes(1)
    place.create(
        {
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod()["spec"]},
            },
        }
    )
    place.create(budget(**spec))
    place.eventually(lambda: place.get("PodDisruptionBudget", "b")["status"].get("currentHealthy") == 3)
    assert allowed(place) == want
