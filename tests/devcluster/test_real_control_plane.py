"""The real control plane does what its users build on: APIs, rights, nodes, scheduler, kubelet."""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import ApiError, ControlPlane, KubectlError, eventually
from devcluster.client import Client, read_kubeconfig
from devcluster.kubelet import RUN_FOR, SWITCH_LABEL
from devcluster.pytest_plugin import Kubectl, Nodes, empty_namespace
from dra_operator import profiles

pytestmark = pytest.mark.real

DRA = "/apis/resource.k8s.io/v1"
Json = dict[str, Any]


@pytest.fixture
def client(control_plane: ControlPlane) -> Client:
    return control_plane.client


def make_pod(client: Client, namespace: str, name: str, *, annotations: Json | None = None, **spec: Any) -> Json:
    body = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 1, **spec},
    }
    made: Json = client.post(f"/api/v1/namespaces/{namespace}/pods", body)
    return made


def phase(client: Client, namespace: str, name: str) -> str:
    """Phase of a pod; `gone` where there is none."""
    try:
        pod = client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    except ApiError as error:
        if error.status == 404:
            return "gone"
        raise
    return str(pod["status"]["phase"])


def eventually_in_phase(client: Client, namespace: str, name: str, wanted: str) -> None:
    eventually(lambda: phase(client, namespace, name) == wanted, 90, what=f"pod {name} is {wanted}")


def is_bound(client: Client, namespace: str, name: str) -> bool:
    return "nodeName" in client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("resource.k8s.io/v1", "resourceclaims/status"),
        ("resource.k8s.io/v1", "devicetaintrules"),
        ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    ],
)
def test_the_apis_that_are_built_on_are_served(client: Client, group: str, resource: str) -> None:
    assert resource in [served["name"] for served in client.get(f"/apis/{group}")["resources"]]


