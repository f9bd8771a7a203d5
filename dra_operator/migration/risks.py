"""What can go wrong in this cluster, each with the object concerned and what to do. Nothing general: only what the survey shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dra_operator.migration.survey import MODE_LABEL, SHARED, Survey

Level = Literal["blocks", "warns"]
MANAGED_LABEL = "dra-operator.dev/managed"


@dataclass(frozen=True, slots=True)
class Risk:
    """`phase`: the one that should not begin (or, `warns`, not without care) before it is dealt with."""

    level: Level
    phase: int
    code: str
    about: str
    message: str
    repair: str


def risks(found: Survey) -> list[Risk]:
    """Those that block first, by phase."""
    every = [
        *_double(found),
        *_classes(found),
        *_nodes(found),
        *_workloads(found),
        *_capacity(found),
        *_namespaces(found),
    ]
    return sorted(every, key=lambda risk: (risk.phase, risk.level != "blocks", risk.code, risk.about))


def _double(found: Survey) -> Iterator[Risk]:
    """The one thing that must not be: one device handed out twice."""
    for node in found.nodes.values():
        if node.mode != "both":
            continue
        left = {name for name in node.published if found.resources[name].classes}
        open_ = sorted(name for name in node.published if node.offered.get(name) and name not in left)
        if node.allocated and any(node.used[name] for name in node.published):
            yield Risk(
                "blocks", 1, "InBothHands", f"node {node.name}",
                f"claims hold {node.allocated} devices here ({_some(node.claims)}) while pods use {_amounts(node.used)} of a plugin "
                f"({_some(node.pods)}): the same device may be in use twice",
                f"drain one of the two from the node; keep it for one of them ({MODE_LABEL}=plugin or dra)",
            )  # fmt: skip
        for name in open_:
            yield Risk(
                "blocks", 1, "OfferedTwice", f"node {node.name}",
                f"{node.offered[name]} {name} of a device plugin and {node.published[name]} devices in ResourceSlices are the same",
                "apply `migrate generate --phase 1`: the class says which plugin resource its devices are, and such nodes are left to "
                "the plugin",
            )  # fmt: skip


def _classes(found: Survey) -> Iterator[Risk]:
    for resource in found.resources.values():
        if resource.name.endswith(SHARED):
            continue
        named = {*resource.classes, *resource.served_by}
        if len(set(resource.served_by)) > 1:
            yield Risk(
                "warns", 2, "TwoClasses", f"resource {resource.name}",
                f"classes {', '.join(sorted(resource.served_by))} all have it as extendedResourceName: the newest is used",
                "leave it on one of them",
            )  # fmt: skip
        if not named and resource.suggested and resource.suggested not in found.classes:
            yield Risk(
                "blocks", 1, "NoClass", f"resource {resource.name}",
                f"there is no DeviceClass {resource.suggested}: the DRA driver is not installed",
                "install the driver",
            )  # fmt: skip
        if not named and not resource.suggested:
            yield Risk(
                "blocks", 1, "UnknownResource", f"resource {resource.name}",
                "nothing is known of a DRA driver for it",
                f"make a DeviceClass for its devices with the annotation dra-operator.dev/plugin-resource: {resource.name}",
            )  # fmt: skip


def _nodes(found: Survey) -> Iterator[Risk]:
    for node in found.nodes.values():
        if node.mode == "plugin":
            yield Risk(
                "warns", 2, "NoSlices", f"node {node.name}",
                f"offers {_amounts(node.offered)} by a plugin, and no driver publishes devices of it",
                "deploy the DRA driver there before it changes over",
            )  # fmt: skip
        for name, count in node.published.items():
            if node.offered.get(name, count) != count:
                yield Risk(
                    "warns", 1, "CountsDiffer", f"node {node.name}",
                    f"the plugin offers {node.offered[name]} {name}, the driver publishes {count}",
                    "look for unhealthy, shared or partitioned devices before the node changes over",
                )  # fmt: skip


def _workloads(found: Survey) -> Iterator[Risk]:
    for workload in found.workloads:
        if any(name.endswith(SHARED) for name in workload.devices):
            yield Risk(
                "blocks", 3, "Shared", str(workload),
                f"asks for {_amounts(workload.devices)}: shares of a device",
                "name one claim in all pods that share, or use a class whose devices allow multiple allocations",
            )  # fmt: skip
        elif workload.obstacle:
            repair = "change it as said, or leave it on extendedResourceName"
            yield Risk("warns", 3, "NotConvertible", str(workload), workload.obstacle, repair)
        if not workload.controlled:
            what = "is made by no controller: it ends with its node's change-over"
            yield Risk("warns", 2, "BarePod", str(workload), what, "make it anew by hand")
        if workload.node_labels:
            yield Risk(
                "warns", 3, "NodeLabels", str(workload),
                f"chooses nodes by {', '.join(workload.node_labels)}, which the plugin's feature discovery sets",
                "convert it (the labels become selectors), or go on deploying gpu-feature-discovery",
            )  # fmt: skip


def _capacity(found: Survey) -> Iterator[Risk]:
    """Does what asks fit on the nodes that DRA serves alone?"""
    for resource in found.resources.values():
        ready = sum(
            node.published[resource.name] for node in found.nodes.values() if not node.offered.get(resource.name)
        )
        asked = resource.asked + sum(
            node.allocated for node in found.nodes.values() if resource.name in node.published and node.mode == "dra"
        )
        if resource.asked and asked > ready and not resource.name.endswith(SHARED):
            yield Risk(
                "warns", 2, "TooFewNodes", f"resource {resource.name}",
                f"{asked} devices are asked for, {ready} are on nodes that DRA serves alone",
                "change nodes over as namespaces follow; what finds no device waits",
            )  # fmt: skip


def _namespaces(found: Survey) -> Iterator[Risk]:
    for name in found.namespaces_asking():
        if found.namespaces.get(name, {}).get(MANAGED_LABEL) == "false":
            yield Risk(
                "warns", 2, "Exempt", f"namespace {name}",
                f"is labelled {MANAGED_LABEL}=false: its claims are kube-scheduler's, without queue, quota and explanation",
                "take the label off before its workloads follow",
            )  # fmt: skip


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _amounts(amounts: object) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(dict(amounts).items()) if count)  # type: ignore[call-overload]
