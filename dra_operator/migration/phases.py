"""What to apply in each phase, and what takes it back: manifests made from the cluster's own objects.

Phase 1 keeps plugin and DRA apart on one cluster. Phase 2 lets unchanged pods (`nvidia.com/gpu: 2`) be served by DRA on nodes that have
changed over, and sends the namespaces that follow there. Phase 3 is the end: no policy, no taints, nothing asks the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from dra_operator.engine.names import PLUGIN_RESOURCE, PLUGIN_TAINT
from dra_operator.migration.survey import MODE_LABEL, SHARED, NodeUse, PluginResource, Survey

Object = dict[str, Any]
_POLICY = "dra-operator-migration"
_SEND = (
    "has(object.spec.nodeSelector) ? "
    f"[JSONPatch{{op: 'add', path: '/spec/nodeSelector/' + jsonpatch.escapeKey('{MODE_LABEL}'), value: 'dra'}}] : "
    f"[JSONPatch{{op: 'add', path: '/spec/nodeSelector', value: {{'{MODE_LABEL}': 'dra'}}}}]"
)
#: Of metadata, what a manifest keeps.
_KEPT = ("name", "labels", "annotations")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Step:
    """`objects` to apply, `delete` (kind/name) to delete, `commands` for what is not an object of ours to write, with the reason."""

    objects: tuple[Object, ...] = ()
    delete: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def forward(found: Survey, phase: int) -> Step:
    """What brings the cluster into the phase. Applying it again changes nothing."""
    classes = tuple(_classes(found, phase))
    if phase == 1:
        return Step((*classes, *_taints(found)), commands=tuple(_labels(found)))
    if phase == 2:
        gone = _settled_taints(found)
        return Step((*classes, *_taints(found), *_admission(found)), gone, tuple(_change_over(found)))
    gone = tuple(
        f"devicetaintrule/{name}" for node in _nodes_with_plugins(found, ever=True) for name in _taint_names(node)
    )
    policies = (f"mutatingadmissionpolicybinding/{_POLICY}", f"mutatingadmissionpolicy/{_POLICY}")
    return Step(classes, (*gone, *policies), (("remove the device plugin's DaemonSet", "nothing asks it any more"),))


def backward(found: Survey, phase: int) -> Step:
    """What takes the phase back, to the one before it."""
    before = tuple(_as_it_is(found, phase))
    if phase == 1:
        made = [resource for resource in _resources(found) if resource.suggested not in found.classes]
        classes = tuple(f"deviceclass/{resource.suggested}" for resource in made if not _names(resource))
        taints = tuple(
            f"devicetaintrule/{name}" for node in _nodes_with_plugins(found, ever=True) for name in _taint_names(node)
        )
        return Step(before, (*classes, *taints))
    if phase == 2:
        policies = (f"mutatingadmissionpolicybinding/{_POLICY}", f"mutatingadmissionpolicy/{_POLICY}")
        labels = tuple(
            (f"kubectl label namespace {name} {MODE_LABEL}-", "its pods go where they fit again")
            for name in sorted(found.namespaces)
            if found.namespaces[name].get(MODE_LABEL)
        )
        return Step(before, policies, labels)
    back = (("deploy the device plugin again on nodes labelled plugin", "they offer its resources again"),)
    return Step((*before, *_taints(found), *_admission(found)), commands=back)


def _resources(found: Survey) -> list[PluginResource]:
    return [item for name, item in sorted(found.resources.items()) if not name.endswith(SHARED)]


def _names(resource: PluginResource) -> list[str]:
    return sorted({*resource.classes, *resource.served_by})


def _class_of(found: Survey, resource: PluginResource) -> str:
    named = _names(resource)
    return named[0] if named else resource.suggested if resource.suggested in found.classes else ""


def _classes(found: Survey, phase: int) -> Iterator[Object]:
    """Classes as they are, with the annotation, and from phase 2 on with the extended resource name."""
    merged: dict[str, Object] = {}
    for resource in _resources(found):
        name = _class_of(found, resource)
        if not name or name in merged:
            continue  # without a driver there is nothing to serve it
        item = _clean(found.classes[name])
        annotations = item["metadata"].setdefault("annotations", {})
        if phase < 3:
            annotations[PLUGIN_RESOURCE] = resource.name
        else:
            annotations.pop(PLUGIN_RESOURCE, None)
            if not annotations:
                del item["metadata"]["annotations"]
        if phase >= 2 and resource.name == (item["spec"].get("extendedResourceName") or resource.name):
            item["spec"]["extendedResourceName"] = resource.name
        merged[name] = item
    yield from merged.values()


def _as_it_is(found: Survey, phase: int) -> Iterator[Object]:
    """The classes as the phase before had them."""
    for item in _classes(found, max(phase - 1, 1)):
        if phase <= 2:
            item["spec"].pop("extendedResourceName", None)
        if phase == 1:
            item["metadata"].get("annotations", {}).pop(PLUGIN_RESOURCE, None)
            if not item["metadata"].get("annotations"):
                item["metadata"].pop("annotations", None)
        yield item


def _clean(item: Object) -> Object:
    """The object as a manifest."""
    metadata = {name: deepcopy(item["metadata"][name]) for name in _KEPT if item["metadata"].get(name)}
    metadata.get("annotations", {}).pop(_APPLIED, None)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": deepcopy(item.get("spec") or {}),
    }


def _nodes_with_plugins(found: Survey, *, ever: bool = False) -> list[NodeUse]:
    """Nodes with devices in slices that a plugin offers, too; `ever`: or once did."""
    return [
        node
        for _, node in sorted(found.nodes.items())
        if node.pools and (ever or any(node.offered.get(name) or node.used[name] for name in node.published))
    ]


def _taint_names(node: NodeUse) -> list[str]:
    """One rule for each pool of the node, in order."""
    return [f"device-plugin-{node.name}"[:250] + (f"-{number}" if number else "") for number in range(len(node.pools))]


def _taints(found: Survey) -> Iterator[Object]:
    """Also for kube-scheduler, which allocates what the operator does not manage: nobody new gets devices of a plugin's node."""
    for node in _nodes_with_plugins(found):
        for name, ((driver, pool), resource) in zip(_taint_names(node), sorted(node.pools.items()), strict=True):
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": name},
                "spec": {
                    "deviceSelector": {"driver": driver, "pool": pool},
                    "taint": {"key": PLUGIN_TAINT, "value": resource.replace("/", "_"), "effect": "NoSchedule"},
                },
            }


