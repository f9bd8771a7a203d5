"""Who may do what on a real API server: the operator's account, an editor of a namespace, and people who only look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from devcluster import eventually
from devcluster.client import MERGE_PATCH
from dra_operator.cli.live import SNAPSHOT_KINDS
from tests.manifests.impersonation import (
    OPERATOR,
    USER,
    Cluster,
    allocated,
    claim,
    claims,
    numbers,
    report,
    reports,
)

pytestmark = pytest.mark.real


#: What the operator's account may do: (group, resource, verb, namespace, name).
RIGHTS = [
    *[("", kind, verb, "", "") for kind in ("pods", "nodes", "namespaces") for verb in ("list", "watch")],
    *[("resource.k8s.io", kind, verb, "", "") for kind in
      ("resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices", "devicetaintrules") for verb in ("list", "watch")],
    *[("dra-operator.dev", kind, verb, "", "") for kind in ("allocationpolicies", "claimgroups", "networkdeviceclasses",
      "claimreports", "deviceclassreports") for verb in ("list", "watch")],
    *[("dra-operator.dev", kind, verb, "", "") for kind in ("claimreports", "deviceclassreports") for verb in ("create", "update", "delete")],
    ("", "pods", "patch", "", ""),
    ("", "pods/status", "patch", "", ""),
    ("", "pods/eviction", "create", "", ""),
    ("policy", "poddisruptionbudgets", "list", "", ""),
    ("scheduling.k8s.io", "priorityclasses", "watch", "", ""),
    ("resource.k8s.io", "resourceclaims", "patch", "", ""),
    ("resource.k8s.io", "resourceclaims/status", "update", "", ""),
    ("resource.k8s.io", "resourceclaims/binding", "update", "", ""),
    ("dra-operator.dev", "allocationpolicies/status", "update", "", ""),
    ("dra-operator.dev", "claimgroups/status", "update", "", ""),
    ("dra-operator.dev", "networkdeviceclasses/status", "update", "", ""),
    ("resource.k8s.io", "deviceclasses", "create", "", ""),
    ("resource.k8s.io", "deviceclasses", "update", "", ""),
    ("events.k8s.io", "events", "create", "default", ""),
    ("coordination.k8s.io", "leases", "create", "dra-operator", ""),
    ("coordination.k8s.io", "leases", "update", "dra-operator", "dra-operator"),
]  # fmt: skip

NO_RIGHTS = [
    ("", "secrets", "list", "", ""),
    ("", "configmaps", "list", "", ""),
    ("", "pods", "delete", "", ""),
    ("", "pods", "create", "", ""),
    ("", "nodes", "patch", "", ""),
    ("resource.k8s.io", "resourceclaims", "create", "", ""),
    ("resource.k8s.io", "resourceclaims", "delete", "", ""),
    ("resource.k8s.io", "deviceclasses", "delete", "", ""),
    ("dra-operator.dev", "networkdeviceclasses", "update", "", ""),
    ("resource.k8s.io", "resourceslices", "update", "", ""),
    ("dra-operator.dev", "allocationpolicies", "update", "", ""),
    ("coordination.k8s.io", "leases", "update", "dra-operator", "other"),
    ("coordination.k8s.io", "leases", "create", "kube-system", ""),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "delete", "", ""),
    ("rbac.authorization.k8s.io", "clusterroles", "update", "", ""),
]


def test_the_operator_has_its_rights_and_no_others(cluster: Cluster) -> None:
    wrong = []
    for expected, rows in ((True, RIGHTS), (False, NO_RIGHTS)):
        for group, resource, verb, namespace, name in rows:
            kind, _, subresource = resource.partition("/")
            attributes = {
                "group": group,
                "resource": kind,
                "subresource": subresource,
                "verb": verb,
                "namespace": namespace,
                "name": name,
            }
            review = {"spec": {"user": OPERATOR, "resourceAttributes": attributes}}
            answer = cluster.must(USER, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            if answer["status"]["allowed"] != expected:
                wrong.append((verb, resource, namespace, expected))
    assert not wrong


def device_class(name: str, owner: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if owner:
        reference = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass", "uid": "u1"}
        metadata["ownerReferences"] = [{**reference, "name": owner}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("user", "owner", "allowed"),
    [(OPERATOR, "itself", True), (OPERATOR, "", False), (OPERATOR, "another", False), (USER, "", True)],
)
def test_the_operator_makes_no_device_class_but_those_of_network_classes(
    cluster: Cluster, user: str, owner: str, allowed: bool
) -> None:
    name = f"class-{next(numbers)}"
    body = device_class(name, name if owner == "itself" else owner)
    status, answer = cluster.call(user, "POST", "/apis/resource.k8s.io/v1/deviceclasses?dryRun=All", body)
    assert (status < 300) is allowed, answer


def test_the_operator_takes_no_device_class_over(cluster: Cluster) -> None:
    """The class is there without an owner; the operator may not even make itself one."""
    name = f"class-{next(numbers)}"
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    stored = cluster.must(USER, "POST", path, device_class(name))
    stored["metadata"]["ownerReferences"] = device_class(name, name)["metadata"]["ownerReferences"]
    status, answer = cluster.call(OPERATOR, "PUT", f"{path}/{name}", stored)
    cluster.must(USER, "DELETE", f"{path}/{name}")
    assert status == 403, answer
    assert "dra-operator-classes" in answer["message"]


def test_the_operator_allocates_and_frees_with_its_own_rights(cluster: Cluster) -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:dra-operator", "system:authenticated")
    stored = cluster.claim("managed free")
    path = f"{claims('default')}/{stored['metadata']['name']}"

    status, stored = cluster.call(OPERATOR, "PUT", f"{path}/status", allocated(stored), groups=groups)
    assert status == 200, stored
    status, stored = cluster.call(OPERATOR, "PUT", f"{path}/status", {**stored, "status": {}}, groups=groups)
    assert status == 200, stored
    note = {
        "metadata": {
            "annotations": {"dra-operator.dev/used-by": "p"},
            "resourceVersion": stored["metadata"]["resourceVersion"],
        }
    }
    status, stored = cluster.call(OPERATOR, "PATCH", path, note, MERGE_PATCH, groups=groups)
    assert status == 200, stored


def test_a_namespaces_editor_cannot_get_around_the_operator(cluster: Cluster) -> None:
    """The built-in `edit` role plus ours: may use groups, read reports, and not write them."""
    binding = {
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    }
    cluster.must(USER, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    groups = ("system:authenticated",)
    group_path = "/apis/dra-operator.dev/v1alpha1/namespaces/default/claimgroups"
    group = {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "ClaimGroup",
        "metadata": {"name": "g"},
        "spec": {"minMembers": 2},
    }

    def may_list() -> bool:  # role aggregation takes a moment
        return cluster.call("bob", "GET", reports("default"), groups=groups)[0] == 200

    eventually(may_list)
    status, made = cluster.call("bob", "POST", group_path, group, groups=groups)
    assert status == 201, made
    assert made["spec"]["timeout"] == "10m"
    assert cluster.call("bob", "POST", reports("default"), report("mine"), groups=groups)[0] == 403
    stored = cluster.claim("managed free")
    status_path = f"{claims('default')}/{stored['metadata']['name']}/status"
    assert cluster.call("bob", "PUT", status_path, allocated(stored), groups=groups)[0] == 403


def test_whoever_is_bound_to_the_role_for_people_reads_what_commands_read_and_no_more(cluster: Cluster) -> None:
    cluster.must(
        USER,
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "inspectors"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dra-operator-inspect"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "inspectors"}],
        },
    )

    def asks(method: str, path: str, body: Any = None) -> int:
        return cluster.call("ina", method, path, body, groups=("inspectors",))[0]

    def may_list(path: str) -> Callable[[], bool]:
        return lambda: asks("GET", path) == 200

    # The binding, and kinds of which the API server has just heard, are there a moment later.
    for resource in SNAPSHOT_KINDS:
        eventually(may_list(resource.path()), what=f"{resource.plural} can be listed")
    assert asks("GET", "/api/v1/secrets") == 403
    assert asks("POST", claims("default"), claim("inspected")) == 403
