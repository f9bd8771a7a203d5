"""A quota and a policy's condition on the real control plane: the API server takes both, kube-scheduler binds what is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import Kubectl, Nodes
from tests.real.operator_process import OperatorProcess
from tests.real.workloads import OURS, deployment, listed, template

pytestmark = pytest.mark.real


@pytest.fixture
def policy(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The name of a policy for this test, gone after it."""
    name = f"budget-{namespace}"
    yield name
    control_plane.client.delete(f"{OURS}/allocationpolicies/{name}")


def test_a_quota_holds_and_what_means_nothing_is_told(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    policy: str,
    operator: OperatorProcess,
) -> None:
    nodes("p4d:1")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    quota = [{"deviceClassName": gpu_class, "devices": 2}, {"deviceClassName": "no-such-class", "devices": 0}]
    terms = {
        "apiVersion": "dra-operator.dev/v1alpha1", "kind": "AllocationPolicy", "metadata": {"name": policy},
        "spec": {"namespaceSelector": selector, "quota": quota},
    }  # fmt: skip
    objects = [terms, template("gpu", gpu_class), deployment("train", "gpu", replicas=3)]
    kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))

    def phases() -> list[str]:
        return sorted(item["status"]["phase"] for item in listed(control_plane, namespace, "claimreports"))

    eventually(lambda: phases() == ["QuotaExceeded", "Reserved", "Reserved"], what="two run, one is over quota")

    def running() -> int:
        return sum(pod["status"]["phase"] == "Running" for pod in listed(control_plane, namespace, "pods"))

    eventually(lambda: running() == 2, what="the two pods run")

    def condition() -> dict[str, str]:
        found = control_plane.client.get(f"{OURS}/allocationpolicies/{policy}")
        conditions = (found.get("status") or {}).get("conditions") or [{}]
        return {name: conditions[0].get(name, "") for name in ("type", "status", "reason")}

    wrong = {"type": "Valid", "status": "False", "reason": "UnknownClass"}
    eventually(lambda: condition() == wrong, what="the policy says what is wrong with it")

    terms["spec"] = {"namespaceSelector": selector, "quota": [{"deviceClassName": gpu_class, "devices": 3}]}
    kubectl("apply", "-f", "-", input=json.dumps(terms))
    right = {"type": "Valid", "status": "True", "reason": "Accepted"}
    eventually(lambda: condition() == right, what="the policy is valid once mended")
    eventually(lambda: phases() == ["Reserved", "Reserved", "Reserved"], what="the third runs as well")
    eventually(lambda: operator.metric("outcomes_total", kind="WritePolicyStatus", status="200") >= 2)
