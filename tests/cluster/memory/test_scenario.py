"""Timelines: what can be written, what is refused and how, what the steps do."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.errors import InvalidObject
from dra_operator.cluster.memory.scenario import Player, Scenario
from tests.cluster.memory.stand_in import Cluster, claim, deployment, device_class, node, pod, template


def scenario(*steps: dict[str, Any], until: str | None = None, **more: Any) -> Scenario:
    spec: dict[str, Any] = {"steps": list(steps)}
    if until is not None:
        spec["until"] = until
    return Scenario.from_dict({"kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}, **more)


def play(cluster: Cluster, *steps: dict[str, Any], until: str | None = None) -> Player:
    player = Player(cluster.world)
    player.schedule(scenario(*steps, until=until))
    cluster.run(60)
    return player


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"at": "soon"}, r"spec.steps\[0\].at: 'soon' is not a duration"),
        ({"when": "1s"}, "unknown field 'when'"),
        ({"delete": ["pod"]}, r"delete\[0\]: 'pod' does not name a Pod; write pod/NAMESPACE/NAME"),
        ({"delete": ["node/a/b"]}, "write node/NAME"),
        ({"delete": ["thing/a"]}, "kind 'thing' is not known"),
        ({"finish": ["node/a"]}, r"finish\[0\]: only pods finish"),
        ({"apply": ["more.yaml"]}, "files cannot be read here"),
        ("now", "expected a step"),
    ],
)
def test_what_cannot_be_played_is_refused(step: Any, message: str) -> None:
    with pytest.raises(InvalidObject, match=message):
        scenario(step)


def test_files_are_read_by_the_caller() -> None:
    found = scenario({"at": "1m", "apply": ["more.yaml", pod("q")]}, read_file=lambda name: [pod(name)])
    assert [item["metadata"]["name"] for item in found.steps[0].apply] == ["more.yaml", "q"]
    assert found.steps[0].at == 60


def test_steps_are_played_in_order_of_time_and_not_after_the_end(cluster: Cluster) -> None:
    play(
        cluster,
        {"at": "20s", "apply": [typed(claim("late"))]},
        {"at": 1, "apply": [typed(claim("early"))]},
        {"at": "40s", "apply": [typed(claim("never"))]},
        until="30s",
    )
    assert [item["metadata"]["name"] for item in cluster.all("ResourceClaim")] == ["early", "late"]


def test_what_others_refer_to_is_applied_first(cluster: Cluster) -> None:
    important = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "high"},
        "value": 10,
    }
    item = {**pod("p", template=None, priorityClassName="high"), "apiVersion": "v1"}
    player = play(cluster, {"apply": [item, important]})
    assert player.troubles == []
    assert (cluster.get("Pod", "p") or {})["spec"]["priority"] == 10


def typed(item: dict[str, Any]) -> dict[str, Any]:
    versions = {"Pod": "v1", "Node": "v1", "Deployment": "apps/v1"}
    return {"apiVersion": versions.get(item["kind"], "resource.k8s.io/v1"), **item}


def test_missing_namespaces_are_made(cluster: Cluster) -> None:
    item = typed(claim("c"))
    item["metadata"]["namespace"] = "team"
    assert play(cluster, {"apply": [item]}).troubles == []
    assert cluster.get("ResourceClaim", "c", "team")


def test_apply_replaces_what_is_there(cluster: Cluster) -> None:
    play(cluster, {"apply": [typed(node("n1")), typed(deployment("d", 1, template=None))]})
    assert play(cluster, {"apply": [typed(deployment("d", 3, template=None))]}).troubles == []
    assert len(cluster.all("Pod")) == 3


def test_what_cannot_be_changed_is_made_anew(cluster: Cluster) -> None:
    play(cluster, {"apply": [typed(node("n1")), typed(pod("p", template=None)), typed(claim("c"))]})
    before = {
        kind: (cluster.get(kind, name) or {})["metadata"]["uid"]
        for kind, name in (("Pod", "p"), ("ResourceClaim", "c"))
    }
    changed = typed(claim("c"))
    changed["spec"] = {"devices": {"requests": [{"name": "other", "exactly": {"deviceClassName": "gpu"}}]}}
    player = play(cluster, {"apply": [typed(pod("p", template=None, cpu="2")), changed]})
    assert player.troubles == []
    after = {
        kind: (cluster.get(kind, name) or {})["metadata"]["uid"]
        for kind, name in (("Pod", "p"), ("ResourceClaim", "c"))
    }
    assert before["Pod"] != after["Pod"]
    assert before["ResourceClaim"] != after["ResourceClaim"]
    assert (cluster.get("ResourceClaim", "c") or {})["spec"]["devices"]["requests"][0]["name"] == "other"


def test_finish_and_delete(cluster: Cluster) -> None:
    play(cluster, {"apply": [typed(node("n1")), *(typed(pod(name, template=None)) for name in "ab")]})
    player = play(cluster, {"at": "1s", "finish": ["pod/default/a"], "delete": ["po/default/b", "pod/default/nobody"]})
    assert [(item["metadata"]["name"], item["status"]["phase"]) for item in cluster.all("Pod")] == [("a", "Succeeded")]
    assert [(trouble.object, trouble.message) for trouble in player.troubles] == [
        ("pod/default/nobody", 'pods "nobody" not found')
    ]


def test_a_claim_keeps_the_allocation_it_brings(cluster: Cluster) -> None:
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
    item = {**typed(claim("c")), "status": {"allocation": {"devices": {"results": results}}}}
    play(cluster, {"apply": [item]})
    found = cluster.get("ResourceClaim", "c") or {}
    assert found["status"]["allocation"]["devices"]["results"] == results
    assert found["metadata"]["labels"] == {"dra-operator.dev/managed": "true"}


def test_one_bad_object_does_not_stop_the_rest(cluster: Cluster) -> None:
    bad = [
        typed({**claim("bad"), "spec": {"devices": {"requests": [{"name": "x"}]}}}),
        {"kind": "Gadget", "metadata": {"name": "g"}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": []},
    ]
    player = play(cluster, {"apply": [*bad, typed(device_class()), typed(template())]})
    assert sorted(trouble.object for trouble in player.troubles) == ["gadget/g", "pod/(no name)", "resourceclaim/bad"]
    assert cluster.get("DeviceClass", "gpu")
    assert cluster.get("ResourceClaimTemplate", "gpu")
