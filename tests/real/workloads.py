"""Manifests for tests on the real control plane, and what to ask about them."""

from __future__ import annotations

from typing import Any

from devcluster import ControlPlane

RESOURCE = "/apis/resource.k8s.io/v1"
OURS = "/apis/dra-operator.dev/v1alpha1"


def template(name: str, device_class: str, count: int = 1) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


def pod_spec(template_name: str) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template_name}],
        "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
    }


def deployment(name: str, template_name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(template_name)},
        },
    }  # fmt: skip


def listed(plane: ControlPlane, namespace: str, what: str) -> list[dict[str, Any]]:
    """The pods, resourceclaims or claimreports of a namespace."""
    base = {"pods": "/api/v1", "resourceclaims": RESOURCE, "claimreports": OURS}[what]
    items: list[dict[str, Any]] = plane.client.get(f"{base}/namespaces/{namespace}/{what}")["items"]
    return items


def devices(claim: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(driver, pool, device) of a claim's allocation; empty where it has none."""
    allocation = claim.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", [])
    return [(result["driver"], result["pool"], result["device"]) for result in results]


def nodes_of(claim: dict[str, Any]) -> list[str]:
    """The nodes an allocation is confined to by name."""
    terms = claim["status"]["allocation"].get("nodeSelector", {}).get("nodeSelectorTerms", [])
    return [value for term in terms for field in term.get("matchFields", []) for value in field["values"]]
