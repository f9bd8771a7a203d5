"""Look before starting whether this cluster can work with us, and say what to do where it cannot.

Checks once, at start-up. What changes later shows up as failed writes and in the logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import structlog

from dra_operator.cluster.kubernetes.client import Client, Unreachable
from dra_operator.cluster.rest import (
    ALLOCATION_POLICIES,
    CLAIM_GROUPS,
    CLAIM_REPORTS,
    DEVICE_CLASS_REPORTS,
    DEVICE_CLASSES,
    ENGINE_KINDS,
    NETWORK_DEVICE_CLASSES,
    OPERATOR_GROUP,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Request,
    Resource,
)

log = structlog.get_logger(__name__)

Mode = Literal["allocate", "observe"]
INSTALL = "kubectl apply --server-side -f manifests/install.yaml"
BRIDGE_INSTALL = "kubectl apply --server-side -k manifests/bridge"
REQUIRED_DRA = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES)
REQUIRED_CRDS = (ALLOCATION_POLICIES, CLAIM_REPORTS, CLAIM_GROUPS, DEVICE_CLASS_REPORTS)

#: Without the first two nothing is ours, without the third kube-scheduler allocates as well, without the others it is not
#: safe from what people write, nor they from it.
POLICIES = (
    ("mutatingadmissionpolicies", "dra-operator-claims"),
    ("mutatingadmissionpolicies", "dra-operator-pods"),
    ("validatingadmissionpolicies", "dra-operator-guard"),
    ("validatingadmissionpolicies", "dra-operator-ownership"),
    ("validatingadmissionpolicies", "dra-operator-extended-resources"),
    ("validatingadmissionpolicies", "dra-operator-reports"),
    ("validatingadmissionpolicies", "dra-operator-classes"),
)


class NotFit(Exception):
    """The operator cannot run on this cluster as it is; each of `problems` names what is missing and the repair."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Right:
    """What an RBAC rule grants; `namespace` "" means cluster-wide."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        plural, _, subresource = self.resource.partition("/")
        text = f"{self.verb} {plural}{'.' + self.group if self.group else ''}{'/' + subresource if subresource else ''}"
        return text + (f" in namespace {self.namespace}" if self.namespace else "")


def rights(
    mode: Mode, served: Collection[Resource], namespace: str, lease: str, *, bridge: bool = False
) -> list[Right]:
    """All that the operator does to the API once it runs, as RBAC sees it."""
    wanted = [Right(verb, item.group, item.plural) for item in served for verb in ("list", "watch")]
    for report in (CLAIM_REPORTS, DEVICE_CLASS_REPORTS):
        wanted += [Right(verb, report.group, report.plural) for verb in ("create", "update", "delete")]
    if lease:
        group = "coordination.k8s.io"
        wanted += [Right("create", group, "leases", namespace)]
        wanted += [Right(verb, group, "leases", namespace, lease) for verb in ("get", "update")]
    if mode == "allocate":
        wanted += [
            Right("patch", "", "pods"),
            Right("patch", "", "pods/status"),
            Right("create", "", "pods/eviction"),
            Right("patch", "resource.k8s.io", "resourceclaims"),
            Right("update", "resource.k8s.io", "resourceclaims/status"),
            Right("update", "resource.k8s.io", "resourceclaims/binding"),
            Right("create", "events.k8s.io", "events"),
        ]
        told = [item for item in (ALLOCATION_POLICIES, CLAIM_GROUPS, NETWORK_DEVICE_CLASSES) if item in served]
        wanted += [Right("update", item.group, f"{item.plural}/status") for item in told]
        if NETWORK_DEVICE_CLASSES in served:
            wanted += [Right(verb, DEVICE_CLASSES.group, DEVICE_CLASSES.plural) for verb in ("create", "update")]
    if bridge:
        wanted += [Right(verb, "resource.k8s.io", "resourceslices") for verb in ("create", "update", "delete")]
    return wanted


async def check(client: Client, mode: Mode, namespace: str, lease: str, *, bridge: bool = False) -> frozenset[Resource]:
    """The kinds of the engine that this cluster serves. `lease` "" where none is used. Raises NotFit, Unreachable."""
    response = await client.send(Request("GET", "/version"))
    if response.status == 401:
        raise NotFit([f"{client.connection.source}: the API server does not accept these credentials (401)"])
    version = str(response.body.get("gitVersion") or "unknown version")
    served = await _served(client)
    problems = _missing_kinds(served, version)
    if problems:
        raise NotFit(problems)
    for absent in [item for item in ENGINE_KINDS if item not in served]:
        log.warning("kind is not served here and counts as empty", kind=absent.kind, version=absent.api_version)
    denied = await _denied(client, rights(mode, served, namespace, lease, bridge=bridge))
    if denied:
        raise NotFit(
            [f"missing right: {right}" for right in denied]
            + [f"grant them with: {INSTALL} (or run as the service account that it creates, not as another user)"]
            + ([f"and, for --bridge, with: {BRIDGE_INSTALL}"] if bridge else [])
        )
    if mode == "allocate":
        await _warn_of_missing_policies(client)
    return served


async def _served(client: Client) -> frozenset[Resource]:
    """Which kinds of the engine discovery knows, in exactly our versions."""
    versions = sorted({(item.group, item.version) for item in ENGINE_KINDS})
    paths = [f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in versions]
    answers = await asyncio.gather(*(client.send(Request("GET", path)) for path in paths))
    found: set[Resource] = set()
    for (group, version), answer in zip(versions, answers, strict=True):
        if answer.status not in (200, 404):
            raise NotFit([f"discovery of {group or 'core'}/{version}: HTTP {answer.status}: {answer.message}"])
        names = {item.get("name") for item in answer.body.get("resources") or ()} if answer.ok else set()
        found |= {
            item for item in ENGINE_KINDS if (item.group, item.version) == (group, version) and item.plural in names
        }
    return frozenset(found)


def _missing_kinds(served: Collection[Resource], version: str) -> list[str]:
    problems = []
    if any(item not in served for item in REQUIRED_DRA):
        problems.append(
            f"resource.k8s.io/v1 is not served by this API server ({version}): Dynamic Resource Allocation v1 needs "
            "Kubernetes 1.34 or newer, with the feature gate DynamicResourceAllocation on (it is by default)"
        )
    missing = [f"{item.plural}.{OPERATOR_GROUP}" for item in REQUIRED_CRDS if item not in served]
    if missing:
        problems.append(f"these CRDs are missing: {', '.join(missing)}; install them with: {INSTALL}")
    return problems


async def _denied(client: Client, wanted: list[Right]) -> list[Right]:
    answers = await asyncio.gather(*(client.send(_review(right)) for right in wanted))
    denied = []
    for right, answer in zip(wanted, answers, strict=True):
        if answer.ok and not (answer.body.get("status") or {}).get("allowed"):
            denied.append(right)
    return denied


def _review(right: Right) -> Request:
    plural, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb, "group": right.group, "resource": plural, "subresource": subresource,
        "namespace": right.namespace, "name": right.name,
    }  # fmt: skip
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    return Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)


async def _warn_of_missing_policies(client: Client) -> None:
    """Loudly, but no reason to stop: claims that are managed already can still be allocated."""
    paths = [f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}" for plural, name in POLICIES]
    try:
        answers = await asyncio.gather(*(client.send(Request("GET", path)) for path in paths))
    except Unreachable as error:
        log.warning("cannot look for the admission policies", reason=str(error))
        return
    missing = [name for (_, name), answer in zip(POLICIES, answers, strict=True) if answer.status == 404]
    if missing:
        log.error(
            "ADMISSION POLICIES ARE MISSING: new claims and pods are not handed to this operator, kube-scheduler "
            "allocates as well, or others write what is the operator's",
            missing=missing,
            repair=INSTALL,
        )
    hidden = [name for (_, name), answer in zip(POLICIES, answers, strict=True) if answer.status == 403]
    if hidden:
        log.info("no right to look whether the admission policies are installed", policies=hidden)
