"""What the others do to claims and pods: the claim controller, kube-scheduler, kubelets, workload controllers, the garbage collector."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.cluster.semantics.things import (
    allocate,
    claim,
    consumer,
    create,
    delete,
    from_template,
    patch,
    pod,
    protected,
    result,
    said,
    status,
    strategic,
    template,
    uses,
)
from tests.cluster.semantics.worlds import GATE, MANAGED, Place

UNGATE = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}}


def generated(place: Place, pod_name: str, entry: str = "gpu") -> str | None:
    """The claim made for the pod."""
    for found in place.get("Pod", pod_name)["status"].get("resourceClaimStatuses") or ():
        if found["name"] == entry:
            name: str = found["resourceClaimName"]
            return name
    return None


def pod_allocated(place: Place, node: str, name: str = "p") -> tuple[dict[str, Any], str]:
    """A gated pod with a claim of its own, allocated and reserved as the operator does it. Gives the pod and the claim's name."""
    create(CLASS)(place)
    place.create(template())
    made = place.create(pod(name, claims=[from_template("t")]))
    claim_name: str = place.eventually(lambda: generated(place, name)) or ""
    reserved = [consumer(name, made["metadata"]["uid"])]
    response = allocate(claim_name, node=node, reserved=reserved)(place)
    assert response.ok, response.message
    # The scheduler's cache must have the claim before it sees the pod.
    place.world.pass_time(0.3)
    return made, claim_name


def free(place: Place, name: str) -> bool:
    found = place.get("ResourceClaim", name)
    return not found.get("status") and not protected(found)


def cordon(place: Place, node: str) -> None:
    """Cordon a node; returns once kube-scheduler knows, which it shows by not binding a pod that can go nowhere else."""
    assert patch("Node", node, {"spec": {"unschedulable": True}})(place).ok
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    names = (f"canary-{number}" for number in itertools.count())

    def refused() -> bool:
        name = next(names)
        place.create(pod(name, affinity={"nodeAffinity": required}))
        return bool(place.eventually(lambda: decided(place, name)) == "Unschedulable")

    place.eventually(refused)


def decided(place: Place, name: str) -> str:
    """What kube-scheduler has said of a pod: Unschedulable, or the node."""
    found = place.get("Pod", name)
    conditions = found["status"].get("conditions") or ()
    node: str = found["spec"].get("nodeName", "")
    return node or next((entry.get("reason", "") for entry in conditions if entry["type"] == "PodScheduled"), "")


def running(place: Place, name: str) -> bool:
    return bool(place.get("Pod", name)["status"]["phase"] == "Running")


