"""Claims on bridged devices as limits for the device plugin: what the policy `dra-operator-bridge` does to a pod, natively.

For the embedded cluster. On a real one the API server does it, by `manifests/bridge/admission.yaml`; the two are held against each other in
the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dra_operator.bridge.publishing import NODE_LABEL

Object = dict[str, Any]
#: On a ResourceClaimTemplate: the plugin's resource, with _ in place of the slash.
TEMPLATE_LABEL = NODE_LABEL


def add_limits(pod: Object, templates: Iterable[Object]) -> None:
    """Change a new pod in place. `templates`: those of its namespace."""
    for template in templates:
        label = (template["metadata"].get("labels") or {}).get(TEMPLATE_LABEL)
        if not label or "_" not in label:
            continue
        name = template["metadata"]["name"]
        entries = pod["spec"].get("resourceClaims") or ()
        claims = {entry["name"] for entry in entries if entry.get("resourceClaimTemplateName") == name}
        user = next((item for item in pod["spec"].get("containers") or () if _uses(item, claims)), None)
        if not claims or user is None:
            continue
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        amount = str(request["exactly"].get("count", 1) * len(claims))
        for field in ("limits", "requests"):
            user["resources"].setdefault(field, {})[label.replace("_", "/", 1)] = amount


def _uses(container: Object, claims: set[str]) -> bool:
    used = (container.get("resources") or {}).get("claims") or ()
    return any(item.get("name") in claims for item in used)
