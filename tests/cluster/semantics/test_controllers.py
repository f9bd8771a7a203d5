"""What the others do to claims and pods: the claim controller, kube-scheduler, kubelets, the garbage collector, the taint eviction controller."""

from __future__ import annotations

import itertools
from typing import Any

from tests.cluster.semantics.lives import CLASS, UNGATE, generated, pod_allocated, running
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
from tests.cluster.semantics.worlds import MANAGED, Place


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


class TestReports:
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
