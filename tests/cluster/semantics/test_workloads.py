"""What workload controllers make, replace and leave: Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.semantics.lives import CLASS, UNGATE, generated, running
from tests.cluster.semantics.things import (
    allocate,
    consumer,
    create,
    delete,
    from_template,
    patch,
    pod,
    strategic,
    template,
)
from tests.cluster.semantics.worlds import GATE, Place


def workload(kind: str, name: str = "w", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod_spec = pod(claims=[from_template("t")])["spec"]
    if kind == "Job":
        return {
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"template": {"spec": {**pod_spec, "restartPolicy": "Never"}}, **spec},
        }
    body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec}, **spec}
    return {"kind": kind, "metadata": {"name": name}, "spec": body}


def pods_of(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.must("GET", "Pod")["items"]
    return found


class TestWorkloads:
    @pytest.mark.parametrize(
        ("made", "count"),
        [
            (workload("Deployment", replicas=3), 3),
            (workload("ReplicaSet", replicas=2), 2),
            (workload("StatefulSet", replicas=3, serviceName="w"), 1),
            (workload("StatefulSet", replicas=3, serviceName="w", podManagementPolicy="Parallel"), 3),
            (workload("Job", parallelism=2, completions=5), 2),
            (workload("Job", parallelism=3, completions=2), 2),
            (workload("Job", suspend=True), 0),
        ],
        ids=["deployment", "replicaset", "ordered", "parallel", "job", "small-job", "suspended"],
    )
    def test_make_gated_pods_with_claims(self, place: Place, made: dict[str, Any], count: int) -> None:
        place.create(template())
        place.create(made)
        place.eventually(lambda: len(pods_of(place)) >= count)
        place.world.pass_time(0.5)
        found = pods_of(place)
        assert len(found) == count
        assert all([gate["name"] for gate in item["spec"]["schedulingGates"]] == [GATE] for item in found)
        place.eventually(lambda: len(place.must("GET", "ResourceClaim")["items"]) == count)

    def test_a_daemon_set_ties_its_pods_to_nodes(self, place: Place) -> None:
        names = place.world.add_nodes(2)
        place.create(template())
        place.create(workload("DaemonSet"))

        def tied() -> set[str]:
            required = "requiredDuringSchedulingIgnoredDuringExecution"
            terms = [item["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] for item in pods_of(place)]
            return {found[0]["matchFields"][0]["values"][0] for found in terms}

        place.eventually(lambda: tied() >= set(names))

    def test_scaling_down_and_deleting_leave_nothing(self, place: Place) -> None:
        place.create(template())
        place.create(workload("Deployment", replicas=3))
        place.eventually(lambda: len(place.must("GET", "ResourceClaim")["items"]) == 3)
        assert patch("Deployment", "w", {"spec": {"replicas": 1}})(place).ok
        place.eventually(lambda: (len(pods_of(place)), len(place.must("GET", "ResourceClaim")["items"])) == (1, 1))
        assert delete("Deployment", "w", propagationPolicy="Background")(place).ok
        place.eventually(lambda: not pods_of(place) and not place.must("GET", "ResourceClaim")["items"])
        assert place.must("GET", "ReplicaSet")["items"] == []

    def test_a_pod_that_is_deleted_is_replaced_before_its_claim_is_free(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        create(CLASS)(place)
        place.create(template())
        place.create(workload("ReplicaSet", replicas=1))
        first = place.eventually(lambda: pods_of(place)[0])["metadata"]
        name = place.eventually(lambda: generated(place, first["name"])) or ""
        assert allocate(name, node=node, reserved=[consumer(first["name"], first["uid"])])(place).ok
        place.world.pass_time(0.3)
        assert strategic("Pod", first["name"], UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, first["name"]))
        assert delete("Pod", first["name"], gracePeriodSeconds=600)(place).ok
        place.eventually(lambda: len(pods_of(place)) == 2)
        assert place.get("ResourceClaim", name)["status"]["allocation"]
        assert delete("Pod", first["name"], gracePeriodSeconds=0)(place).ok
        place.eventually(lambda: place.gone("ResourceClaim", name))

    def test_a_failed_pod_of_a_replica_set_is_replaced_and_stays(self, place: Place) -> None:
        place.create(template())
        place.create(workload("ReplicaSet", replicas=1))
        first = place.eventually(lambda: pods_of(place)[0])["metadata"]["name"]
        assert patch("Pod", first, {"status": {"phase": "Failed"}}, sub="status")(place).ok
        place.eventually(lambda: len(pods_of(place)) == 2)

    def test_a_job_counts_its_pods(self, place: Place) -> None:
        place.create(template())
        place.create(workload("Job", completions=2, parallelism=1))
        for _ in range(2):
            name = place.eventually(
                lambda: next(
                    item["metadata"]["name"] for item in pods_of(place) if item["status"]["phase"] == "Pending"
                )
            )
            assert patch("Pod", name, {"status": {"phase": "Succeeded"}}, sub="status")(place).ok
            place.world.pass_time(0.2)
        place.eventually(
            lambda: any(entry["type"] == "Complete" for entry in place.get("Job", "w")["status"].get("conditions", ())),
            60.0,
        )
        assert place.get("Job", "w")["status"]["succeeded"] == 2

    @pytest.mark.parametrize("policy", ["Background", "Foreground"])
    def test_a_job_that_is_deleted_leaves_nothing(self, place: Place, policy: str) -> None:
        place.create(template())
        place.create(workload("Job", completions=2, parallelism=2))
        place.eventually(lambda: len(place.must("GET", "ResourceClaim")["items"]) == 2)
        assert delete("Job", "w", propagationPolicy=policy)(place).ok
        place.eventually(lambda: not pods_of(place) and not place.must("GET", "ResourceClaim")["items"])