def _settled_taints(found: Survey) -> tuple[str, ...]:
    """Rules of nodes that no plugin serves any more."""
    still = {node.name for node in _nodes_with_plugins(found)}
    return tuple(
        f"devicetaintrule/{name}"
        for node in _nodes_with_plugins(found, ever=True)
        if node.name not in still
        for name in _taint_names(node)
    )


def _labels(found: Survey) -> Iterator[tuple[str, str]]:
    for _, node in sorted(found.nodes.items()):
        if node.mode == "none":
            continue
        mode = "dra" if node.mode == "dra" else "plugin"
        if node.labels.get(MODE_LABEL) != mode:
            yield (
                f"kubectl label node {node.name} {MODE_LABEL}={mode} --overwrite",
                f"who hands out its devices: {node.mode} now",
            )


def _change_over(found: Survey) -> Iterator[tuple[str, str]]:
    """Node by node: the plugin goes, its resource is 0, the taint is taken off, DRA takes over."""
    for _, node in sorted(found.nodes.items()):
        if node.mode != "both":
            continue
        users = (
            f" (in use: {', '.join(f'{count} {name}' for name, count in sorted(node.used.items()))})"
            if node.used
            else ""
        )
        yield f"kubectl cordon {node.name}", f"change this node over{users}"
        if node.pods:
            yield (
                f"kubectl drain {node.name} --ignore-daemonsets --delete-emptydir-data",
                "what uses the plugin runs elsewhere",
            )
        yield (
            f"kubectl label node {node.name} {MODE_LABEL}=dra nvidia.com/gpu.deploy.device-plugin=false --overwrite",
            "the plugin's DaemonSet leaves it (with the GPU operator by this label; else by your own affinity)",
        )
        yield f"kubectl uncordon {node.name}", "once its allocatable shows none of the plugin's resource"
    yield (
        f"kubectl label namespace NAMESPACE {MODE_LABEL}=dra",
        "send the pods of one namespace to nodes that have changed over; the label's removal takes it back",
    )


def _admission(found: Survey) -> Iterator[Object]:
    """Pods of namespaces that follow and ask for a plugin's resource are sent to nodes that DRA serves."""
    names = sorted(item.name for item in _resources(found) if _class_of(found, item))
    if not names:
        return
    listed = ", ".join(f"'{name}'" for name in names)
    asks = (
        "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"c.resources.limits.exists(name, name in [{listed}]))"
    )
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {MODE_LABEL: "dra"}},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ],
            },
            "matchConditions": [{"name": "asks-a-plugin", "expression": asks}],
            "mutations": [
                # Not an ApplyConfiguration: a pod's node selector is atomic, and the pod may have one of its own.
                {"patchType": "JSONPatch", "jsonPatch": {"expression": _SEND}}
            ],
        },
    }
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _POLICY},
        "spec": {"policyName": _POLICY},
    }