class TestClaims:
    def test_are_made_for_gated_pods(self, place: Place) -> None:
        place.create(template(labels={"a": "b"}, annotations={"c": "d"}))
        owner = place.create(pod("p", claims=[from_template("t")]))
        name = place.eventually(lambda: generated(place, "p")) or ""
        found = place.get("ResourceClaim", name)
        meta = found["metadata"]
        assert name.startswith("p-gpu-")
        assert meta["generateName"] == "p-gpu-"
        assert meta["labels"] == {"a": "b", MANAGED: "true"}
        assert meta["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
        assert [(entry["kind"], entry["uid"], entry["controller"]) for entry in meta["ownerReferences"]] == [
            ("Pod", owner["metadata"]["uid"], True)
        ]
        assert protected(found)

    def test_are_made_when_the_template_comes_later(self, place: Place) -> None:
        place.create(pod("p", claims=[from_template("t")]))
        place.world.pass_time(0.2)
        place.create(template())
        assert place.eventually(lambda: generated(place, "p"))

    def test_have_short_names_for_pods_with_long_ones(self, place: Place) -> None:
        place.create(template())
        name = "p" * 100
        place.create(pod(name, claims=[from_template("t")]))
        made = place.eventually(lambda: generated(place, name)) or ""
        assert len(made) <= 63

    def test_go_with_a_pod_that_was_never_bound(self, place: Place) -> None:
        _, name = pod_allocated(place, "nowhere")
        assert delete("Pod", "p")(place).ok
        place.eventually(lambda: place.gone("ResourceClaim", name))

    def test_named_ones_are_freed_and_lose_their_finalizer(self, place: Place) -> None:
        place.create(claim())
        owner = place.create(pod("p", claims=[uses("c")]))
        assert allocate(reserved=[consumer("p", owner["metadata"]["uid"])])(place).ok
        assert delete("Pod", "p")(place).ok
        place.eventually(lambda: free(place, "c"))

    def test_reserved_for_nobody_that_exists_are_freed(self, place: Place) -> None:
        place.create(claim())
        assert allocate(reserved=[consumer()])(place).ok
        place.eventually(lambda: free(place, "c"))

    def test_without_the_finalizer_keep_their_allocation(self, exempt: Place) -> None:
        exempt.create(claim())
        assert allocate(reserved=[consumer()], by="scheduler")(exempt).ok
        exempt.eventually(lambda: not exempt.get("ResourceClaim", "c")["status"].get("reservedFor"))
        assert exempt.get("ResourceClaim", "c")["status"]["allocation"]

    def test_bare_ones_stay_allocated(self, place: Place) -> None:
        place.create(claim())
        assert allocate()(place).ok
        place.world.pass_time(0.5)
        assert place.get("ResourceClaim", "c")["status"]["allocation"]

    def test_bare_ones_can_be_deleted(self, place: Place) -> None:
        place.create(claim())
        assert allocate()(place).ok
        assert delete("ResourceClaim", "c")(place).ok
        place.eventually(lambda: place.gone("ResourceClaim", "c"))

    def test_never_allocated_ones_can_be_deleted(self, place: Place) -> None:
        place.create(claim())
        assert delete("ResourceClaim", "c")(place).ok
        place.eventually(lambda: place.gone("ResourceClaim", "c"))

    def test_in_use_wait_for_their_pod(self, place: Place) -> None:
        place.create(claim())
        owner = place.create(pod("p", claims=[uses("c")]))
        assert allocate(reserved=[consumer("p", owner["metadata"]["uid"])])(place).ok
        assert delete("ResourceClaim", "c")(place).ok
        place.world.pass_time(0.5)
        assert place.get("ResourceClaim", "c")["status"]["allocation"]
        assert delete("Pod", "p")(place).ok
        place.eventually(lambda: place.gone("ResourceClaim", "c"))

    def test_other_consumers_than_pods_are_left(self, place: Place) -> None:
        place.create(claim())
        assert allocate(reserved=[{**consumer(), "apiGroup": "example.com", "resource": "others"}])(place).ok
        place.world.pass_time(0.5)
        assert place.get("ResourceClaim", "c")["status"]["reservedFor"]

    def test_of_a_pod_that_was_given_a_node_are_reserved(self, place: Place) -> None:
        place.create(claim())
        assert allocate()(place).ok
        owner = place.create(pod("p", claims=[uses("c")], nodeName="nowhere"))
        reserved = place.eventually(lambda: place.get("ResourceClaim", "c")["status"].get("reservedFor"))
        assert reserved == [consumer("p", owner["metadata"]["uid"])]


class TestScheduling:
    def test_an_allocated_pod_is_bound_once_ungated(self, place: Place) -> None:
        node = place.world.add_nodes(2)[1]
        owner, name = pod_allocated(place, node)
        before = place.get("ResourceClaim", name)["metadata"]["resourceVersion"]
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, "p"))
        assert place.get("Pod", "p")["spec"]["nodeName"] == node
        after = place.get("ResourceClaim", name)
        assert after["metadata"]["resourceVersion"] == before
        assert after["status"]["reservedFor"] == [consumer("p", owner["metadata"]["uid"])]

    def test_the_claim_is_freed_when_the_pod_ends(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        create(CLASS)(place)
        place.create(claim())
        owner = place.create(pod("p", claims=[uses("c")]))
        assert allocate(node=node, reserved=[consumer("p", owner["metadata"]["uid"])])(place).ok
        place.world.pass_time(0.3)
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, "p"))
        assert patch("Pod", "p", {"status": {"phase": "Succeeded"}}, sub="status")(place).ok
        place.eventually(lambda: free(place, "c"))

    def test_a_reservation_of_a_bound_pod_is_put_back(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        owner, name = pod_allocated(place, node)
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, "p"))
        assert status(name, lambda found: found.pop("reservedFor"))(place).ok
        found = place.eventually(lambda: place.get("ResourceClaim", name)["status"].get("reservedFor"))
        assert found[0]["uid"] == owner["metadata"]["uid"]

    def test_the_scheduler_reserves_a_bare_claim(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        create(CLASS)(place)
        place.create(claim())
        assert allocate(node=node)(place).ok
        for name in ("p", "q"):
            place.create(pod(name, claims=[uses("c")]))
        place.world.pass_time(0.3)
        for name in ("p", "q"):
            assert strategic("Pod", name, UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, "p") and running(place, "q"))
        assert len(place.get("ResourceClaim", "c")["status"]["reservedFor"]) == 2

    def test_an_allocation_without_a_timestamp_never_binds(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        create(CLASS)(place)
        place.create(claim())

        def unstamped(found: dict[str, Any]) -> None:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            results = [{"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}]
            found["allocation"] = {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }

        assert status("c", unstamped)(place).ok
        place.create(pod("p", claims=[uses("c")]))
        place.world.pass_time(0.3)
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.world.pass_time(1.0)
        assert "nodeName" not in place.get("Pod", "p")["spec"]

    def test_an_allocation_for_a_node_that_is_full_is_cleared(self, place: Place) -> None:
        """PostFilter: another node would do, so allocation and reservation go in one write; the guard keeps the scheduler from its own."""
        full, _ = place.world.add_nodes(2)
        _, name = pod_allocated(place, full)
        cordon(place, full)
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        found = place.eventually(
            lambda: None if "allocation" in (item := place.get("ResourceClaim", name)).get("status", {}) else item
        )
        assert not found.get("status", {}).get("reservedFor")
        place.world.pass_time(0.5)
        assert "allocation" not in place.get("ResourceClaim", name).get("status", {})
        assert "nodeName" not in place.get("Pod", "p")["spec"]
        assert patch("Node", full, {"spec": {"unschedulable": None}})(place).ok

    def test_a_pinned_pod_keeps_its_allocation(self, place: Place) -> None:
        full, _ = place.world.add_nodes(2)
        _, name = pod_allocated(place, full)
        cordon(place, full)
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [full]}]}
        pin = {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
            }
        }
        assert strategic("Pod", "p", {"spec": {**UNGATE["spec"], **pin}}, by="operator")(place).ok
        place.world.pass_time(1.0)
        assert place.get("ResourceClaim", name)["status"]["allocation"]
        assert patch("Node", full, {"spec": {"unschedulable": None}})(place).ok

    def test_a_claim_that_two_pods_reserve_is_not_cleared(self, place: Place) -> None:
        full, _ = place.world.add_nodes(2)
        create(CLASS)(place)
        place.create(claim())
        uids = {name: place.create(pod(name, claims=[uses("c")]))["metadata"]["uid"] for name in ("p", "q")}
        assert allocate(node=full, reserved=[consumer(name, uid) for name, uid in uids.items()])(place).ok
        cordon(place, full)
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.world.pass_time(1.0)
        assert place.get("ResourceClaim", "c")["status"]["allocation"]
        assert patch("Node", full, {"spec": {"unschedulable": None}})(place).ok

    def test_no_pod_is_bound_while_its_claim_is_unallocated(self, place: Place) -> None:
        place.world.add_nodes(1)
        create(CLASS)(place)
        place.create(claim())
        place.create(pod("p", claims=[uses("c")]))
        assert strategic("Pod", "p", UNGATE, by="operator")(place).ok
        place.world.pass_time(0.5)
        assert "nodeName" not in place.get("Pod", "p")["spec"]
        assert place.get("Pod", "p")["status"]["conditions"][0]["status"] == "False"

    def test_a_claim_generated_for_one_pod_serves_others_that_name_it(self, place: Place) -> None:
        node = place.world.add_nodes(1)[0]
        _, name = pod_allocated(place, node)
        place.create(pod("other", claims=[uses(name)]))
        assert strategic("Pod", "other", UNGATE, by="operator")(place).ok
        place.eventually(lambda: running(place, "other"))
        assert len(place.get("ResourceClaim", name)["status"]["reservedFor"]) == 2

    def test_pods_without_claims_are_bound(self, place: Place) -> None:
        place.world.add_nodes(1)
        place.create(pod("p"))
        place.eventually(lambda: running(place, "p"))


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

    def test_a_report_goes_with_its_claim(self, place: Place) -> None:
        owner = place.create(claim())
        reference = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "name": "c",
            "uid": owner["metadata"]["uid"],
        }
        report = {
            "apiVersion": "dra-operator.dev/v1alpha1",
            "kind": "ClaimReport",
            "metadata": {"name": "c", "ownerReferences": [reference]},
            "status": {"phase": "Queued"},
        }
        assert said(create(report, "operator")(place)) == "201"
        assert delete("ResourceClaim", "c")(place).ok
        place.eventually(lambda: place.gone("ClaimReport", "c"), 60.0)


