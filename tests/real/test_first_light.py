"""An ordinary Deployment with a claim template: allocated by us, bound by an unmodified kube-scheduler, freed again."""

from __future__ import annotations

import json

import pytest

from devcluster import ApiError, ControlPlane, eventually
from devcluster.pytest_plugin import Kubectl, Nodes
from dra_operator.operator.settings import LeadershipSettings
from tests.real.conftest import StartOperator
from tests.real.operator_process import OperatorProcess
from tests.real.workloads import OURS, deployment, devices, listed, nodes_of, template

pytestmark = pytest.mark.real

LEASE = "/apis/coordination.k8s.io/v1/namespaces/dra-operator/leases/dra-operator"


def test_a_deployment_gets_its_devices_and_gives_them_back(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
) -> None:
    nodes("p4d:3")
    objects = [template("gpu", gpu_class), deployment("train", "gpu", replicas=4)]
    kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))

    def running() -> bool:
        pods = listed(control_plane, namespace, "pods")
        return len(pods) == 4 and all(pod["status"]["phase"] == "Running" for pod in pods)

    eventually(running, what="4 pods run")
    pods, claims = (listed(control_plane, namespace, what) for what in ("pods", "resourceclaims"))

    # One claim a pod, one device a claim, none twice, on the node where kube-scheduler put the pod.
    assert len(claims) == 4
    assert [len(devices(claim)) for claim in claims] == [1, 1, 1, 1]
    assert len({devices(claim)[0] for claim in claims}) == 4
    node_of_pod = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}
    for claim in claims:
        (consumer,) = claim["status"]["reservedFor"]
        assert nodes_of(claim) == [node_of_pod[consumer["uid"]]]

    # Two requests a pod, none refused: the finalizer was there, and nobody else wrote in between.
    assert operator.metric("outcomes_total", kind="WriteClaimStatus") == 4
    assert operator.metric("outcomes_total", kind="PatchPod") == 4
    assert operator.metric("outcomes_total", kind="PatchClaim") == 0
    assert operator.metric("outcomes_total", status="200") >= 8

    def reserved() -> bool:
        reports = {
            item["metadata"]["name"]: item["status"] for item in listed(control_plane, namespace, "claimreports")
        }
        assert set(reports) == {claim["metadata"]["name"] for claim in claims}
        assert {status["phase"] for status in reports.values()} == {"Reserved"}
        return True

    eventually(reserved, what="every claim's report says Reserved")

    kubectl("scale", "deployment/train", "--replicas", "0")

    def gone() -> bool:
        return not any(listed(control_plane, namespace, what) for what in ("pods", "resourceclaims", "claimreports"))

    eventually(gone, what="no pod, claim or report is left")
    assert operator.get("/healthz")[0] == 200
    assert operator.metric("engine_crashes_total") == 0


def test_nothing_is_left_when_namespace_and_class_are_gone(
    control_plane: ControlPlane, nodes: Nodes, operator: OperatorProcess
) -> None:
    nodes("p4d:1")
    client = control_plane.client
    # Not the fixture's: the test deletes it.
    namespace = client.post("/api/v1/namespaces", {"metadata": {"generateName": "passing-"}})["metadata"]["name"]
    eventually(lambda: client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"))
    name = namespace
    made = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }  # fmt: skip
    objects = [made, template("gpu", name, count=2), deployment("train", "gpu", replicas=2)]
    control_plane.kubectl("apply", "--namespace", namespace, "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
    eventually(lambda: sum(map(bool, map(devices, listed(control_plane, namespace, "resourceclaims")))) == 2)
    eventually(lambda: client.get(f"{OURS}/deviceclassreports/{name}"))

    client.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{name}")
    client.delete(f"/api/v1/namespaces/{namespace}")

    def absent(path: str) -> bool:
        try:
            client.get(path)
        except ApiError as error:
            return error.status == 404
        return False

    eventually(lambda: absent(f"/api/v1/namespaces/{namespace}"), what="the namespace is gone, finalizers and all")
    eventually(lambda: absent(f"{OURS}/deviceclassreports/{name}"), what="the class report is gone")


def test_a_graceful_stop_is_quick_and_the_next_one_goes_on(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
) -> None:
    nodes("p4d:1")
    kubectl(
        "apply",
        "-f",
        "-",
        input="\n---\n".join(map(json.dumps, [template("gpu", gpu_class), deployment("a", "gpu", 2)])),
    )
    eventually(lambda: sum(map(bool, map(devices, listed(control_plane, namespace, "resourceclaims")))) == 2)
    assert operator.stop() == 0
    assert control_plane.client.get(LEASE)["spec"]["holderIdentity"] == ""
    kubectl("scale", "deployment/a", "--replicas", "4")
    operator.start()

    def running() -> bool:
        pods = listed(control_plane, namespace, "pods")
        return len(pods) == 4 and all(pod["status"]["phase"] == "Running" for pod in pods)

    eventually(running, what="the two new pods run as well")
    taken = [devices(claim)[0] for claim in listed(control_plane, namespace, "resourceclaims")]
    assert len(set(taken)) == 4


def test_a_follower_takes_over_within_twenty_seconds(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
    start_operator: StartOperator,
) -> None:
    nodes("p4d:1")
    follower = start_operator()
    assert not follower.leads
    lease = control_plane.client.get(LEASE)["spec"]
    # Measured on a machine that others load, 20 s would say more about them.
    settings = LeadershipSettings()
    assert lease["leaseDurationSeconds"] + 1.2 * settings.retry_period < 20
    operator.kill()
    kubectl(
        "apply",
        "-f",
        "-",
        input="\n---\n".join(map(json.dumps, [template("gpu", gpu_class), deployment("a", "gpu", 2)])),
    )
    eventually(
        lambda: sum(map(bool, map(devices, listed(control_plane, namespace, "resourceclaims")))) == 2,
        what="the follower allocates after the leader's death",
    )
    assert follower.leads
    taken = control_plane.client.get(LEASE)["spec"]
    assert taken["holderIdentity"] != lease["holderIdentity"]
    assert taken["leaseTransitions"] == lease["leaseTransitions"] + 1