def test_rbac_is_on_and_service_accounts_have_tokens(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    token = kubectl("create", "token", "default").strip()
    account = Client(control_plane.server, token, read_kubeconfig(control_plane.kubeconfig)[2])
    with pytest.raises(ApiError) as error:
        account.get("/api/v1/nodes")
    assert error.value.status == 403
    binding = ("clusterrolebinding", namespace)
    kubectl("create", *binding, "--clusterrole=cluster-admin", f"--serviceaccount={namespace}:default")
    eventually(lambda: account.get("/api/v1/nodes"))
    kubectl("delete", *binding)


def test_pods_get_the_token_of_their_service_account(client: Client, namespace: str) -> None:
    pod = make_pod(client, namespace, "p")
    assert any("projected" in volume for volume in pod["spec"]["volumes"])
    assert pod["spec"]["serviceAccountName"] == "default"


def test_kubectl_tells_what_went_wrong(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match=r'kubectl --namespace .* exit code 1: .*pods "none" not found'):
        kubectl("get", "pod", "none")


@pytest.mark.parametrize("profile", profiles.names())
def test_every_profile_is_accepted(client: Client, nodes: Nodes, profile: str) -> None:
    names = nodes(profile, 2)
    for name, node in ((name, client.get(f"/api/v1/nodes/{name}")) for name in names):
        _, *wanted = profiles.expand(profile, name, 0)
        found = [made for made in client.get(f"{DRA}/resourceslices")["items"] if made["spec"].get("nodeName") == name]
        assert len(found) == len(wanted)
        assert {made["metadata"]["ownerReferences"][0]["uid"] for made in found} == {node["metadata"]["uid"]}
        assert "taints" not in node["spec"]
    for made in profiles.device_classes(profile):
        client.request("POST", f"{DRA}/deviceclasses?dryRun=All", made)


@pytest.fixture
def gpu_class(client: Client) -> Iterator[str]:
    """A DeviceClass of all GPUs, for this test only."""
    expression = "device.driver == 'gpu.nvidia.com'"
    body = {"metadata": {"generateName": "gpu-"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    name: str = client.post(f"{DRA}/deviceclasses", body)["metadata"]["name"]
    yield name
    client.delete(f"{DRA}/deviceclasses/{name}")


def claim_template(client: Client, namespace: str, device_class: str) -> Json:
    """Make a template of one device; gives the pod's fields that use it."""
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    client.post(f"{DRA}/namespaces/{namespace}/resourceclaimtemplates", template)
    return {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "one"}]}


def test_a_pod_runs_on_its_device_until_its_time_is_over(
    client: Client, namespace: str, nodes: Nodes, gpu_class: str
) -> None:
    nodes("p4d")
    uses = claim_template(client, namespace, gpu_class)
    make_pod(client, namespace, "stays", **uses)
    eventually_in_phase(client, namespace, "stays", "Running")
    pod = client.get(f"/api/v1/namespaces/{namespace}/pods/stays")
    assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
    assert pod["status"]["containerStatuses"][0]["state"].keys() == {"running"}
    (claim,) = client.get(f"{DRA}/namespaces/{namespace}/resourceclaims")["items"]
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    make_pod(client, namespace, "ends", annotations={RUN_FOR: "100ms"}, **uses)
    eventually_in_phase(client, namespace, "ends", "Succeeded")
    pod = client.get(f"/api/v1/namespaces/{namespace}/pods/ends")
    assert pod["status"]["containerStatuses"][0]["state"].keys() == {"terminated"}
    assert phase(client, namespace, "stays") == "Running"


def test_a_bound_pod_waits_for_its_claim(client: Client, namespace: str, nodes: Nodes, gpu_class: str) -> None:
    """Bound by hand, as the scheduler would not."""
    (node,) = nodes("l4")
    uses = claim_template(client, namespace, gpu_class)
    make_pod(client, namespace, "other", nodeName=node)
    pod = make_pod(client, namespace, "p", nodeName=node, **uses)
    claims = f"{DRA}/namespaces/{namespace}/resourceclaims"
    eventually(lambda: client.get(claims)["items"])
    eventually_in_phase(client, namespace, "other", "Running")
    assert phase(client, namespace, "p") == "Pending"
    (claim,) = client.get(claims)["items"]
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": node, "device": "gpu-0"}
    claim["metadata"].setdefault("finalizers", []).append("resource.kubernetes.io/delete-protection")
    claim = client.put(f"{claims}/{claim['metadata']['name']}", claim)
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    client.put(f"{claims}/{claim['metadata']['name']}/status", claim)
    eventually_in_phase(client, namespace, "p", "Running")


def test_a_deleted_pod_goes_after_its_grace_period(client: Client, namespace: str, nodes: Nodes) -> None:
    nodes("l4")
    make_pod(client, namespace, "slow", terminationGracePeriodSeconds=3600)
    make_pod(client, namespace, "quick", terminationGracePeriodSeconds=1)
    for name in ("slow", "quick"):
        eventually_in_phase(client, namespace, name, "Running")
        client.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    eventually_in_phase(client, namespace, "quick", "gone")
    assert phase(client, namespace, "slow") == "Running"


def test_a_deleted_pod_with_a_finalizer_has_failed(client: Client, namespace: str, nodes: Nodes) -> None:
    nodes("l4")
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    make_pod(client, namespace, "p")
    eventually_in_phase(client, namespace, "p", "Running")
    client.patch(path, {"metadata": {"finalizers": ["example.com/keep"]}})
    client.delete(path)
    eventually_in_phase(client, namespace, "p", "Failed")
    client.patch(path, {"metadata": {"finalizers": None}})
    eventually_in_phase(client, namespace, "p", "gone")


def test_a_broken_run_time_is_logged_and_the_rest_goes_on(
    control_plane: ControlPlane, client: Client, namespace: str, nodes: Nodes
) -> None:
    nodes("l4")
    make_pod(client, namespace, "bad", annotations={RUN_FOR: "soon"})
    make_pod(client, namespace, "good", annotations={RUN_FOR: "100ms"})
    eventually_in_phase(client, namespace, "good", "Succeeded")
    eventually_in_phase(client, namespace, "bad", "Running")
    told = f"pod {namespace}/bad runs for ever: annotation {RUN_FOR}: 'soon' is no duration: write it as 85s"
    eventually(lambda: told in control_plane.log("kubelet"), what="the kubelet's log says so")


def test_a_statefulset_gets_its_next_pod_of_the_same_name(
    client: Client, kubectl: Kubectl, namespace: str, nodes: Nodes
) -> None:
    nodes("l4")
    pod = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "x"}]}
    labels = {"app": "s"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    client.post(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    kubectl("rollout", "status", "statefulset/s", "--timeout=90s")
    path = f"/api/v1/namespaces/{namespace}/pods/s-0"
    before = client.get(path)["metadata"]["uid"]
    client.delete(path)
    eventually(lambda: phase(client, namespace, "s-0") == "Running" and client.get(path)["metadata"]["uid"] != before)


def test_a_job_completes(client: Client, kubectl: Kubectl, namespace: str, nodes: Nodes) -> None:
    nodes("l4")
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    template = {"metadata": {"annotations": {RUN_FOR: "100ms"}}, "spec": pod}
    job = {"metadata": {"name": "j"}, "spec": {"completions": 3, "parallelism": 2, "template": template}}
    client.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    kubectl("wait", "job/j", "--for=condition=Complete", "--timeout=90s")


def test_a_node_without_status_becomes_ready(client: Client, namespace: str) -> None:
    name = f"{namespace}-bare"
    client.post("/api/v1/nodes", {"metadata": {"name": name}})
    try:
        eventually(lambda: "taints" not in (node := client.get(f"/api/v1/nodes/{name}"))["spec"] and node["status"])
        node = client.get(f"/api/v1/nodes/{name}")
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        assert node["status"]["allocatable"]["pods"] == "110"
    finally:
        client.delete(f"/api/v1/nodes/{name}")


def test_nothing_happens_on_a_node_whose_kubelet_is_off(client: Client, namespace: str, nodes: Nodes) -> None:
    (on,) = nodes("l4")
    off = f"{namespace}-off"
    # Off from the beginning: the kubelet cannot know of the node and not of its label.
    client.post("/api/v1/nodes", {"metadata": {"name": off, "labels": {SWITCH_LABEL: "off"}}})
    try:
        make_pod(client, namespace, "off", nodeName=off)
        make_pod(client, namespace, "on", nodeName=on)
        eventually_in_phase(client, namespace, "on", "Running")
        assert phase(client, namespace, "off") == "Pending"
        client.patch(f"/api/v1/nodes/{off}", {"metadata": {"labels": {SWITCH_LABEL: None}}})
        eventually_in_phase(client, namespace, "off", "Running")
    finally:
        client.delete(f"/api/v1/nodes/{off}")


def test_without_scheduler_nothing_is_bound(
    control_plane: ControlPlane, client: Client, namespace: str, nodes: Nodes
) -> None:
    (node,) = nodes("l4")
    control_plane.stop_scheduler()
    try:
        make_pod(client, namespace, "p")
        make_pod(client, namespace, "by-hand", nodeName=node)
        eventually_in_phase(client, namespace, "by-hand", "Running")
        assert not is_bound(client, namespace, "p")
    finally:
        control_plane.start_scheduler()
    eventually_in_phase(client, namespace, "p", "Running")


def test_a_kubelet_that_comes_back_does_what_it_missed(
    control_plane: ControlPlane, client: Client, namespace: str, nodes: Nodes
) -> None:
    nodes("l4")
    make_pod(client, namespace, "timed", annotations={RUN_FOR: "2s"})
    make_pod(client, namespace, "deleted")
    eventually_in_phase(client, namespace, "deleted", "Running")
    # On a machine that stood still for two seconds it has succeeded by now.
    eventually(lambda: phase(client, namespace, "timed") in ("Running", "Succeeded"))
    control_plane.stop_kubelet()
    client.delete(f"/api/v1/namespaces/{namespace}/pods/deleted")
    make_pod(client, namespace, "new")
    eventually(lambda: is_bound(client, namespace, "new"))
    assert phase(client, namespace, "new") == "Pending"
    control_plane.start_kubelet()
    eventually_in_phase(client, namespace, "new", "Running")
    eventually_in_phase(client, namespace, "timed", "Succeeded")
    eventually_in_phase(client, namespace, "deleted", "gone")


def test_an_emptied_namespace_holds_no_devices(client: Client, nodes: Nodes, gpu_class: str) -> None:
    nodes("l4")
    name = client.post("/api/v1/namespaces", {"metadata": {"generateName": "emptied-"}})["metadata"]["name"]
    eventually(lambda: client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    uses = claim_template(client, name, gpu_class)
    for i in range(3):
        make_pod(client, name, f"p{i}", terminationGracePeriodSeconds=3600, **uses)
    for i in range(3):
        eventually_in_phase(client, name, f"p{i}", "Running")
    empty_namespace(client, name)
    assert client.get(f"{DRA}/namespaces/{name}/resourceclaims")["items"] == []


@pytest.mark.parametrize("run", [1, 2])
def test_nodes_of_one_test_are_not_there_in_the_next(client: Client, nodes: Nodes, run: int) -> None:
    assert client.get("/api/v1/nodes")["items"] == []
    assert len(nodes("p4d:1,mig:1")) == 2
    assert len(client.get(f"{DRA}/resourceslices")["items"]) == 2 + 9
