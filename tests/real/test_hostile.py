"""Objects that the API server accepts and nobody would write on purpose: each is answered in its report, and hinders nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster import ApiError, ControlPlane
from devcluster.pytest_plugin import Nodes
from tests.real.operator_process import OperatorProcess
from tests.real.scene import Object, Scene, pod
from tests.real.workloads import OURS, RESOURCE, listed

pytestmark = pytest.mark.real

LAST = 2**62
FAR = "2199-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Odd:
    """A claim and what its report says. Reserved: it gets something, odd as it is."""

    claim: Object
    phase: str
    words: str = ""


def request(device_class: str, name: str = "gpu", **exactly: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}


def selecting(device_class: str, *expressions: str) -> Object:
    return request(device_class, selectors=[{"cel": {"expression": each}} for each in expressions])


def odd(phase: str, words: str, name: str, *requests: Object, constraints: tuple[Object, ...] = (), **meta: Any) -> Odd:
    spec = {"requests": list(requests), "constraints": list(constraints)}
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, **meta},
        "spec": {"devices": spec},
    }  # fmt: skip
    return Odd(body, phase, words)


def odd_claims(good: str, failing: str) -> list[Odd]:
    """`failing`: a class whose selector fails on every device."""
    both = request(good, "a"), request(good, "b")
    missing = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "none"}]}
    annotations = {"dra-operator.dev/priority-class": "none", "dra-operator.dev/used-by": ""}
    return [
        odd("Reserved", "", "nothing"),
        odd("Reserved", "", "true-32-times", selecting(good, *["true"] * 32)),
        odd("Reserved", "", "tolerant", request(good, tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b"}])),
        odd("Reserved", "", "annotated", request(good), annotations=annotations),
        odd("Reserved", "", "n" * 253, request(good)),
        odd("Unsatisfiable", "limit of 32", "endless", request(good, count=LAST)),
        odd("Unsatisfiable", "limit of 32", "many", *(request(good, f"r{n}", count=32) for n in range(32))),
        odd("Unsatisfiable", failing, "failing-class", request(failing)),
        odd("Unsatisfiable", "no such key", "no-key", selecting(good, "device.attributes['x.y'].z == 1")),
        odd("Unsatisfiable", "'x'", "no-semver", selecting(good, "semver('x').isLessThan(semver('1.0.0'))")),
        odd("Unsatisfiable", "'zz'", "no-quantity", selecting(good, "quantity('zz').isInteger()")),
        odd("Unsatisfiable", "by zero", "by-zero", selecting(good, "1 / (device.driver == '' ? 1 : 0) == 1")),
        odd("Unsatisfiable", "capacity", "huge", request(good, capacity={"requests": {"memory": "1e30"}})),
        odd("Unsatisfiable", "capacity", "no-such", request(good, capacity={"requests": {"no-such": "1"}})),
        odd("Unsatisfiable", "no.such", "unlike", *both, constraints=({"matchAttribute": "no.such/attribute"},)),
        odd("Unsatisfiable", "none", "half-missing", missing),
    ]  # fmt: skip


def slice_(name: str, *devices: Object, pool: Object | None = None, **spec: Any) -> Object:
    """A slice of the driver that the claims of this test ask for."""
    shape = {"name": name, "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": "gpu.nvidia.com", "pool": shape, "devices": list(devices), **spec},
    }  # fmt: skip


def odd_slices(prefix: str, node: str) -> list[Object]:
    """None of their devices can be used by the claims: incomplete, unusable, elsewhere, or shadowed."""
    extreme = {
        "attributes": {"least": {"int": -(2**63)}, "most": {"int": 2**63 - 1}, "empty": {"string": ""}, "v": {"version": "1.2.3-rc.1+b"}},
        "capacity": {"negative": {"value": "-5"}, "large": {"value": "8E"}, "small": {"value": "1n"}},
    }  # fmt: skip
    taints = [{"key": "k", "effect": "NoExecute", "timeAdded": FAR}, {"key": "z", "effect": "None"}]
    larger = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": ["5"]}]}
    return [
        slice_(f"{prefix}-empty", nodeName=node),
        slice_(f"{prefix}-ghost", {"name": "a"}, nodeName=f"{prefix}-no-such-node"),
        slice_(f"{prefix}-part", {"name": "a"}, pool={"resourceSliceCount": 1000}, nodeName=node),
        slice_(f"{prefix}-last", {"name": "a", "taints": taints}, pool={"generation": LAST}, nodeName=node),
        slice_(
            f"{prefix}-twice-a", {"name": "a"}, pool={"name": f"{prefix}-twice", "resourceSliceCount": 2}, nodeName=node
        ),
        slice_(
            f"{prefix}-twice-b", {"name": "a"}, pool={"name": f"{prefix}-twice", "resourceSliceCount": 2}, nodeName=node
        ),
        slice_(f"{prefix}-larger", {"name": "a"}, nodeSelector={"nodeSelectorTerms": [larger]}),
        slice_(f"{prefix}-extreme", {"name": "a", "taints": taints, **extreme}, nodeName=node),
        slice_(f"{prefix}-slashes", {"name": "a", "taints": taints}, pool={"name": f"{prefix}/b/c"}, nodeName=node),
        slice_(f"{prefix}-binding", {"name": "a", "bindingConditions": ["x"], "bindingFailureConditions": ["y"], "bindsToNode": True}, nodeName=f"{prefix}-no-such-node"),
    ]  # fmt: skip


def user(name: str, claim: str) -> Object:
    """A pod whose entry for the claim has a name of its own: the claim's may be too long for one."""
    item = pod(name, "device")
    item["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": claim}]
    return item


