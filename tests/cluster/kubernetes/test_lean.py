"""Leaning out an object must not change what the typed objects read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_operator.api.core import Node, Pod
from dra_operator.cluster.kubernetes.lean import lean

POD: dict[str, Any] = {
    "metadata": {
        "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "ru", "controller": True}],
    },
    "spec": {
        "nodeName": "n1", "schedulerName": "default-scheduler", "priority": 5, "priorityClassName": "high",
        "preemptionPolicy": "Never", "schedulingGates": [{"name": "dra-operator.dev/allocation"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "nodeSelector": {"zone": "a"}, "activeDeadlineSeconds": 60,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "overhead": {"cpu": "10m"}, "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}],
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpu"}]},
                        "ports": [{"containerPort": 80, "hostPort": 8080}]}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}, "command": ["x"]}],
    },
    "status": {
        "phase": "Pending", "startTime": "2026-01-02T03:04:05Z", "podIP": "10.0.0.1", "containerStatuses": [{"name": "c"}],
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "e"},
    },
}  # fmt: skip
NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}, "managedFields": [{}]},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "8"}, "images": [{"names": ["i"]}], "declaredFeatures": ["F"]},
}


@pytest.mark.parametrize(("kind", "read", "item"), [("Pod", Pod.from_dict, POD), ("Node", Node.from_dict, NODE)])
def test_lean_objects_read_the_same(kind: str, read: Any, item: dict[str, Any]) -> None:
    slim = copy.deepcopy(item)
    lean(kind)(slim)
    before, after = read(item), read(slim)
    for field in type(before).__dataclass_fields__:
        if field != "meta":
            assert getattr(after, field) == getattr(before, field), field
    assert (after.meta.name, after.meta.uid, after.meta.labels, after.meta.owners) == (
        before.meta.name, before.meta.uid, before.meta.labels, before.meta.owners,
    )  # fmt: skip
    assert len(str(slim)) < 0.9 * len(str(item))


def test_claims_keep_what_is_sent_back() -> None:
    claim = {"metadata": {"name": "c", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                          "managedFields": [{}]}}  # fmt: skip
    lean("ResourceClaim")(claim)
    assert claim["metadata"] == {
        "name": "c", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }  # fmt: skip


@pytest.mark.parametrize("item", [{}, {"metadata": None}, {"metadata": {}, "spec": None, "status": None}])
@pytest.mark.parametrize("kind", ["Pod", "Node", "ResourceSlice"])
def test_odd_objects_pass(kind: str, item: dict[str, Any]) -> None:
    lean(kind)(copy.deepcopy(item))
