"""`install.yaml` is what the base says, and keeps what matters about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dra_operator.cluster.rest import ENGINE_KINDS
from dra_operator.operator import preflight

ROOT = Path(__file__).parents[2]
RENDER = ROOT / "manifests" / "render.py"
OPERATOR = "system:serviceaccount:dra-operator:dra-operator"

OBJECTS: list[dict[str, Any]] = list(YAML(typ="safe").load_all((ROOT / "manifests" / "install.yaml").read_text()))


def one(kind: str, name: str = "dra-operator") -> dict[str, Any]:
    (found,) = [item for item in OBJECTS if item["kind"] == kind and item["metadata"]["name"] == name]
    return found


def said_of_install(document: str) -> list[str]:
    """The command lines of a document that change `install.yaml` on its way to kubectl."""
    text = (ROOT / document).read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.startswith("    sed ")]


@pytest.mark.parametrize(
    ("document", "args"),
    [("README.md", ["run"]), ("docs/install.md", ["run"]), ("docs/bridge.md", ["run", "--bridge"])],
)
def test_what_documents_change_in_it_is_changed(document: str, args: list[str]) -> None:
    """Before the apply and not after it: a field set by another command makes the next server-side apply a conflict."""
    (line,) = said_of_install(document)
    change, _, apply = line.rpartition("|")
    assert apply.strip() == "kubectl apply --server-side -f -"
    done = subprocess.run(["sh", "-c", change], cwd=ROOT, capture_output=True, text=True, check=True)
    changed = list(YAML(typ="safe").load_all(done.stdout))
    (deployment,) = [item for item in changed if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (before,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container == {**before, "image": f"REGISTRY/{before['image']}", "args": args}
    assert [item for item in changed if item is not deployment] == [
        item for item in OBJECTS if item["kind"] != "Deployment"
    ]


def test_install_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(RENDER), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_anything_but_plain_resources_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\nnamePrefix: x-\n")
    code = f"import sys; sys.path.insert(0, {str(RENDER.parent)!r}); import render, pathlib; list(render.resources(pathlib.Path({str(tmp_path)!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "namePrefix is not rendered here" in done.stderr


def test_every_object_stands_there_once() -> None:
    keys = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in OBJECTS]
    assert len(set(keys)) == len(keys)


def test_order_of_one_apply() -> None:
    """The namespace before what lives in it, the account before its Deployment, the policies last."""
    kinds = [item["kind"] for item in OBJECTS]
    assert kinds.index("Namespace") < kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kinds.index("Deployment") < min(i for i, kind in enumerate(kinds) if "AdmissionPolicy" in kind)
    assert not {item["kind"] for item in OBJECTS} & {"AllocationPolicy", "ClaimGroup", "ClaimReport"}


def test_the_pod_is_confined() -> None:
    deployment = one("Deployment")["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["requests"]
    assert "memory" in container["resources"]["limits"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_budget_covers_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def granted(right: preflight.Right) -> bool:
    """Whether the operator's roles grant it, as RBAC reads them."""
    roles = [one("ClusterRole")] if not right.namespace else [one("ClusterRole"), one("Role", "dra-operator-leader")]
    return any(
        right.group in rule["apiGroups"]
        and right.resource in rule["resources"]
        and right.verb in rule["verbs"]
        and ("resourceNames" not in rule or right.name in rule["resourceNames"])
        for role in roles
        for rule in role["rules"]
    )


def test_the_roles_grant_what_the_operator_asks_for_at_its_start() -> None:
    asked = preflight.rights("allocate", ENGINE_KINDS, "dra-operator", "dra-operator")
    asked += [
        preflight.Right("get", "admissionregistration.k8s.io", plural, name=name) for plural, name in preflight.POLICIES
    ]
    assert [str(right) for right in asked if not granted(right)] == []


def test_rights_have_no_wildcards_and_no_secrets() -> None:
    for item in OBJECTS:
        for rule in item.get("rules", []):
            granted = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not granted & {"*", "secrets", "impersonate", "escalate", "bind"}


@pytest.mark.parametrize("kind", ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"])
def test_every_policy_is_bound_and_fails_closed(kind: str) -> None:
    policies = {item["metadata"]["name"]: item for item in OBJECTS if item["kind"] == kind}
    bound = {item["spec"]["policyName"] for item in OBJECTS if item["kind"] == f"{kind}Binding"}
    assert policies.keys() == bound
    assert {item["spec"]["failurePolicy"] for item in policies.values()} == {"Fail"}


def test_mutating_policies_leave_the_same_namespaces_alone() -> None:
    selectors = [
        item["spec"]["matchConstraints"]["namespaceSelector"]
        for item in OBJECTS
        if item["kind"] == "MutatingAdmissionPolicy"
    ]
    assert selectors[0] == selectors[1]


def test_policies_name_the_account_that_is_installed() -> None:
    account = one("ServiceAccount")["metadata"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" == OPERATOR
    text = (ROOT / "manifests" / "install.yaml").read_text()
    assert text.count("system:serviceaccount:dra-operator:") == text.count(OPERATOR) > 0
