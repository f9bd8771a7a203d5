"""The manifests on a real API server: one apply installs them, and the admission policies let pass and refuse what docs/operations.md says."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from devcluster import eventually
from devcluster.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.manifests.impersonation import (
    COLLECTOR,
    DRIVER,
    EXTENDED,
    FINALIZER,
    GATE,
    KCM,
    MANAGED,
    OPERATOR,
    SCHEDULER,
    USER,
    Cluster,
    allocated,
    claim,
    claims,
    numbers,
    pod,
    pods,
    report,
    reports,
    templates,
)

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "manifests" / "install.yaml"


# What is done to a claim as stored: (method, path below it, body, content type).
Action = Callable[[dict[str, Any]], tuple[str, str, Any, str]]


def _put_status(change: Callable[[dict[str, Any]], None]) -> Action:
    def act(stored: dict[str, Any]) -> tuple[str, str, Any, str]:
        changed = copy.deepcopy(stored)
        change(changed)
        return "PUT", "/status", changed, "application/json"

    return act


def _patch(patch: dict[str, Any], below: str = "", kind: str = MERGE_PATCH) -> Action:
    return lambda _: ("PATCH", below, patch, kind)


def _reserve(stored: dict[str, Any]) -> None:
    stored["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "11111111-1111-1111-1111-111111111111"}]


def _device_status(stored: dict[str, Any]) -> None:
    stored["status"]["devices"] = [{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "data": {"a": 1}}]


ALLOCATE = _put_status(lambda stored: stored.update(status=allocated(stored)["status"]))
ALLOCATE_AND_UNLABEL = _put_status(
    lambda stored: (stored.update(status=allocated(stored)["status"]), stored["metadata"].pop("labels"))
)
ALLOCATE_BY_PATCH = _patch({"status": allocated({})["status"]}, "/status", STRATEGIC_MERGE_PATCH)
RESERVE = _put_status(_reserve)
CLEAR = _put_status(lambda stored: stored.update(status={}))
WRITE_DEVICE_STATUS = _put_status(_device_status)
STRIP_FINALIZER = _patch({"metadata": {"finalizers": None}})
STRIP_FINALIZER_OF_STATUS = _put_status(lambda stored: stored["metadata"].pop("finalizers"))
UNLABEL = _patch({"metadata": {"labels": {MANAGED: None}}})
LABEL_FALSE = _patch({"metadata": {"labels": {MANAGED: "false"}}})
LABEL = _patch({"metadata": {"labels": {MANAGED: "true"}}})
ANNOTATE_EXTENDED = _patch({"metadata": {"annotations": {EXTENDED: "true"}}})
ANNOTATE = _patch({"metadata": {"annotations": {"example.com/note": "x"}}})
DELETE: Action = lambda _: ("DELETE", "", None, "application/json")  # noqa: E731

ALLOWED, REFUSED = True, False

CLAIM_WRITES = [
    # the guard
    ("managed free", ALLOCATE, OPERATOR, ALLOWED),
    ("managed free", ALLOCATE, SCHEDULER, REFUSED),
    ("managed free", ALLOCATE, USER, REFUSED),
    ("managed free", ALLOCATE_BY_PATCH, SCHEDULER, REFUSED),
    ("managed free", ALLOCATE_AND_UNLABEL, SCHEDULER, REFUSED),
    ("unmanaged free", ALLOCATE, SCHEDULER, ALLOWED),
    # what the guard must not hinder
    ("managed allocated", RESERVE, SCHEDULER, ALLOWED),
    ("managed allocated", RESERVE, KCM, ALLOWED),
    ("managed allocated", CLEAR, SCHEDULER, ALLOWED),
    ("managed allocated", CLEAR, KCM, ALLOWED),
    ("managed allocated", CLEAR, OPERATOR, ALLOWED),
    ("managed allocated", WRITE_DEVICE_STATUS, DRIVER, ALLOWED),
    # the operator leaves alone what is not managed
    ("unmanaged free", ALLOCATE, OPERATOR, REFUSED),
    ("unmanaged free", LABEL, OPERATOR, REFUSED),
    ("unmanaged free", ANNOTATE, OPERATOR, REFUSED),
    ("unmanaged free", DELETE, OPERATOR, REFUSED),
    ("unmanaged allocated", CLEAR, OPERATOR, REFUSED),
    ("unmanaged allocated", RESERVE, OPERATOR, REFUSED),
    ("unmanaged allocated", STRIP_FINALIZER, OPERATOR, REFUSED),
    # the label
    ("managed free", UNLABEL, OPERATOR, ALLOWED),
    ("managed free", UNLABEL, USER, REFUSED),
    ("managed free", LABEL_FALSE, USER, REFUSED),
    ("managed free", UNLABEL, SCHEDULER, REFUSED),
    ("managed allocated", UNLABEL, USER, REFUSED),
    ("unmanaged free", LABEL, USER, ALLOWED),
    ("managed free", ANNOTATE, USER, ALLOWED),
    # the finalizer
    ("managed free", STRIP_FINALIZER, KCM, ALLOWED),
    ("managed free", STRIP_FINALIZER, USER, ALLOWED),
    ("managed allocated", STRIP_FINALIZER, USER, REFUSED),
    ("managed allocated", STRIP_FINALIZER, KCM, REFUSED),
    ("unmanaged allocated", STRIP_FINALIZER, USER, ALLOWED),
    # deletion and the extended-resource annotation
    ("managed free", DELETE, USER, ALLOWED),
    ("managed allocated", DELETE, USER, ALLOWED),
    ("managed free", DELETE, COLLECTOR, ALLOWED),
    ("managed free", ANNOTATE_EXTENDED, USER, REFUSED),
    ("unmanaged free", ANNOTATE_EXTENDED, USER, REFUSED),
    ("unmanaged free", ANNOTATE_EXTENDED, SCHEDULER, ALLOWED),
]


def _names() -> list[str]:
    known = {id(value): name for name, value in globals().items() if name.isupper()}
    return [
        f"{kind.replace(' ', '-')}-{known[id(action)]}-{user.rpartition(':')[2]}"
        for kind, action, user, _ in CLAIM_WRITES
    ]


@pytest.mark.parametrize(("kind", "action", "user", "allowed"), CLAIM_WRITES, ids=_names())
def test_who_may_write_what_to_a_claim(cluster: Cluster, kind: str, action: Action, user: str, allowed: bool) -> None:
    stored = cluster.claim(kind)
    method, below, body, content_type = action(stored)
    path = f"{claims(stored['metadata']['namespace'])}/{stored['metadata']['name']}{below}"

    status, answer = cluster.call(user, method, path, body, content_type)

    if allowed:
        assert status < 300, answer
    else:
        assert status == 403, answer
        assert "ValidatingAdmissionPolicy 'dra-operator-" in answer["message"]


def test_a_status_write_takes_off_neither_label_nor_finalizer(cluster: Cluster) -> None:
    """Drivers may write status: either the API server ignores metadata there, or the policy refuses."""
    for change in (STRIP_FINALIZER_OF_STATUS, _put_status(lambda stored: stored["metadata"].pop("labels"))):
        stored = cluster.claim("managed allocated")
        path = f"{claims('default')}/{stored['metadata']['name']}"
        method, below, body, content_type = change(stored)
        cluster.call(DRIVER, method, path + below, body, content_type)
        after = cluster.must(USER, "GET", path)
        assert after["metadata"]["labels"][MANAGED] == "true"
        assert FINALIZER in after["metadata"]["finalizers"]


CREATED_CLAIMS = {
    "an ordinary one": ("default", USER, {}, True),
    "one labelled false by its author": ("default", USER, {"labels": {MANAGED: "false", "app": "x"}}, True),
    "one that has finalizers": ("default", USER, {"finalizers": ["example.com/mine"]}, True),
    "one that has the label": ("default", USER, {"labels": {MANAGED: "true"}}, True),
    "one that has the finalizer": ("default", USER, {"finalizers": [FINALIZER]}, True),
    "one that has both": ("default", USER, {"labels": {MANAGED: "true"}, "finalizers": [FINALIZER]}, True),
    "one generated for a pod": (
        "default",
        KCM,
        {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}},
        True,
    ),
    "one in kube-system": ("kube-system", USER, {}, False),
    "one in an exempt namespace": ("exempt", USER, {}, False),
    "an extended resource's": ("default", SCHEDULER, {"annotations": {EXTENDED: "true"}}, False),
    "a pod group's": ("default", KCM, {"ownerReferences": "PodGroup"}, False),
    "one that names a pod group by hand": ("default", USER, {"ownerReferences": "PodGroup"}, True),
    "one owned by a pod": ("default", KCM, {"ownerReferences": "Pod"}, True),
}

OWNERS = {
    "PodGroup": {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "u1"},
    "Pod": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u2"},
}


@pytest.mark.parametrize("case", CREATED_CLAIMS)
def test_new_claims_are_managed(cluster: Cluster, case: str) -> None:
    namespace, user, metadata, managed = CREATED_CLAIMS[case]
    if owner := metadata.get("ownerReferences"):
        metadata = {**metadata, "ownerReferences": [OWNERS[owner]]}

    stored = cluster.must(user, "POST", f"{claims(namespace)}?dryRun=All", claim(f"c{next(numbers)}", **metadata))

    assert (stored["metadata"].get("labels", {}).get(MANAGED) == "true") == managed
    finalizers = stored["metadata"].get("finalizers", [])
    assert (FINALIZER in finalizers) == managed
    assert set(metadata.get("finalizers", ())) <= set(finalizers)
    assert len(finalizers) == len(set(finalizers))


CREATED_PODS = {
    "an ordinary one": ("default", {}, [GATE]),
    "one with another gate": ("default", {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, ["kueue.x-k8s.io/admission", GATE]),
    "one with our gate already": ("default", {"schedulingGates": [{"name": GATE}]}, [GATE]),
    "one with an empty list of gates": ("default", {"schedulingGates": []}, [GATE]),
    "one from a template": ("default", {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}, [GATE]),
    "one without claims": ("default", {"resourceClaims": []}, []),
    "one with a node": ("default", {"nodeName": "n1"}, []),
    "one of another scheduler": ("default", {"schedulerName": "volcano"}, []),
    "one of a pod group": ("default", {"schedulingGroup": {"podGroupName": "g"}}, []),
    "one in kube-system": ("kube-system", {}, []),
    "one in an exempt namespace": ("exempt", {}, []),
    "one of a DaemonSet": (
        "default",
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}},
        [GATE],
    ),
    # Merging into lists with doubles is where a mutation could stumble.
    "one that names a variable and a port twice": (
        "default",
        {"container": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
                       "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]}},
        [GATE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CREATED_PODS)
def test_new_pods_with_claims_are_gated(cluster: Cluster, case: str) -> None:
    namespace, spec, gates = CREATED_PODS[case]
    eventually(lambda: cluster.plane.client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"))

    stored = cluster.must(USER, "POST", f"{pods(namespace)}?dryRun=All", pod(f"p{next(numbers)}", **spec))

    assert [gate["name"] for gate in stored["spec"].get("schedulingGates", [])] == gates
    assert stored["spec"].get("schedulingGroup") == spec.get("schedulingGroup")
    for name in ("env", "ports"):
        assert len(stored["spec"]["containers"][0].get(name, [])) == len(spec.get("container", {}).get(name, []))


def test_the_replicas_are_admitted(cluster: Cluster) -> None:
    """By the quota over their priority class, and by the namespace's Pod Security level."""

    def admitted() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cluster.must(USER, "GET", pods("dra-operator"))["items"]
        return found if len(found) == 2 else []

    replicas = eventually(admitted, what="both replicas are there")
    assert {item["spec"]["priority"] for item in replicas} == {2_000_000_000}

    def counted() -> bool:
        quota = cluster.must(USER, "GET", "/api/v1/namespaces/dra-operator/resourcequotas/dra-operator")
        return bool(quota.get("status", {}).get("used", {}).get("pods") == "2")

    eventually(counted, what="the quota counts them")