@pytest.fixture
def cluster_wide(control_plane: ControlPlane, namespace: str, nodes: Nodes) -> Iterator[list[Object]]:
    """Cluster-scoped objects to be made; they go with the test."""
    made: list[Object] = []
    yield made
    paths = {
        "DeviceClass": f"{RESOURCE}/deviceclasses", "ResourceSlice": f"{RESOURCE}/resourceslices",
        "AllocationPolicy": f"{OURS}/allocationpolicies", "DeviceTaintRule": f"{RESOURCE}/devicetaintrules",
    }  # fmt: skip
    for item in made:
        try:
            control_plane.client.delete(f"{paths[item['kind']]}/{item['metadata']['name']}")
        except ApiError as error:
            if error.status != 404:
                raise


def test_odd_objects_are_answered_and_hinder_nobody(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    gpu_class: str,
    operator: OperatorProcess,
    cluster_wide: list[Object],
) -> None:
    node = nodes("p4d:2")[0]
    scene = Scene(control_plane, namespace)
    failing, quota = f"failing-{namespace}", {"deviceClassName": gpu_class, "devices": 0}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    odd_quota = {**quota, "selectors": [{"cel": {"expression": "device.attributes['x.y'].z == 1"}}]}
    cluster_wide += [
        {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": failing},
            "spec": {"selectors": [{"cel": {"expression": "device.attributes['x.y'].z == 1"}}]},
        },
        {
            "apiVersion": "dra-operator.dev/v1alpha1", "kind": "AllocationPolicy", "metadata": {"name": f"odd-{namespace}"},
            "spec": {"namespaceSelector": selector, "quota": [odd_quota], "starvation": {"after": "8760h"}},
        },
        {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": f"odd-{namespace}"},
            "spec": {"deviceSelector": {"driver": "no.such.driver"}, "taint": {"key": "k", "effect": "NoExecute", "timeAdded": FAR}},
        },
        *odd_slices(namespace, node),
    ]  # fmt: skip
    claims = odd_claims(gpu_class, failing)
    users = [user(f"user-{number}", each.claim["metadata"]["name"]) for number, each in enumerate(claims)]
    nowhere = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": ["7"]}]}, {}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": nowhere}}
    forged = pod("forged", "no-such-claim")
    forged["metadata"]["annotations"] = {"dra-operator.dev/ungated-at": "nonsense", "dra-operator.dev/constraints": "{"}
    scene.apply(
        *cluster_wide,
        *(each.claim for each in claims),
        *users,
        forged,
        pod("nowhere", "no-such-claim", affinity={"nodeAffinity": required}),
        pod("same-twice", "tolerant", "tolerant-too"),
        odd("", "", "good", request(gpu_class)).claim,
        pod("good", "good"),
    )

    scene.wait(lambda: scene.node("good"), "the ordinary pod is bound")

    def answered() -> bool:
        said = {
            item["metadata"]["name"]: item["status"]["phase"]
            for item in listed(control_plane, namespace, "claimreports")
        }
        for each in claims:
            name = each.claim["metadata"]["name"]
            assert said.get(name) == each.phase, (name, said.get(name), scene.summary(name))
            assert each.words in scene.summary(name), (name, scene.summary(name))
        return True

    scene.wait(answered, "every odd claim has its answer")
    assert not set(scene.bound()) & {"forged", "nowhere", "same-twice"}
    assert operator.metric("engine_crashes_total") == 0
    assert "Traceback" not in operator.text()
    assert operator.running
