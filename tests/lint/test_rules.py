"""Every rule: an object that it finds something in, where, and no other finding beside it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dra_operator.api.fieldpath import path_text
from dra_operator.lint.checking import RULES, check
from dra_operator.lint.findings import Finding

A100 = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a100}
spec:
  driver: gpu.nvidia.com
  nodeName: node-a
  pool: {name: node-a, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {index: {int: 0}, productName: {string: NVIDIA A100}, cc: {version: 8.0.0}, mig: {bool: false}, resource.kubernetes.io/pcieRoot: {string: pci0}, numa: {int: 0}}
    capacity: {memory: {value: 40Gi}}
  - name: gpu-1
    attributes: {index: {int: 1}, productName: {string: NVIDIA A100}, cc: {version: 8.0.0}, mig: {bool: false}, resource.kubernetes.io/pcieRoot: {string: pci1}, numa: {int: 1}}
    capacity: {memory: {value: 40Gi}}
"""
NICS = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: nics}
spec:
  driver: dra.net
  nodeName: node-a
  pool: {name: node-a, generation: 1, resourceSliceCount: 1}
  devices:
  - name: nic-0
    attributes: {rdma: {bool: true}, resource.kubernetes.io/pcieRoot: {string: pci2}, numa: {string: "0"}}
"""
GPU = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]}}"
NIC = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: nic}, spec: {selectors: [{cel: {expression: device.driver == 'dra.net'}}]}}"
GPUS = device = "device.attributes['gpu.nvidia.com']"
SELECTOR = "spec.selectors[0].cel.expression"
OWN = "spec.devices.requests[0].exactly.selectors[0].cel.expression"


def device_class(expression: str, name: str = "c") -> str:
    text = expression.replace('"', '\\"').replace("\n", "\\n")
    return f'{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: {name}}}, spec: {{selectors: [{{cel: {{expression: "{text}"}}}}]}}}}'


def claim(requests: str, more: str = "", name: str = "c", namespace: str = "default") -> str:
    return f"{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{devices: {{requests: [{requests}]{more}}}}}}}"


def template(requests: str, more: str = "", name: str = "t") -> str:
    return f"{{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {{name: {name}}}, spec: {{spec: {{devices: {{requests: [{requests}]{more}}}}}}}}}"


def exact(device_class: str = "gpu", more: str = "", name: str = "r") -> str:
    return f"{{name: {name}, exactly: {{deviceClassName: {device_class}{more}}}}}"


def asking(expression: str) -> str:
    text = expression.replace('"', '\\"')
    return exact(more=f', selectors: [{{cel: {{expression: "{text}"}}}}]')


def pod(claims: str, uses: str = "[{name: a}]", more: str = "", annotations: str = "{}") -> str:
    return f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, annotations: {annotations}}}, spec: {{resourceClaims: [{claims}], containers: [{{name: c, image: x, resources: {{claims: {uses}}}}}]{more}}}}}"


def workload(kind: str, size: str, claims: str, group: str = "apps/v1", strategy: str = "") -> str:
    return f"{{apiVersion: {group}, kind: {kind}, metadata: {{name: w}}, spec: {{{size}{strategy} selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{resourceClaims: [{claims}], containers: [{{name: c, image: x, resources: {{claims: [{{name: a}}]}}}}]}}}}}}}}"


def policy(spec: str) -> str:
    return f"{{apiVersion: dra-operator.dev/v1alpha1, kind: AllocationPolicy, metadata: {{name: p}}, spec: {spec}}}"


def network(spec: str) -> str:
    return f"{{apiVersion: dra-operator.dev/v1alpha1, kind: NetworkDeviceClass, metadata: {{name: n}}, spec: {spec}}}"


def slice_of(devices: str, more: str = "nodeName: n1") -> str:
    return f"{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: s}}, spec: {{driver: d, pool: {{name: p, generation: 1, resourceSliceCount: 1}}, devices: [{devices}], {more}}}}}"


T = "{name: a, resourceClaimTemplateName: t}"
C = "{name: a, resourceClaimName: c}"


def found(*texts: str, inventory: bool = False) -> list[Finding]:
    values: list[Any] = [value for text in texts for value in yaml.safe_load_all(text)]
    return check(values, inventory=inventory)


def shown(findings: list[Finding]) -> str:
    return "; ".join(f"{item.code} {path_text(item.path)}".strip() for item in findings)


ALONE = [
    # structure
    ("a: 1", "not-an-object"),
    ("kind: Pod", "not-an-object kind"),
    ("{apiVersion: v1, kind: Pod, metadata: {}, spec: {containers: [{name: c, image: x}]}}", "not-an-object kind"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClas, metadata: {name: a}}", "unknown-kind kind"),
    ("{apiVersion: v1, kind: DeviceClass, metadata: {name: a}}", "unknown-kind apiVersion"),
    ("{apiVersion: dra-operator.dev/v1alpha1, kind: Policy, metadata: {name: a}}", "unknown-kind kind"),
    ("{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: a}, spec: {devices: {requests: [{name: a, deviceClassName: b}]}}}", "removed-version apiVersion"),
    ("{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClass, metadata: {name: a}, driverName: x}", "removed-version apiVersion"),
    ("{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: a}}", "removed-version apiVersion"),
    ("{apiVersion: resource.k8s.io/v1alpha3, kind: DeviceClass, metadata: {name: a}, spec: {selectors: [{CELExpression: x}]}}", "old-dialect spec.selectors[0].CELExpression"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: {selectors: [{CELExpression: x}]}}", "old-dialect spec.selectors[0].CELExpression"),
    ("{apiVersion: resource.k8s.io/v1alpha3, kind: ResourceClaim, metadata: {name: a}, spec: {resourceClassName: b}}", "old-dialect spec.resourceClassName"),
    ("{apiVersion: resource.k8s.io/v1alpha3, kind: ResourceSlice, metadata: {name: a}, spec: {nodeName: a, devices: []}}", "old-dialect spec"),
    ("{apiVersion: resource.k8s.io/v1alpha3, kind: NetworkDeviceClass, metadata: {name: a}, spec: {}}", "old-dialect apiVersion"),
    (pod("{name: a, source: {resourceClaimName: c}}"), "old-dialect spec.resourceClaims[0].source"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: {Selectors: []}}", "unknown-field spec.Selectors"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a, lables: {}}, spec: {}}", "unknown-field metadata.lables"),
    (policy("{starvatoin: {}}"), "unknown-field spec.starvatoin"),
    (policy("{weight: 0}"), "invalid-value spec.weight"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a, labels: {b: 1}}, spec: {}}", "wrong-type metadata.labels.b"),
    (claim(exact(more=", count: '2'")), "wrong-type spec.devices.requests[0].exactly.count"),
    (claim(exact()) + "\n---\n" + claim(exact("other")), "given-twice metadata.name"),
    (claim(exact()) + "\n---\n" + claim(exact()), ""),
    # refusals
    (claim("{name: r, exactly: {count: 1}}"), "missing-field spec.devices.requests[0].exactly.deviceClassName"),
    (claim("{name: r}"), "missing-field spec.devices.requests[0]"),
    (claim(exact(name="R")), "invalid-value spec.devices.requests[0].name"),
    (claim(exact(more=", allocationMode: All, count: 2")), "invalid-value spec.devices.requests[0].exactly.count"),
    (claim(exact(more=", allocationMode: Some")), "unsupported-value spec.devices.requests[0].exactly.allocationMode"),
    (claim(exact(more=", tolerations: [{key: a, operator: Is, effect: NoSchedule}]")), "unsupported-value spec.devices.requests[0].exactly.tolerations[0].operator"),
    (claim(exact(more=", tolerations: [{key: a, operator: Exists, value: b, effect: NoSchedule}]")), "invalid-value spec.devices.requests[0].exactly.tolerations[0].value"),
    (claim(exact(more=", capacity: {requests: {memory: lots}}")), "wrong-type spec.devices.requests[0].exactly.capacity.requests.memory"),
    (claim(f"{exact()}, {exact()}"), "duplicate-name spec.devices.requests[1]"),
    (claim(", ".join(exact(name=f"r{i}") for i in range(33))), "over-limit spec.devices.requests; too-many-devices spec.devices.requests"),
    (claim(exact(), ", constraints: [{requests: [x], matchAttribute: a/b}]"), "unknown-request spec.devices.constraints[0].requests[0]"),
    (claim(exact(), ", constraints: [{matchAttribute: pcieRoot}]"), "invalid-value spec.devices.constraints[0].matchAttribute"),
    (claim(exact(), ", config: [{requests: [x], opaque: {driver: d, parameters: {}}}]"), "unknown-request spec.devices.config[0].requests[0]"),
    (pod(T, "[{name: b}]"), "unknown-pod-claim spec.containers[0].resources.claims[0].name"),
    (pod("{name: a}"), "invalid-value spec.resourceClaims[0]"),
    # requests
    (claim(exact(more=", count: 33")), "too-many-devices spec.devices.requests"),
    (claim("{name: r, firstAvailable: [{name: a, deviceClassName: x, count: 40}, {name: b, deviceClassName: x}]}"), ""),
    (GPU + "\n---\n" + claim(exact(), ", config: [{opaque: {driver: dra.net, parameters: {}}}]"), "foreign-config spec.devices.config[0].opaque.driver"),
    (GPU + "\n---\n" + claim(exact(), ", config: [{opaque: {driver: gpu.nvidia.com, parameters: {}}}]"), ""),
    (GPU + "\n---\n" + NIC + "\n---\n" + claim(exact() + "," + exact("nic", name="n"), ", config: [{requests: [n], opaque: {driver: dra.net, parameters: {}}}]"), ""),
    (claim(exact(), ", config: [{opaque: {driver: dra.net, parameters: {}}}]"), ""),
    (GPU.replace("spec: {", "spec: {config: [{opaque: {driver: dra.net, parameters: {}}}], "), "foreign-config spec.config[0].opaque.driver"),
    ("{apiVersion: v1, kind: Namespace, metadata: {name: default}}\n---\n" + claim(exact(more=", adminAccess: true")), "admin-access-namespace spec.devices.requests[0].exactly.adminAccess"),
    (claim(exact(more=", adminAccess: true")), ""),
    (claim(exact(more=", capacity: {requests: {memory: -1}}")), "negative-amount spec.devices.requests[0].exactly.capacity.requests.memory"),
    (claim(exact(more=", tolerations: [{key: a, operator: Exists}, {operator: Exists, effect: NoExecute}]")), "toleration-without-effect spec.devices.requests[0].exactly.tolerations[0]"),
    (GPU.replace("name: gpu", "name: gpu-large") + "\n---\n" + claim(exact("gpu-lagre")), "unknown-class spec.devices.requests[0].exactly.deviceClassName"),
    (GPU.replace("name: gpu", "name: gpu-a100") + "\n---\n" + claim(exact("gpu-h100")), ""),
    # selectors
    (device_class("device.driver =="), f"selector-does-not-compile {SELECTOR}"),
    (device_class("device.model == 'x'"), f"selector-does-not-compile {SELECTOR}"),
    (device_class("device.capacity['d'].memory >= '40Gi'"), f"selector-does-not-compile {SELECTOR}"),
    (policy("{quota: [{deviceClassName: a, devices: 1, selectors: [{cel: {expression: device.x}}]}]}"), "selector-does-not-compile spec.quota[0].selectors[0].cel.expression"),
    (device_class("[1,2,3,4,5].all(a, [1,2,3,4,5].all(b, device.attributes.all(d, device.attributes[d].all(c, device.attributes[d].all(e, c.matches(e))))))"), f"selector-too-expensive {SELECTOR}"),
    (device_class("true"), f"constant-selector {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.index >= '4'"), f"text-compared-as-number {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && '8.0' <= {GPUS}.cc"), f"text-compared-as-number {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.model >= 'A100'"), ""),
    (device_class(f"{GPUS}.productName == 'x'"), f"unguarded-attribute {SELECTOR}"),
    (device_class(f"has({GPUS}.productName) && {GPUS}.productName == 'x'"), ""),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.productName == 'x'"), ""),
    (GPU + "\n---\n" + claim(asking(f"{GPUS}.productName == 'x'")), ""),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n---\n" + claim(asking(f"{GPUS}.productName == 'x'")), f"unguarded-attribute {OWN}"),
    (claim(asking(f"{GPUS}.productName == 'x'")), ""),
    # workloads
    (claim(exact(), name="gpu-claim") + "\n---\n" + pod("{name: a, resourceClaimName: gpu-clam}"), "unknown-claim spec.resourceClaims[0].resourceClaimName"),
    (claim(exact(), namespace="team") + "\n---\n" + pod(C), "unknown-claim spec.resourceClaims[0].resourceClaimName"),
    (template(exact(), name="c") + "\n---\n" + pod(C), "unknown-claim spec.resourceClaims[0].resourceClaimName"),
    (claim(exact(), name="gpu-0") + "\n---\n" + pod("{name: a, resourceClaimName: gpu-1}"), ""),
    (claim(exact(), name="train-a") + "\n---\n" + pod("{name: a, resourceClaimName: train-b}"), ""),
    (pod(C), ""),
    (template(exact()) + "\n---\n" + pod(T, "[{name: a, request: x}]"), "unknown-claim-request spec.containers[0].resources.claims[0].request"),
    (template(exact()) + "\n---\n" + pod(T, "[{name: a, request: r}]"), ""),
    (pod(T, "[]"), "unused-pod-claim spec.resourceClaims[0].name"),
    (workload("Deployment", "replicas: 3,", C), "shared-claim spec.template.spec.resourceClaims[0].resourceClaimName"),
    (workload("DaemonSet", "", C), "shared-claim spec.template.spec.resourceClaims[0].resourceClaimName"),
    (workload("Deployment", "replicas: 1,", C), ""),
    (workload("Deployment", "replicas: 3,", T), ""),
    (pod(T, annotations="{dra-operator.dev/constraints: '[{\"matchAttribute\": \"a/b\", \"requests\": [\"b/r\"]}]'}"), "bad-annotation metadata.annotations[dra-operator.dev/constraints]"),
    (pod(T, annotations="{dra-operator.dev/constraints: 'x'}"), "bad-annotation metadata.annotations[dra-operator.dev/constraints]"),
    (pod(T, annotations="{dra-operator.dev/run-for: soon}"), "bad-annotation metadata.annotations[dra-operator.dev/run-for]"),
    (pod(T, annotations="{dra-operator.dev/constraints: '[{\"matchAttribute\": \"a/b\", \"requests\": [\"a/r\"]}]', dra-operator.dev/run-for: 5s}"), ""),
    # slices
    (slice_of("{name: a}", "nodeName: n1, allNodes: true"), "slice-place spec"),
    (slice_of("{name: a}", "allNodes: false"), "slice-place spec"),
    (slice_of("{name: a, attributes: {x: {}}}"), "attribute-value spec.devices[0].attributes.x"),
    (slice_of("{name: a, attributes: {x: {int: 1, string: a}}}"), "attribute-value spec.devices[0].attributes.x"),
    (slice_of("{name: a, attributes: {x-y: {int: 1}}}"), "invalid-value spec.devices[0].attributes.x-y"),
    (slice_of("{name: A}"), "invalid-value spec.devices[0].name"),
    (slice_of("{name: a, attributes: {x: {version: '8.0'}}}"), "bad-version spec.devices[0].attributes.x.version"),
    (slice_of("{name: a, attributes: {x: {string: " + "y" * 65 + "}}}"), "over-limit spec.devices[0].attributes.x.string"),
    (slice_of(", ".join(f"{{name: d{i}}}" for i in range(129))), "over-limit spec.devices"),
    (slice_of(", ".join(f"{{name: d{i}, taints: [{{key: a, effect: NoSchedule}}]}}" for i in range(65))), "over-limit spec.devices"),
    (slice_of("{name: a}", "nodeName: n1, sharedCounters: [{name: c, counters: {}}]"), "invalid-value spec.sharedCounters"),
    ("{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: a}, spec: {deviceSelector: {}, taint: {key: a, effect: NoSchedule}}}", "taint-rule-for-all spec.deviceSelector"),
    # policies
    (GPU + "\n---\n" + policy("{reserve: [{deviceClassName: Gpu, devices: 1}]}"), "policy-unknown-class spec.reserve[0].deviceClassName"),
    (network("{driver: X}"), "network-class-invalid spec.driver"),
    (network("{rdma: true}"), ""),
    (GPU.replace("name: gpu", "name: n") + "\n---\n" + network("{rdma: true}"), "network-class-conflict metadata.name"),
    (policy("{deviceClassNames: [gpu]}"), ""),
    ("{apiVersion: dra-operator.dev/v1alpha1, kind: ClaimGroup, metadata: {name: training}, spec: {minMembers: 2}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {dra-operator.dev/claim-group: trainig}}, spec: {containers: [{name: c, image: x}]}}", "unknown-group metadata.labels[dra-operator.dev/claim-group]"),
    # kinds that are nobody's business here
    ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, datas: {}}", ""),
    ("{apiVersion: example.com/v1, kind: Anything, metadata: {name: a}}", ""),
    ("{apiVersion: dra-operator.dev/v1alpha1, kind: Scenario, spec: {steps: []}}", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), ALONE)
def test_without_inventory(text: str, wanted: str) -> None:
    assert shown(found(text)) == wanted


def alternatives(second: str) -> str:
    newer = "selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].productName == 'H100'\"}}]"
    ways = f"{{name: a, deviceClassName: gpu, {newer}}}, {{name: b, deviceClassName: gpu, {second}}}"
    return f"{{name: r, firstAvailable: [{ways}]}}"


WITH_INVENTORY = [
    (device_class(f"has({GPUS}.productNam) && {GPUS}.productNam == 'x'"), f"unknown-attribute {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.serial == 'x'"), f"unknown-attribute {SELECTOR}"),
    (device_class("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].memory == 40"), f"unknown-attribute {SELECTOR}"),
    (device_class("'gpu' in device.attributes['gpu.nvida.com']"), f"unknown-attribute {SELECTOR}"),
    (device_class("device.driver == 'gpu.amd.com' && device.attributes['gpu.amd.com'].family == 'AI'"), f"matches-nothing {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.index == '0'"), f"attribute-type {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.cc == '8.0.0'"), f"attribute-type {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.productName == 4"), f"attribute-type {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.index >= 1"), ""),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.productName + {GPUS}.index == 'x'"), f"selector-fails {SELECTOR}; matches-nothing {SELECTOR}"),
    (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.productName.contains('H100')"), f"matches-nothing {SELECTOR}"),
    (GPU + "\n---\n" + claim(asking("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0")), f"matches-nothing {OWN}"),
    (device_class("device.driver != 'x'"), "matches-everything spec.selectors"),
    (GPU + "\n---\n" + claim(exact("other")), "unknown-class spec.devices.requests[0].exactly.deviceClassName"),
    (claim(exact("other")), ""),
    (GPU + "\n---\n" + claim(exact(more=", count: 3")), "count-too-high spec.devices.requests[0].exactly.count"),
    (GPU + "\n---\n" + claim(exact(more=", count: 2")), ""),
    # An alternative that other clusters have is no mistake, unless the others do not fit either.
    (GPU + "\n---\n" + claim(alternatives("count: 1")), ""),
    (GPU + "\n---\n" + claim(alternatives("count: 3")), "matches-nothing spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression; count-too-high spec.devices.requests[0].firstAvailable[1].count"),
    (GPU + "\n---\n" + claim(exact(), ", constraints: [{matchAttribute: gpu.nvidia.com/pcieRoot}]"), "constraint-attribute-missing spec.devices.constraints[0].matchAttribute"),
    (GPU + "\n---\n" + NIC + "\n---\n" + claim(exact() + "," + exact("nic", name="n"), ", constraints: [{matchAttribute: dra.net/numa}]"), "constraint-attribute-missing spec.devices.constraints[0].matchAttribute"),
    (GPU + "\n---\n" + claim(exact(more=", capacity: {requests: {Memory: 1Gi}}")), "capacity-missing spec.devices.requests[0].exactly.capacity.requests.Memory"),
    (GPU + "\n---\n" + claim(exact(more=", capacity: {requests: {memory: 41Gi}}")), "capacity-too-high spec.devices.requests[0].exactly.capacity.requests.memory"),
    (GPU + "\n---\n" + claim(exact(more=", count: 2"), ", constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]"), "fits-nowhere spec.devices.requests"),
    (GPU + "\n---\n" + NIC + "\n---\n" + claim(exact() + "," + exact("nic", name="n"), ", constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]"), "fits-nowhere spec.devices.requests"),
    (GPU + "\n---\n" + claim(exact(more=", count: 2"), ", constraints: [{distinctAttribute: resource.kubernetes.io/pcieRoot}]"), ""),
    (GPU + "\n---\n" + template(exact(more=", count: 3")) + "\n---\n" + workload("StatefulSet", "replicas: 3,", T), "count-too-high spec.spec.devices.requests[0].exactly.count"),
    (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("StatefulSet", "replicas: 3,", T), "replicas-exceed-inventory spec.replicas"),
    (GPU + "\n---\n" + template(exact(more=", count: 2")) + "\n---\n" + workload("Job", "parallelism: 2, completions: 8,", T, "batch/v1"), "replicas-exceed-inventory spec.parallelism"),
    (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("Deployment", "replicas: 2,", T), "rollout-exceeds-inventory spec.replicas"),
    (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("Deployment", "replicas: 2,", T, strategy="strategy: {type: Recreate},"), ""),
    (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("Deployment", "replicas: 2,", T, strategy="strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}},"), ""),
    (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("Deployment", "replicas: 1,", T), ""),
    (GPU + "\n---\n" + policy("{reserve: [{deviceClassName: gpu, devices: 3}]}"), "reservation-exceeds-inventory spec.reserve[0].devices"),
    (network("{rdma: true, minBandwidthGbps: 100}"), "network-class-unmatched spec.minBandwidthGbps"),
    ("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: node-b, pool: {name: p, generation: 1, resourceSliceCount: 2}, devices: [{name: a}]}}", "pool-unusable spec.pool"),
    ("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: node-b, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: a}, {name: a}]}}", "pool-unusable spec.pool"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), WITH_INVENTORY)
def test_with_inventory(text: str, wanted: str) -> None:
    assert shown(found(text, A100, NICS, inventory=True)) == wanted


def test_types_of_a_constraint_differ() -> None:
    slices = [A100.replace("numa:", "example.com/numa:"), NICS.replace("numa:", "example.com/numa:")]
    text = (
        GPU
        + "\n---\n"
        + NIC
        + "\n---\n"
        + claim(exact() + "," + exact("nic", name="n"), ", constraints: [{matchAttribute: example.com/numa}]")
    )
    assert (
        shown(found(text, *slices, inventory=True))
        == "constraint-types-differ spec.devices.constraints[0].matchAttribute"
    )


def test_a_cluster_stands_around_the_objects() -> None:
    """Nothing is said about what is there already; what is given replaces it; what it lacks does not exist."""
    cluster = [
        yaml.safe_load(text) for text in (A100, NICS, GPU, device_class("device.x", "broken"), template(exact()))
    ]

    def told(text: str) -> str:
        return shown(check([yaml.safe_load(text)], cluster=cluster))

    assert told(claim(exact())) == ""
    assert told(claim(exact("nic"))) == "unknown-class spec.devices.requests[0].exactly.deviceClassName"
    assert told(claim(exact(more=", count: 3"))) == "count-too-high spec.devices.requests[0].exactly.count"
    assert told(workload("StatefulSet", "replicas: 3,", T)) == "replicas-exceed-inventory spec.replicas"
    assert told(template(exact(more=", count: 2"))) == ""
    assert told(device_class("device.driver == 'gpu.nvidia.com'", "broken")) == ""


def test_every_rule_is_tested() -> None:
    tested = {part.split()[0] for _, wanted in [*ALONE, *WITH_INVENTORY] for part in wanted.split("; ") if part}
    elsewhere = {"unreadable", "constraint-types-differ"}
    assert tested | elsewhere == set(RULES)


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        (device_class(f"{GPUS}.productName == 'x'"), "the selector reads gpu.nvidia.com/productName of every device, whatever its driver; on such a device it fails", f"Guard with has({GPUS}.productName) &&, or begin with device.driver == 'gpu.nvidia.com' &&."),
        (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.index >= '1'"), "gpu.nvidia.com/index, which slices publish as int, is compared by size with the text '1'", "Write 1 without quotes."),
        (device_class("device.capacity['d'].memory >= '40Gi'"), "the expression does not compile: 1:", "Compare quantities with compareTo: device.capacity['driver'].name.compareTo(quantity('40Gi')) >= 0."),
        (device_class("device.attributes['memory'] >= 40"), "the expression does not compile: 1:", "Write the domain as well: device.attributes['gpu.example.com'].name."),
        (device_class(f"device.driver == 'gpu.nvidia.com' && has({GPUS}.memory)"), "no slice publishes attributes gpu.nvidia.com/memory", "It is published as capacity: read device.capacity instead."),
        (device_class(f"device.driver == 'gpu.nvidia.com' && {GPUS}.productName == 'NVIDIA H100'"), "none of 3 devices matches: `device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100'` rejects all of them (published: NVIDIA A100)", "Ask for what the inventory has."),
        (GPU + "\n---\n" + claim(exact(more=", count: 3")), "3 devices of class gpu are asked for, the most on one node are 2 (node-a); the claim waits for ever", "Ask for fewer, or spread them over several pods."),
        (GPU + "\n---\n" + template(exact()) + "\n---\n" + workload("Deployment", "replicas: 4,", T), "4 pods want devices, the inventory has them for 2 at most (2 devices of class gpu, 1 a pod)", "Run fewer replicas, ask for less, or add nodes."),
        (claim(exact(), ", constraints: [{matchAttribute: pcieRoot}]"), '"pcieRoot": must include a domain', "Write resource.kubernetes.io/pcieRoot."),
        (claim(exact(), ", constraints: [{requests: [s], matchAttribute: a/b}]"), "the claim has no request 's'", "Name one of r."),
        (workload("Deployment", "replicas: 3,", C), "3 pods share the one claim c", "Name a ResourceClaimTemplate (resourceClaimTemplateName), so that each pod gets a claim of its own."),
    ],
)  # fmt: skip
def test_messages(text: str, message: str, fix: str) -> None:
    item = next(item for item in found(text, A100, NICS, inventory=True) if item.message.startswith(message))
    assert item.fix == fix


def test_broken_objects_stop_nobody() -> None:
    broken = [None, 3, "x", [1], {}, {"kind": 3}, {"kind": "Pod", "apiVersion": "v1", "metadata": [], "spec": 4}]
    shapes: list[Any] = [None, 3, "x", [], [3], {}, {"a": 1}]
    for kind, version in [
        ("DeviceClass", "resource.k8s.io/v1"),
        ("ResourceClaim", "resource.k8s.io/v1"),
        ("ResourceSlice", "resource.k8s.io/v1"),
        ("Pod", "v1"),
        ("Deployment", "apps/v1"),
        ("AllocationPolicy", "dra-operator.dev/v1alpha1"),
    ]:
        for field in ("selectors", "devices", "pool", "resourceClaims", "containers", "template", "quota"):
            broken += [
                {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, "spec": {field: shape}}
                for shape in shapes
            ]
        broken += [{"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, "spec": shape} for shape in shapes]
        broken += [
            {
                "kind": kind,
                "apiVersion": version,
                "metadata": {"name": "x"},
                "spec": {"devices": {"requests": shape, "constraints": shape, "config": shape}},
            }
            for shape in shapes
        ]
    assert check(broken, inventory=True)