def test_a_new_object_is_changed_once(cluster: Cluster) -> None:
    """The API server asks the policies again after every change; changing what is changed costs it as much as the first time."""
    before = _mutations(cluster)
    for _ in range(3):
        cluster.must(USER, "POST", f"{claims('default')}?dryRun=All", claim(f"c{next(numbers)}"))
        cluster.must(USER, "POST", f"{pods('default')}?dryRun=All", pod(f"p{next(numbers)}"))
    cluster.must(
        USER, "POST", f"{pods('default')}?dryRun=All", pod(f"p{next(numbers)}", schedulingGates=[{"name": GATE}])
    )
    cluster.must(USER, "POST", f"{pods('default')}?dryRun=All", pod(f"p{next(numbers)}", resourceClaims=[]))
    assert _mutations(cluster) - before == {"dra-operator-claims": 3, "dra-operator-pods": 3}


def _mutations(cluster: Cluster) -> Counter[str]:
    """How often each policy has changed an object, from the API server's metrics."""
    sample = r'^apiserver_mutating_admission_policy_check_total\{.*policy="([^"]+)",.*\} (\S+)$'
    found = re.findall(sample, cluster.plane.client.get("/metrics"), re.MULTILINE)
    return Counter({policy: int(float(count)) for policy, count in found})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (claims("default"), claim("e", annotations={EXTENDED: "true"})),
        (claims("exempt"), claim("e", annotations={EXTENDED: "false"})),
        (templates("default"), {"metadata": {"name": "e"}, "spec": {"metadata": {"annotations": {EXTENDED: "true"}}, "spec": claim("x")["spec"]}}),
    ],
    ids=["claim", "claim in an exempt namespace", "template"],
)  # fmt: skip
def test_the_extended_resource_annotation_is_the_schedulers(cluster: Cluster, path: str, body: dict[str, Any]) -> None:
    status, answer = cluster.call(USER, "POST", path, body)
    assert status == 403
    assert "is for kube-scheduler alone" in answer["message"]


