"""The admission policies of `manifests/`, evaluated natively, and the Priority admission plugin.

Two mutations (label and protect new claims, gate new pods) and five validations (who allocates a managed claim, who owns which
claim, who sets the extended-resource annotation, who writes reports, which device classes the operator writes). Kept equal to the
real policies by the suite of API semantics.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dra_operator.api.claims import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from dra_operator.cluster.memory import identity
from dra_operator.cluster.memory.identity import User
from dra_operator.cluster.memory.refusals import forbidden
from dra_operator.cluster.memory.values import Object, dig
from dra_operator.cluster.rest import (
    CLAIM_REPORTS,
    DEVICE_CLASS_REPORTS,
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)

MANAGED_LABEL = "dra-operator.dev/managed"
GATE = "dra-operator.dev/allocation"


@dataclass(frozen=True, slots=True)
class Policies:
    """What an installation can choose. `installed` False: a cluster without the operator's manifests."""

    installed: bool = True
    operator: str = identity.OPERATOR.name
    exempt_namespaces: frozenset[str] = frozenset({"kube-system"})
    schedulers: frozenset[str] = frozenset({"default-scheduler"})
    extended_resource_writers: frozenset[str] = field(default_factory=lambda: frozenset({identity.SCHEDULER.name}))

    def mutate(self, resource: Resource, item: Object, namespace: Object | None, user: User) -> None:
        """Change a new object in place, as the MutatingAdmissionPolicies do."""
        if not self.installed or self._exempt(namespace):
            return
        if resource is RESOURCE_CLAIMS and not _annotated(item) and not _for_pod_group(item, user):
            meta = item["metadata"]
            meta.setdefault("labels", {})[MANAGED_LABEL] = "true"
            finalizers = meta.setdefault("finalizers", [])
            if DELETE_PROTECTION not in finalizers:
                finalizers.append(DELETE_PROTECTION)
        elif resource is PODS and self._gated(item):
            gates = item["spec"].setdefault("schedulingGates", [])
            if not any(gate.get("name") == GATE for gate in gates):
                gates.append({"name": GATE})

    def _exempt(self, namespace: Object | None) -> bool:
        if namespace is None:
            return True
        meta = namespace["metadata"]
        return meta["name"] in self.exempt_namespaces or (meta.get("labels") or {}).get(MANAGED_LABEL) == "false"

    def _gated(self, pod: Object) -> bool:
        spec = pod.get("spec") or {}
        scheduler = spec.get("schedulerName") or "default-scheduler"
        ours = scheduler in self.schedulers and not spec.get("nodeName") and not spec.get("schedulingGroup")
        return ours and bool(spec.get("resourceClaims"))

    def validate(self, attempt: Attempt) -> None:
        """Raises Refused (403), as the ValidatingAdmissionPolicies do."""
        if not self.installed:
            return
        for policy, objection in (
            ("dra-operator-guard", self._guard),
            ("dra-operator-ownership", self._ownership),
            ("dra-operator-extended-resources", self._extended_resources),
            ("dra-operator-reports", self._reports),
            ("dra-operator-classes", self._classes),
        ):
            why = objection(attempt)
            if why is not None:
                raise forbidden(
                    attempt.resource,
                    attempt.name,
                    f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}",
                )

    def _guard(self, attempt: Attempt) -> str | None:
        new, old = attempt.new, attempt.old
        if attempt.resource is not RESOURCE_CLAIMS or attempt.subresource != "status" or new is None or old is None:
            return None
        if (
            managed(old)
            and allocation(old) is None
            and allocation(new) is not None
            and attempt.user.name != self.operator
        ):
            return f"this claim is labelled {MANAGED_LABEL}=true, so only dra-operator allocates it"
        return None

    def _ownership(self, attempt: Attempt) -> str | None:
        new, old = attempt.new, attempt.old
        if attempt.resource is not RESOURCE_CLAIMS or old is None:
            return None
        if attempt.user.name == self.operator:
            if managed(old):
                return None
            return f"this claim is not labelled {MANAGED_LABEL}=true, so it belongs to kube-scheduler"
        if new is None or not managed(old):
            return None
        if not managed(new):
            return f"the label {MANAGED_LABEL}=true cannot be taken off a claim"
        if allocation(old) is not None and _protected(old) and not _protected(new):
            return f"the finalizer {DELETE_PROTECTION} cannot be taken off while the claim is allocated"
        return None

    def _extended_resources(self, attempt: Attempt) -> str | None:
        new, old = attempt.new, attempt.old
        if new is None or attempt.user.name in self.extended_resource_writers:
            return None
        if attempt.resource is RESOURCE_CLAIMS:
            annotated = _annotated(new) and (old is None or not _annotated(old))
        elif attempt.resource is RESOURCE_CLAIM_TEMPLATES and old is None:
            annotated = _annotated(new) or EXTENDED_RESOURCE_CLAIM in (
                dig(new, "spec", "metadata", "annotations") or {}
            )
        else:
            return None
        return f"the annotation {EXTENDED_RESOURCE_CLAIM} is for kube-scheduler alone" if annotated else None

    def _reports(self, attempt: Attempt) -> str | None:
        new, old = attempt.new, attempt.old
        if attempt.resource not in (CLAIM_REPORTS, DEVICE_CLASS_REPORTS) or new is None:
            return None
        if (old is None or new.get("status") != old.get("status")) and attempt.user.name != self.operator:
            return "reports are written by dra-operator alone"
        return None

    def _classes(self, attempt: Attempt) -> str | None:
        new, old = attempt.new, attempt.old
        if attempt.resource is not DEVICE_CLASSES or new is None or attempt.user.name != self.operator:
            return None
        if all(item is None or _of_a_network_class(item) for item in (new, old)):
            return None
        return "this DeviceClass does not belong to a NetworkDeviceClass of its name, so dra-operator must not write it"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write as admission sees it: `old` None = CREATE, `new` None = DELETE."""

    resource: Resource
    subresource: str
    new: Object | None
    old: Object | None
    user: User

    @property
    def name(self) -> str:
        meta = (self.new or self.old or {}).get("metadata") or {}
        return str(meta.get("name") or meta.get("generateName") or "")


def _for_pod_group(claim: Object, user: User) -> bool:
    """Generated for a PodGroup; only the controller that does it is believed, anyone else could name an owner that is none."""
    if user.name not in (identity.CLAIM_CONTROLLER.name, "system:kube-controller-manager"):
        return False
    return any(
        owner.get("kind") == "PodGroup" and str(owner.get("apiVersion")).startswith("scheduling.k8s.io/")
        for owner in claim["metadata"].get("ownerReferences") or ()
    )


def _of_a_network_class(item: Object) -> bool:
    meta = item["metadata"]
    return any(
        owner.get("kind") == "NetworkDeviceClass"
        and str(owner.get("apiVersion")).startswith("dra-operator.dev/")
        and owner.get("name") == meta["name"]
        for owner in meta.get("ownerReferences") or ()
    )


def managed(claim: Object) -> bool:
    return (claim["metadata"].get("labels") or {}).get(MANAGED_LABEL) == "true"


def allocation(claim: Object) -> Object | None:
    found: Object | None = dig(claim, "status", "allocation")
    return found


def extended(claim: Object) -> bool:
    """A claim that kube-scheduler made for extended resources of a pod."""
    return (claim["metadata"].get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"


def _annotated(claim: Object) -> bool:
    return EXTENDED_RESOURCE_CLAIM in (claim["metadata"].get("annotations") or {})


def _protected(claim: Object) -> bool:
    return DELETE_PROTECTION in (claim["metadata"].get("finalizers") or ())


#: Priority classes that every API server makes itself.
SYSTEM_PRIORITIES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))


def set_priority(pod: Object, classes: dict[str, Object]) -> None:
    """The Priority admission plugin: `priority` and `preemptionPolicy` from the pod's class or the global default.

    Raises Refused (403) for a class that does not exist, or a priority that contradicts it.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        chosen = classes.get(name)
        if chosen is None:
            raise forbidden(PODS, pod["metadata"].get("name") or "", f"no PriorityClass with name {name} was found")
    else:
        chosen = max(
            (entry for entry in classes.values() if entry.get("globalDefault")),
            key=lambda entry: -int(entry.get("value") or 0),
            default=None,
        )
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    priority = int((chosen or {}).get("value") or 0)
    if spec.get("priority") not in (None, priority):
        raise forbidden(
            PODS,
            pod["metadata"].get("name") or "",
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority")
