"""How far a migration has come, and whether a phase holds: checks on what the survey shows, each with what contradicts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dra_operator.migration.risks import risks
from dra_operator.migration.survey import MODE_LABEL, SHARED, Survey


@dataclass(frozen=True, slots=True)
class Check:
    """`against`: the objects that contradict it; none: it holds."""

    text: str
    against: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.against


@dataclass(frozen=True, slots=True)
class NamespaceProgress:
    """Devices that a namespace asks of the plugin, and claims it has instead. `follows`: it is labelled to use DRA nodes."""

    name: str
    asked: int
    claims: int
    follows: bool


def progress(found: Survey) -> list[NamespaceProgress]:
    names = sorted({*found.namespaces_asking(), *found.claims})
    return [
        NamespaceProgress(
            name,
            sum(sum(item.devices.values()) for item in found.workloads if item.namespace == name),
            found.claims[name],
            found.namespaces.get(name, {}).get(MODE_LABEL) == "dra",
        )
        for name in names
    ]


def checks(found: Survey, phase: int) -> list[Check]:
    """What must be so in the phase (and in those before, as far as it still matters)."""
    every = risks(found)
    blocking = [risk for risk in every if risk.code in ("InBothHands", "OfferedTwice")]
    both = [node for _, node in sorted(found.nodes.items()) if node.mode == "both"]
    apart = Check(
        "no device can be handed out by plugin and DRA alike",
        tuple(f"{risk.about}: {risk.message}" for risk in blocking),
    )
    holding = Check(
        "on nodes with a plugin no claim holds devices of it",
        tuple(f"node {node.name}: {', '.join(node.claims)}" for node in both if node.claims),
    )
    if phase == 1:
        return [apart, holding]
    resources = [item for name, item in sorted(found.resources.items()) if not name.endswith(SHARED)]
    served = Check(
        "every plugin resource has a DeviceClass with it as extendedResourceName",
        tuple(item.name for item in resources if not item.served_by),
    )
    if phase == 2:
        stray = [
            f"namespace {item.name} follows, and no node is labelled {MODE_LABEL}=dra"
            for item in progress(found)
            if item.follows and not any(node.labels.get(MODE_LABEL) == "dra" for node in found.nodes.values())
        ]
        return [apart, holding, served, Check("namespaces that follow have nodes to go to", tuple(stray))]
    offering = tuple(
        f"node {name}: {', '.join(f'{count} {resource}' for resource, count in sorted(node.offered.items()))}"
        for name, node in sorted(found.nodes.items())
        if any(node.offered.values())
    )
    using = tuple(f"node {name}: {', '.join(node.pods)}" for name, node in sorted(found.nodes.items()) if node.pods)
    unserved = {item.name for item in resources if not item.served_by}
    asking = tuple(
        f"{item} asks for {', '.join(sorted(item.devices))}"
        for item in found.workloads
        if any(name in unserved or name.endswith(SHARED) for name in item.devices)
    )
    return [
        Check("no node offers a device plugin's resource", offering),
        Check("no pod has devices from a plugin", using),
        Check("nothing asks for a resource that no DeviceClass serves", asking),
    ]


def to_dict(check: Check) -> dict[str, Any]:
    return {"check": check.text, "holds": check.holds, "against": list(check.against)}