def test_reports_are_written_by_the_operator_alone(cluster: Cluster) -> None:
    path = reports("default")
    assert cluster.call(USER, "POST", path, report("r"))[0] == 403
    stored = cluster.must(OPERATOR, "POST", path, report("r"))
    assert cluster.call(USER, "PUT", f"{path}/r", {**stored, "status": {"phase": "Allocated"}})[0] == 403
    # What the garbage collector does when a claim is deleted with --cascade=orphan.
    stored = cluster.must(COLLECTOR, "PATCH", f"{path}/r", {"metadata": {"ownerReferences": None}}, MERGE_PATCH)
    stored = cluster.must(OPERATOR, "PUT", f"{path}/r", {**stored, "status": {"phase": "Allocated"}})
    assert stored["status"] == {"phase": "Allocated"}
    cluster.must(USER, "DELETE", f"{path}/r")


def test_policies_type_check(cluster: Cluster) -> None:
    """A misspelt field would make a condition false for ever; the API server says so in the status."""
    kinds = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    installed = [
        item for item in YAML(typ="safe").load_all(INSTALL.read_text()) if item["kind"] == "ValidatingAdmissionPolicy"
    ]
    assert installed
    for policy in installed:
        name = policy["metadata"]["name"]

        def warnings(path: str = f"{kinds}/{name}") -> list[list[Any]]:
            # Before the check there is no `typeChecking`; one that found nothing is empty.
            return [cluster.must(USER, "GET", path)["status"]["typeChecking"].get("expressionWarnings", [])]

        assert eventually(warnings, what=f"{name} is type-checked") == [[]], name


def test_applying_again_changes_nothing(cluster: Cluster) -> None:
    listing = ("get", "crd,clusterrole,deployment,validatingadmissionpolicies,mutatingadmissionpolicies", "-A",
               "-l", "app.kubernetes.io/name=dra-operator", "-o", "jsonpath={.items[*].metadata.generation}")  # fmt: skip
    before = cluster.plane.kubectl(*listing)
    cluster.plane.kubectl("apply", "--server-side", "-f", str(INSTALL))
    assert cluster.plane.kubectl(*listing) == before


def test_kustomize_renders_the_same_objects(cluster: Cluster) -> None:
    """`kubectl apply -k manifests/base` and the rendered file are one."""

    def objects(text: str) -> dict[tuple[str, str, str], Any]:
        found = [item for item in YAML(typ="safe").load_all(text) if item]
        return {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in found}

    assert objects(cluster.plane.kubectl("kustomize", str(ROOT / "manifests" / "base"))) == objects(INSTALL.read_text())
