"""`install.yaml` is what the base says, and keeps what matters about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dra_operator.cluster.rest import ENGINE_KINDS
from dra_operator.operator import election_thread, preflight, probes
from dra_operator.operator.settings import Settings

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
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_graceful_stop_fits_into_the_time_that_kubelet_gives() -> None:
    settings = Settings()
    longest = settings.loop.stop_grace + election_thread.GRACE + probes.GRACE
    assert longest < one("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_the_probes_bear_with_a_loop_that_is_busy() -> None:
    """Kubelet restarts nobody sooner than the operator itself says that it has got stuck."""
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= Settings().probes.stale
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == Settings().probes.port


def test_replicas_are_kept_apart_and_important() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    pod = one("Deployment")["spec"]["template"]["spec"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (zones,) = pod["topologySpreadConstraints"]
    for selector in (apart["podAffinityTerm"]["labelSelector"], zones["labelSelector"]):
        assert selector["matchLabels"].items() <= labels.items()
    # A cluster of one node, or in one zone, runs both replicas all the same.
    assert zones["whenUnsatisfiable"] == "ScheduleAnyway"
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_the_quota_lets_the_namespace_use_the_priority_class_for_a_rollout() -> None:
    """Some clusters admit pods of the class only where a quota names it; one that were too small would stop an upgrade."""
    quota = one("ResourceQuota")["spec"]
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [one("Deployment")["spec"]["template"]["spec"]["priorityClassName"]]
    assert quota["hard"].keys() == {"pods"}
    assert int(quota["hard"]["pods"]) >= 2 * one("Deployment")["spec"]["replicas"]


def test_only_the_port_of_probes_and_metrics_is_open() -> None:
    policy = one("NetworkPolicy")["spec"]
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": Settings().probes.port, "protocol": "TCP"}]}]


def test_one_apply_needs_no_kinds_but_its_own_and_built_in_ones() -> None:
    own = {item["spec"]["names"]["kind"] for item in OBJECTS if item["kind"] == "CustomResourceDefinition"}
    groups = {item["apiVersion"].rpartition("/")[0] for item in OBJECTS if item["kind"] not in own}
    assert groups == {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apps",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
    }


def test_the_budget_covers_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def granted(role: dict[str, Any]) -> set[preflight.Right]:
    """What a role grants, one by one."""
    return {
        preflight.Right(verb, group, resource, role["metadata"].get("namespace", ""), name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_the_roles_grant_what_the_operator_does_and_no_more() -> None:
    """`rights` is held against the requests of the code in tests/operator/test_preflight.py."""
    asked = set(preflight.rights("allocate", ENGINE_KINDS, "dra-operator", "dra-operator"))
    asked |= {
        preflight.Right("get", "admissionregistration.k8s.io", plural, name=name) for plural, name in preflight.POLICIES
    }
    assert granted(one("ClusterRole")) | granted(one("Role", "dra-operator-leader")) == asked


def test_the_bridges_role_grants_what_the_bridge_does_and_no_more() -> None:
    (role,) = [
        item
        for item in YAML(typ="safe").load_all((ROOT / "manifests" / "bridge" / "rbac.yaml").read_text())
        if item["kind"] == "ClusterRole"
    ]
    usual = preflight.rights("allocate", ENGINE_KINDS, "dra-operator", "dra-operator")
    asked = preflight.rights("allocate", ENGINE_KINDS, "dra-operator", "dra-operator", bridge=True)
    assert granted(role) == set(asked) - set(usual)


def test_all_policies_are_looked_for_at_the_start() -> None:
    installed = {
        (f"{item['kind'][:-1].lower()}ies", item["metadata"]["name"])
        for item in OBJECTS
        if item["kind"].endswith("AdmissionPolicy")
    }
    assert set(preflight.POLICIES) == installed


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
