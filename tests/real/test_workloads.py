"""What pods and claims of every kind get on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import Nodes, empty_namespace
from dra_operator.engine.rejections import WHY
from tests.real.operator_process import OperatorProcess
from tests.real.scene import GATE, MANAGED, Object, Scene, claim, pod, pod_spec, workload
from tests.real.workloads import RESOURCE, devices, listed, nodes_of, template

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

EXEMPT = {MANAGED: "false"}


@pytest.fixture
def scene(control_plane: ControlPlane, namespace: str) -> Scene:
    return Scene(control_plane, namespace)


@pytest.fixture
def exempt(control_plane: ControlPlane, nodes: Nodes) -> Iterator[Scene]:
    """A namespace that is labelled to be left alone."""
    client = control_plane.client
    made = client.post("/api/v1/namespaces", {"metadata": {"generateName": "exempt-", "labels": EXEMPT}})
    name: str = made["metadata"]["name"]
    eventually(lambda: client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield Scene(control_plane, name)
    empty_namespace(client, name)


def make_class(plane: ControlPlane, name: str, **spec: Any) -> None:
    selectors = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }  # fmt: skip
    plane.client.post(f"{RESOURCE}/deviceclasses", body)


def away_from(app: str) -> Object:
    """A required anti-affinity: what the operator does not model and kube-scheduler filters on."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_good_and_bad_claims_side_by_side(
    scene: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    nodes("p4d:2")
    late = f"late-{scene.namespace}"
    missing_key = "device.attributes['gpu.nvidia.com'].nosuch == 'x'"
    scene.apply(
        claim("two-a", gpu_class, 5),
        claim("two-b", gpu_class, 3),
        claim("shared", gpu_class),
        claim("no-class", late),
        claim("broken", gpu_class, selector=missing_key),
        claim("no-cpu", gpu_class),
        pod("two", "two-a", "two-b"),
        pod("one-of-two", "shared"),
        pod("two-of-two", "shared"),
        pod("classless", "no-class"),
        pod("breaks", "broken"),
        pod(
            "thirsty",
            "no-cpu",
            containers=[{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1000"}}}],
        ),
    )
    scene.wait(lambda: {"two", "one-of-two", "two-of-two"} <= scene.bound().keys(), "the good ones are bound")

    # Two claims, one node, and every device on it.
    where = scene.node("two")
    both = scene.claim("two-a"), scene.claim("two-b")
    assert [nodes_of(each) for each in both] == [[where], [where]]
    assert len({device for each in both for device in devices(each)}) == 8
    # A shared claim: both of its pods, on one node.
    assert scene.node("one-of-two") == scene.node("two-of-two")
    assert len(scene.claim("shared")["status"]["reservedFor"]) == 2

    # The bad ones say why.
    scene.wait(lambda: scene.report("no-class")["phase"] == "Unsatisfiable", "the missing class is reported")
    assert late in scene.summary("no-class")
    scene.wait(lambda: scene.report("broken")["phase"] == "Unsatisfiable", "the broken selector is reported")
    assert "selector #0" in scene.summary("broken")
    assert "no such key: nosuch" in scene.summary("broken")
    scene.wait(lambda: "cpu" in scene.summary("no-cpu"), "the report names what the pod lacks")
    assert scene.report("no-cpu")["phase"] in ("Queued", "Unsatisfiable")
    assert not any(devices(scene.claim(name)) for name in ("no-class", "broken", "no-cpu"))
    assert scene.bound().keys() == {"two", "one-of-two", "two-of-two"}

    make_class(scene.plane, late)
    try:
        scene.wait(lambda: scene.node("classless"), "the claim is allocated once its class is there")
    finally:
        scene.plane.client.delete(f"{RESOURCE}/deviceclasses/{late}")
    assert len(scene.taken()) == len(set(scene.taken())) == 10
    assert operator.metric("engine_crashes_total") == 0


def test_a_bare_claim_is_allocated_and_moved_to_where_its_pod_can_run(
    scene: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    first = nodes("p4d:1")[0]
    scene.apply(claim("bare", gpu_class))
    scene.wait(lambda: devices(scene.claim("bare")), "the bare claim is allocated")
    stored = scene.claim("bare")
    assert nodes_of(stored) == [first]
    assert not stored["status"].get("reservedFor")
    # Times of whole seconds: cut, so that their difference is never more than the real one by a second.
    times = stored["metadata"]["creationTimestamp"], stored["status"]["allocation"]["allocationTimestamp"]
    created, allocated = map(datetime.fromisoformat, times)
    assert (allocated - created).total_seconds() >= 2

    second = nodes("p4d:1")[0]
    scene.apply(pod("elsewhere", "bare", nodeSelector={"kubernetes.io/hostname": second}))
    scene.wait(lambda: scene.node("elsewhere") == second, "the pod is bound where it can run")
    assert nodes_of(scene.claim("bare")) == [second]
    scene.wait(lambda: scene.events("Moving", "elsewhere"), "an Event tells")


def test_a_node_cordoned_between_allocation_and_binding(
    scene: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    first = nodes("p4d:1")[0]
    with scene.scheduler_stopped():
        scene.apply(
            template("gpu", gpu_class), claim("a", gpu_class), pod("single", "a"), workload("Deployment", "set", "gpu")
        )
        scene.wait(
            lambda: len(scene.pods()) == 2 and not any(map(scene.gates, scene.pods())), "both pods have lost the gate"
        )
        before = set(scene.pods("set"))
        assert {nodes_of(item)[0] for item in listed(scene.plane, scene.namespace, "resourceclaims")} == {first}
        second = nodes("p4d:1")[0]
        scene.plane.kubectl("cordon", first)
    scene.wait(lambda: scene.node("single") == second, "the pod of its own is bound to the other node")
    scene.wait(lambda: set(scene.bound("set").values()) == {second}, "the Deployment's pod is on the other node")
    # It was pinned, and could run nowhere else: its controller made another one.
    assert before.isdisjoint(scene.pods("set"))
    scene.wait(lambda: scene.events("PinnedPodStuck"), "an Event tells of the eviction")
    scene.wait(
        lambda: first in {entry["node"] for entry in scene.report("a").get("avoid", [])},
        "the report names the node that is avoided",
    )
    scene.wait(
        lambda: scene.events("PlacementRejected", "single") + scene.events("Moving", "single"), "an Event tells as well"
    )
    assert len(scene.taken()) == len(set(scene.taken())) == 2


def test_kube_scheduler_gives_a_placement_back(
    scene: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    """A pod may not run beside another; the operator learns that from kube-scheduler's clearing the allocation."""
    first = nodes("p4d:1")[0]
    scene.apply(pod("neighbour"))
    scene.wait(lambda: scene.node("neighbour") == first, "the neighbour is there")
    with scene.scheduler_stopped():
        shy = {"affinity": away_from("neighbour")}
        scene.apply(
            template("gpu", gpu_class), claim("a", gpu_class), pod("single", "a", **shy),
            workload("Deployment", "set", "gpu", **shy),
        )  # fmt: skip
        scene.wait(
            lambda: len(scene.pods()) == 3 and not any(map(scene.gates, scene.pods())), "both pods have lost the gate"
        )
        second = nodes("p4d:1")[0]
    scene.wait(lambda: scene.node("single") == second, "the pod is bound to the other node")
    entries = eventually(lambda: scene.report("a").get("avoid"), what="the report says what is avoided")
    assert [entry["node"] for entry in entries] == [first]
    # kube-scheduler writes its reason after it has cleared the allocation, and drops that write when the pod can be
    # bound meanwhile; tests/engine/test_rejections.py has its words.
    reason = scene.report("a")["avoid"][0]["why"]
    assert reason == WHY or (reason.startswith(WHY) and "anti-affinity" in reason)
    scene.wait(lambda: scene.events("PlacementRejected", "single"), "an Event tells as well")
    scene.wait(lambda: set(scene.bound("set").values()) == {second}, "a pinned pod's successor is there too")
    assert len(scene.taken()) == len(set(scene.taken())) == 2


def test_whose_pods_are_whose(
    scene: Scene, exempt: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    names = nodes("p4d:2")
    extended = f"example.com/{scene.namespace}"
    served = f"extended-{scene.namespace}"
    make_class(scene.plane, served, extendedResourceName=extended)
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "job"}, "annotations": {"dra-operator.dev/run-for": "1s"}},
            "spec": pod_spec(template="gpu", restartPolicy="Never"),
        }},
    }  # fmt: skip
    asks = {"name": "main", "image": "none", "resources": {"limits": {extended: "1"}}}
    scene.apply(
        template("gpu", gpu_class),
        workload("DaemonSet", "daemon", "gpu"),
        workload("StatefulSet", "stateful", "gpu", 2),
        job,
        pod("held", template="gpu", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
        pod("foreign", template="gpu", schedulerName="another"),
        pod("placed", template="gpu", nodeName=names[0]),
        pod("extended", containers=[asks]),
    )
    exempt.apply(template("gpu", gpu_class), workload("Deployment", "free", "gpu", 2))
    try:
        # Ours.
        scene.wait(lambda: sorted(scene.bound("daemon").values()) == sorted(names), "a daemon pod runs on each node")
        scene.wait(lambda: scene.bound("stateful").keys() == {"stateful-0", "stateful-1"}, "the StatefulSet is there")
        scene.wait(lambda: _served_by_us(scene, "daemon") and _served_by_us(scene, "stateful"), "with managed claims")
        scene.wait(lambda: _job_done(scene), "the Job has run and holds nothing any more")
        scene.wait(lambda: "PodGated" in scene.summary(_claim_name(scene, "held")), "the report names the other gate")
        assert not devices(scene.claim_of("held"))
        assert GATE in scene.gates("held")

        # Not ours.
        for name in ("foreign", "placed"):
            scene.wait(lambda name=name: not _is_managed(scene.claim_of(name)), f"the claim of {name} is handed back")
            assert not devices(scene.claim_of(name))
            assert scene.gates(name) == []
        scene.wait(lambda: scene.node("extended"), "the extended resource is kube-scheduler's to allocate")
        special = next(
            item
            for item in listed(scene.plane, scene.namespace, "resourceclaims")
            if item["metadata"].get("annotations", {}).get("resource.kubernetes.io/extended-resource-claim") == "true"
        )
        assert not _is_managed(special)
        assert len(devices(special)) == 1
        exempt.wait(lambda: len(exempt.bound("free")) == 2, "pods of an exempt namespace schedule as ever")
        assert not any(map(_is_managed, listed(exempt.plane, exempt.namespace, "resourceclaims")))
        assert len(exempt.taken()) == 2
        assert listed(exempt.plane, exempt.namespace, "claimreports") == []

        scene.plane.kubectl(
            "patch", "pod/held", "-n", scene.namespace, "--type=json",
            "-p", '[{"op": "remove", "path": "/spec/schedulingGates/0"}]',
        )  # fmt: skip
        scene.wait(lambda: scene.node("held"), "ours is the last gate: now it is placed")
        # kube-scheduler may have taken a device at the same moment as the operator, which then gives way.
        scene.wait(lambda: _each_once(2 + 2 + 1 + 1 + 2, scene, exempt), "no device is in two allocations")
    finally:
        scene.plane.client.delete(f"{RESOURCE}/deviceclasses/{served}")


def _served_by_us(scene: Scene, app: str) -> bool:
    """Every pod of a workload has a managed claim, allocated on the pod's node."""
    for name, node in scene.bound(app).items():
        stored = scene.claim_of(name)
        if stored["metadata"]["labels"] != {MANAGED: "true"} or nodes_of(stored) != [node]:
            return False
    return True


def _each_once(count: int, *scenes: Scene) -> bool:
    """`count` devices are allocated in these namespaces, and no managed claim shares one.

    kube-scheduler 1.37 can give the claim of an extended resource and an ordinary one the same device in one moment: where both
    are its own, that is nothing that the operator may mend.
    """
    holders: dict[tuple[str, str, str], list[Object]] = {}
    for scene in scenes:
        for item in listed(scene.plane, scene.namespace, "resourceclaims"):
            for device in devices(item):
                holders.setdefault(device, []).append(item)
    named = {device: [item["metadata"]["name"] for item in items] for device, items in holders.items()}
    twice = [device for device, items in holders.items() if len(items) > 1 and any(map(_is_managed, items))]
    if twice or sum(map(len, holders.values())) != count:
        raise AssertionError(f"in two allocations: {twice}; {count} allocations are expected: {named}")
    return True


def _is_managed(item: Object) -> bool:
    return MANAGED in item["metadata"].get("labels", {})


def _claim_name(scene: Scene, pod_name: str) -> str:
    name: str = scene.claim_of(pod_name)["metadata"]["name"]
    return name


def _job_done(scene: Scene) -> bool:
    status = scene.plane.client.get(f"/apis/batch/v1/namespaces/{scene.namespace}/jobs/job")["status"]
    left = [
        item
        for item in listed(scene.plane, scene.namespace, "resourceclaims")
        if any(owner["name"].startswith("job-") for owner in item["metadata"].get("ownerReferences", ()))
    ]
    return status.get("succeeded") == 1 and not any(map(devices, left))


def test_collisions_with_unmanaged_claims(
    scene: Scene, exempt: Scene, nodes: Nodes, gpu_class: str, operator: OperatorProcess
) -> None:
    """Ours gives way: silently moved while its pod is not bound, evicted where it runs (default policy)."""
    nodes("p4d:1")
    counted = operator.metric("decisions_total", kind="RecordEvent", action="DeviceCollision")
    with scene.scheduler_stopped():
        scene.apply(claim("a", gpu_class), pod("waits", "a"))
        scene.wait(lambda: scene.gates("waits") == [], "the pod has lost its gate")
        mine = devices(scene.claim("a"))
        _take_for(exempt, gpu_class, "first", mine[0])
        scene.wait(lambda: devices(scene.claim("a")) not in ([], mine), "our claim has other devices")
        assert scene.claim("a")["status"]["reservedFor"][0]["name"] == "waits"
    scene.wait(lambda: scene.events("DeviceCollision", "a"), "an Event tells of the collision")
    scene.wait(lambda: scene.node("waits"), "the pod is bound all the same")

    scene.apply(template("gpu", gpu_class), workload("Deployment", "runs", "gpu"))
    scene.wait(lambda: scene.bound("runs"), "the Deployment's pod is bound")
    (before,) = scene.bound("runs")
    held = scene.claim_of(before)
    _take_for(exempt, gpu_class, "second", devices(held)[0])
    scene.wait(lambda: scene.bound("runs") and before not in scene.bound("runs"), "the pod is replaced")
    scene.wait(lambda: scene.events("DeviceCollision", held["metadata"]["name"]), "an Event says why")
    scene.wait(lambda: scene.bound("runs") and _each_once(4, scene, exempt), "no device is in two allocations any more")
    assert operator.metric("decisions_total", kind="RecordEvent", action="DeviceCollision") >= counted + 2


def _take_for(exempt: Scene, device_class: str, name: str, device: tuple[str, str, str]) -> None:
    """Another allocator's claim gets the device, whoever has it."""
    exempt.apply(claim(name, device_class))
    stored = exempt.claim(name)
    driver, pool, which = device
    result = {"request": "gpu", "driver": driver, "pool": pool, "device": which}
    stored["status"] = {"allocation": {"devices": {"results": [result]}, "allocationTimestamp": "2030-01-01T00:00:00Z"}}
    exempt.plane.client.put(f"{RESOURCE}/namespaces/{exempt.namespace}/resourceclaims/{name}/status", stored)