class TestTaintedDevices:
    def test_who_is_evicted_when_a_device_is_tainted(self, place: Place) -> None:
        """A toleration counts for as long as it says, and only one for NoExecute by name: an empty effect is kube-scheduler's alone."""
        (node,) = place.world.add_nodes(1)
        create(CLASS)(place)
        admins = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        assert patch("Namespace", place.namespace, admins)(place).ok
        taken: dict[str, dict[str, Any]] = {
            "stays": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
            "goes": {"tolerations": [{"operator": "Exists"}]},
            "goes-as-well": {"adminAccess": True},
            "goes-later": {"tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4}]},
        }
        for name, fields in taken.items():
            place.create(claim(name))
            made = place.create(pod(name, claims=[uses(name)], terminationGracePeriodSeconds=0))
            reserved = [consumer(name, made["metadata"]["uid"])]
            device = {**result(), "pool": place.namespace, "device": name, **fields}
            assert allocate(name, device, node=node, reserved=reserved)(place).ok
        place.world.pass_time(0.3)
        for name in taken:
            assert strategic("Pod", name, UNGATE, by="operator")(place).ok
            place.eventually(lambda name=name: running(place, name))
        rule = {
            "kind": "DeviceTaintRule",
            "metadata": {"name": place.namespace},
            "spec": {"deviceSelector": {"pool": place.namespace}, "taint": {"key": "k", "effect": "NoExecute"}},
        }
        place.create(rule)
        place.eventually(lambda: place.gone("Pod", "goes") and place.gone("Pod", "goes-as-well"))
        assert running(place, "stays")
        place.eventually(lambda: place.gone("Pod", "goes-later"))
        assert running(place, "stays")
        assert delete("DeviceTaintRule", place.namespace)(place).ok
