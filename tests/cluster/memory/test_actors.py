"""Scheduler, kubelets and controllers in virtual time: what takes minutes on a real cluster, and what cannot be provoked there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_operator.cluster.memory.actors.kubelets import seconds
from dra_operator.cluster.memory.identity import OPERATOR, SCHEDULER
from dra_operator.cluster.memory.server import Served
from dra_operator.cluster.rest import STRATEGIC_PATCH
from tests.cluster.memory.stand_in import (
    Cluster,
    claim,
    deployment,
    device_class,
    node,
    pod,
    pod_spec,
    slice_of,
    template,
)

UNGATE = {"spec": {"schedulingGates": [{"name": "dra-operator.dev/allocation", "$patch": "delete"}]}}
EXEMPT = {"kind": "Namespace", "metadata": {"name": "exempt", "labels": {"dra-operator.dev/managed": "false"}}}


def ungate(cluster: Cluster, name: str) -> None:
    assert cluster.send("PATCH", "Pod", name, UNGATE, content_type=STRATEGIC_PATCH).ok


def phase(cluster: Cluster, name: str, namespace: str = "default") -> str | None:
    found = cluster.get("Pod", name, namespace)
    return found["status"]["phase"] if found else None


def place(cluster: Cluster, name: str, namespace: str = "default") -> str | None:
    return (cluster.get("Pod", name, namespace) or {"spec": {}})["spec"].get("nodeName")


class TestScheduler:
    def test_a_denied_scheduler_backs_off_and_is_not_woken(self, cluster: Cluster) -> None:
        """kube-scheduler retries at about +1, 4, 9, 18 s, then every 11 s."""
        cluster.apply(node("n1"), slice_of("n1"), device_class(), claim("c"), pod("p", claim="c"))
        denied: list[float] = []

        def note(served: Served) -> None:
            if served.user == SCHEDULER and served.response.status == 403:
                denied.append(cluster.time)

        cluster.world.server.audits.append(note)
        ungate(cluster, "p")
        cluster.run(50)
        assert [round(at - denied[0]) for at in denied] == [0, 1, 4, 9, 18, 29, 40]
        found = cluster.get("ResourceClaim", "c") or {}
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
        found["status"] = {
            "allocation": {"devices": {"results": results}, "allocationTimestamp": "2027-01-01T00:00:00Z"}
        }
        assert cluster.send("PUT", "ResourceClaim", "c", found, sub="status", user=OPERATOR).ok
        cluster.run(0.5)
        assert place(cluster, "p") is None
        cluster.run(1)
        assert place(cluster, "p") == "n1"

    def test_ungating_before_the_scheduler_has_seen_the_allocation_costs_a_second(self, cluster: Cluster) -> None:
        cluster.apply(node("n1"), slice_of("n1"), device_class(), claim("c"), pod("p", claim="c"))
        cluster.run(1)
        found = cluster.get("ResourceClaim", "c") or {}
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
        found["status"] = {
            "allocation": {"devices": {"results": results}, "allocationTimestamp": "2027-01-01T00:00:00Z"}
        }
        cluster.send("PUT", "ResourceClaim", "c", found, sub="status", user=OPERATOR)
        ungate(cluster, "p")
        cluster.run(0.5)
        assert place(cluster, "p") is None
        condition = (cluster.get("Pod", "p") or {})["status"]["conditions"][0]
        assert "allocated elsewhere in the meantime" in condition["message"]
        cluster.run(1)
        assert place(cluster, "p") == "n1"

    def test_unmanaged_claims_are_allocated_until_there_is_no_device_left(self, cluster: Cluster) -> None:
        free = {**template(), "metadata": {"name": "gpu", "namespace": "exempt"}}
        cluster.apply(EXEMPT, node("n1"), slice_of("n1", 2), device_class(), free)
        for name in "abc":
            item = pod(name, annotations={"dra-operator.dev/run-for": "5s"})
            item["metadata"]["namespace"] = "exempt"
            cluster.apply(item)
        cluster.run(1)
        assert sorted(filter(None, (phase(cluster, name, "exempt") for name in "abc"))) == [
            "Pending",
            "Running",
            "Running",
        ]
        cluster.run(12)
        assert [phase(cluster, name, "exempt") for name in "abc"] == ["Succeeded"] * 3

    def test_extended_resources_get_a_claim_of_their_own(self, cluster: Cluster) -> None:
        wanted = {**device_class(), "spec": {"extendedResourceName": "example.com/gpu"}}
        item = pod("p", template=None)
        item["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
        cluster.apply(node("n1"), slice_of("n1", 2), wanted, item)
        cluster.run(1)
        [special] = cluster.all("ResourceClaim")
        assert special["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert "labels" not in special["metadata"]
        assert len(special["status"]["allocation"]["devices"]["results"]) == 2
        status = (cluster.get("Pod", "p") or {})["status"]
        assert status["extendedResourceClaimStatus"]["resourceClaimName"] == special["metadata"]["name"]
        assert status["phase"] == "Running"
        cluster.send("DELETE", "Pod", "p")
        cluster.run(5)
        assert cluster.all("ResourceClaim") == []

    @pytest.mark.parametrize(
        ("spec", "where"),
        [
            ({}, "small"),
            ({"cpu": "3"}, "big"),
            ({"cpu": "9"}, None),
            ({"nodeSelector": {"kubernetes.io/hostname": "big"}}, "big"),
            (
                {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "tainted"}},
                "tainted",
            ),
            ({"nodeSelector": {"kubernetes.io/hostname": "tainted"}}, None),
            ({"nodeSelector": {"kubernetes.io/hostname": "cordoned"}}, None),
        ],
        ids=str,
    )
    def test_node_fit(self, cluster: Cluster, spec: dict[str, Any], where: str | None) -> None:
        tainted, cordoned = node("tainted"), node("cordoned")
        tainted["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
        cordoned["spec"] = {"unschedulable": True}
        # "big" carries load, so that the emptier node is preferred where both do.
        load = pod("load", template=None, cpu="4", nodeName="big")
        cluster.apply(node("small", "2"), node("big", "8"), tainted, cordoned, load)
        cluster.run(1)
        cluster.apply(pod("p", template=None, **spec))
        cluster.run(1)
        assert place(cluster, "p") == where

    def test_the_more_important_pod_takes_the_place_of_another(self, cluster: Cluster) -> None:
        cluster.apply({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}, node("n1", "2"))
        cluster.apply(pod("low", template=None, cpu="2"))
        cluster.run(1)
        cluster.apply(pod("high", template=None, cpu="2", priorityClassName="high"))
        cluster.run(5)
        assert (phase(cluster, "low"), phase(cluster, "high")) == (None, "Running")

    def test_or_does_not_if_it_never_preempts(self, cluster: Cluster) -> None:
        polite = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}
        cluster.apply(polite, node("n1", "2"), pod("low", template=None, cpu="2"))
        cluster.run(1)
        cluster.apply(pod("high", template=None, cpu="2", priorityClassName="high"))
        cluster.run(5)
        assert (phase(cluster, "low"), phase(cluster, "high")) == ("Running", "Pending")


class TestKubelets:
    @pytest.mark.parametrize(
        ("text", "want"),
        [
            ("85s", 85),
            ("1h30m", 5400),
            ("1.5s", 1.5),
            ("200ms", 0.2),
            ("2m3s", 123),
            ("", None),
            ("5", None),
            ("s", None),
            (None, None),
        ],
    )
    def test_durations(self, text: str | None, want: float | None) -> None:
        assert seconds(text) == want

    def test_run_for(self, cluster: Cluster) -> None:
        cluster.apply(node("n1"), pod("p", template=None, annotations={"dra-operator.dev/run-for": "10s"}))
        cluster.run(9)
        assert phase(cluster, "p") == "Running"
        cluster.run(2)
        assert phase(cluster, "p") == "Succeeded"

    def test_deadline(self, cluster: Cluster) -> None:
        cluster.apply(node("n1"), pod("p", template=None, activeDeadlineSeconds=3))
        cluster.run(5)
        assert phase(cluster, "p") == "Failed"
        assert (cluster.get("Pod", "p") or {})["status"]["reason"] == "DeadlineExceeded"

    def test_grace_is_kept_to_the_end(self, cluster: Cluster) -> None:
        cluster.apply(node("n1"), pod("p", template=None, terminationGracePeriodSeconds=20))
        cluster.run(1.7)
        cluster.send("DELETE", "Pod", "p")
        cluster.run(19.9)
        assert phase(cluster, "p") == "Running"
        cluster.run(0.2)
        assert phase(cluster, "p") is None

    def test_no_kubelet_no_change(self, cluster: Cluster) -> None:
        cluster.apply(node("n1", **{"devcluster.dra-operator.dev/kubelet": "off"}), pod("p", template=None))
        cluster.run(1)
        cluster.send("DELETE", "Pod", "p")
        cluster.run(60)
        assert (place(cluster, "p"), phase(cluster, "p")) == ("n1", "Pending")

    def test_pods_of_a_node_that_is_gone_go_too(self, cluster: Cluster) -> None:
        cluster.apply(node("n1"), pod("p", template=None))
        cluster.run(1)
        cluster.send("DELETE", "Node", "n1")
        cluster.run(30)
        assert phase(cluster, "p") == "Running"
        cluster.run(20)
        assert phase(cluster, "p") is None


class TestWorkloads:
    @pytest.mark.parametrize(
        ("strategy", "most", "least"),
        [
            ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, 5, 4),
            ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, 4, 3),
            ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "25%"}}, 6, 3),
            ({"type": "Recreate"}, 4, 0),
        ],
        ids=["surge", "unavailable", "both", "recreate"],
    )
    def test_a_rolling_update_stays_within_its_bounds(
        self, cluster: Cluster, strategy: dict[str, Any], most: int, least: int
    ) -> None:
        item = deployment("d", 4, template=None)
        item["spec"]["strategy"] = strategy
        cluster.apply(node("n1", "64"), item)
        cluster.run(2)
        counts: list[tuple[int, int]] = []

        def count() -> None:
            living = [pod for pod in cluster.all("Pod") if "deletionTimestamp" not in pod["metadata"]]
            ready = [pod for pod in living if pod["status"]["phase"] == "Running"]
            counts.append((len(living), len(ready)))

        cluster.world.after_step.append(count)
        patch = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        assert cluster.send("PATCH", "Deployment", "d", patch, content_type="application/merge-patch+json").ok
        cluster.run(60)
        assert max(total for total, _ in counts) == most
        assert min(ready for _, ready in counts) == least
        assert [pod["metadata"]["labels"]["version"] for pod in cluster.all("Pod")] == ["2"] * 4

    def test_an_ordered_stateful_set_goes_up_and_down_one_by_one(self, cluster: Cluster) -> None:
        spec = {"replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "s"}}}
        body = {"metadata": {"labels": {"app": "s"}}, "spec": pod_spec(template=None)}
        cluster.apply(
            node("n1"), {"kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {**spec, "template": body}}
        )
        cluster.run(5)
        born = [
            item["metadata"]["name"] for item in sorted(cluster.all("Pod"), key=lambda item: item["metadata"]["uid"])
        ]
        assert born == ["s-0", "s-1", "s-2"]
        cluster.send(
            "PATCH", "StatefulSet", "s", {"spec": {"replicas": 1}}, content_type="application/merge-patch+json"
        )
        cluster.run(1)
        assert ["deletionTimestamp" in (cluster.get("Pod", f"s-{index}") or {})["metadata"] for index in range(3)] == [
            False,
            False,
            True,
        ]
        cluster.run(6)
        assert [item["metadata"]["name"] for item in cluster.all("Pod")] == ["s-0"]

    def test_a_failing_job_backs_off_and_gives_up(self, cluster: Cluster) -> None:
        body = {"spec": pod_spec(template=None, restartPolicy="Never", activeDeadlineSeconds=1)}
        cluster.apply(
            node("n1"), {"kind": "Job", "metadata": {"name": "j"}, "spec": {"backoffLimit": 2, "template": body}}
        )
        cluster.run(200)
        job = cluster.get("Job", "j") or {}
        assert job["status"]["failed"] == 3
        assert job["status"]["conditions"][0]["reason"] == "BackoffLimitExceeded"

    def test_an_indexed_job_runs_every_index_once(self, cluster: Cluster) -> None:
        body = {
            "metadata": {"annotations": {"dra-operator.dev/run-for": "2s"}},
            "spec": pod_spec(template=None, restartPolicy="Never"),
        }
        spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "template": body}
        cluster.apply(node("n1"), {"kind": "Job", "metadata": {"name": "j"}, "spec": spec})
        cluster.run(20)
        indexes = [
            item["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for item in cluster.all("Pod")
        ]
        assert sorted(indexes) == ["0", "1", "2", "3"]
        assert (cluster.get("Job", "j") or {})["status"]["completedIndexes"] == "0,1,2,3"


class TestOthers:
    def test_a_forgotten_eviction_gives_its_budget_back(self, cluster: Cluster) -> None:
        """A wrong uid consumes the budget; after two minutes the controller forgets it."""
        cluster.apply(
            node("n1"), pod("a", template=None, labels={"app": "a"}), pod("b", template=None, labels={"app": "a"})
        )
        cluster.apply(
            {
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
            }
        )
        cluster.run(1)
        body = {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "wrong"}}}
        assert cluster.send("POST", "Pod", "a", body, sub="eviction").status == 409
        body["deleteOptions"] = {}
        cluster.run(100)
        assert cluster.send("POST", "Pod", "a", body, sub="eviction").status == 429
        cluster.run(25)
        assert cluster.send("POST", "Pod", "a", body, sub="eviction").status == 201

    def test_a_tainted_device_ends_its_pods(self, cluster: Cluster) -> None:
        free = {**template(), "metadata": {"name": "gpu", "namespace": "exempt"}}
        item = pod("p", terminationGracePeriodSeconds=1)
        item["metadata"]["namespace"] = "exempt"
        cluster.apply(EXEMPT, node("n1"), slice_of("n1"), device_class(), free, item)
        cluster.run(1)
        taint = {"key": "broken", "effect": "NoExecute"}
        cluster.apply(
            {
                "kind": "DeviceTaintRule",
                "metadata": {"name": "r"},
                "spec": {"deviceSelector": {"pool": "n1"}, "taint": taint},
            }
        )
        cluster.run(3)
        assert phase(cluster, "p", "exempt") is None

    @pytest.mark.parametrize("of", ["node", "device"])
    def test_a_taint_is_tolerated_for_so_many_seconds(self, cluster: Cluster, of: str) -> None:
        taint = {"key": "broken", "effect": "NoExecute"}
        toleration = {**taint, "operator": "Exists", "tolerationSeconds": 60}
        wanted = copy.deepcopy({**template(), "metadata": {"name": "gpu", "namespace": "exempt"}})
        if of == "device":
            wanted["spec"]["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]
        item = pod("p", terminationGracePeriodSeconds=1, **({"tolerations": [toleration]} if of == "node" else {}))
        item["metadata"]["namespace"] = "exempt"
        cluster.apply(EXEMPT, node("n1"), slice_of("n1"), device_class(), wanted, item)
        cluster.run(1)
        kind, name = ("Node", "n1") if of == "node" else ("ResourceSlice", slice_of("n1")["metadata"]["name"])
        tainted = cluster.get(kind, name)
        assert tainted is not None
        spec = tainted.setdefault("spec", {})
        for entry in [spec] if of == "node" else spec["devices"]:
            entry["taints"] = [taint]
        assert cluster.send("PUT", kind, name, tainted).ok
        cluster.run(50)
        assert phase(cluster, "p", "exempt") == "Running"
        cluster.run(15)
        assert phase(cluster, "p", "exempt") is None

    def test_a_deleted_namespace_is_emptied_first(self, cluster: Cluster) -> None:
        cluster.apply({"kind": "Namespace", "metadata": {"name": "team"}}, node("n1"))
        item = pod("p", template=None)
        item["metadata"]["namespace"] = "team"
        cluster.apply(item)
        cluster.run(1)
        assert cluster.send("DELETE", "Namespace", "team").ok
        assert cluster.send("POST", "Pod", body=pod("q", template=None), namespace="team").status == 403
        cluster.run(10)
        assert cluster.get("Namespace", "team") is None
        assert cluster.all("Pod") == []

    def test_dependents_of_an_owner_that_never_was_are_collected(self, cluster: Cluster) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "nobody", "uid": "gone"}
        cluster.apply(claim("c", ownerReferences=[owner]))
        cluster.run(1)
        assert cluster.get("ResourceClaim", "c") is None
