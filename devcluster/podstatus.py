"""What a kubelet writes into the status of pods and nodes, and reads of them. Pure.

The patches of pods carry the UID: a StatefulSet's next pod has the same name.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

from dra_operator.profiles import ready_condition

Json = dict[str, Any]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DEFAULT_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1000Gi", "pods": "110"}


def seconds(text: str) -> float:
    """Read a duration such as `85s`, `1m30s` or `500ms`. Raises `ValueError`."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write it as 85s, 1m30s or 500ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def title(pod: Json) -> str:
    """The pod as messages name it."""
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def path(pod: Json, subresource: str = "") -> str:
    """The pod's path in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}{subresource}"


def claims(pod: Json) -> list[str]:
    """Names of the claims that must be reserved before the pod may run, as far as they exist yet."""
    status = pod.get("status", {})
    generated = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses", ())}
    names = [
        entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims", ())
    ]
    names.append(status.get("extendedResourceClaimStatus", {}).get("resourceClaimName"))
    return [name for name in names if name]


def has_all_claims(pod: Json) -> bool:
    """Whether each claim made from a template has been made (or was declared unnecessary by a status without name)."""
    generated = {entry["name"] for entry in pod.get("status", {}).get("resourceClaimStatuses", ())}
    return all(
        "resourceClaimName" in entry or entry["name"] in generated for entry in pod["spec"].get("resourceClaims", ())
    )


def running(pod: Json, now: datetime) -> Json:
    """Strategic merge patch of the status: everything runs and is ready."""
    at = _text(now)
    state = {"running": {"startedAt": at}}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    address = _address(pod)
    status: Json = {
        "phase": "Running",
        "startTime": at,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": at}
            for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [_container(c, state, ready=True) for c in pod["spec"]["containers"]],
    }
    if initial := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            _container(c, state if c.get("restartPolicy") == "Always" else done, ready=True) for c in initial
        ]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}


def ended(pod: Json, now: datetime, *, succeeded: bool) -> Json:
    """Strategic merge patch of the status: every container has exited, by itself or by SIGTERM."""
    at = _text(now)
    started = pod.get("status", {}).get("startTime", at)
    exit_code, reason = (0, "Completed") if succeeded else (143, "Error")
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": at}}
    why = "PodCompleted" if succeeded else "PodFailed"
    status: Json = {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": [
            {"type": kind, "status": "False", "reason": why, "lastTransitionTime": at}
            for kind in ("Ready", "ContainersReady")
        ],
        # `running: null` because a merge would leave both states in.
        "containerStatuses": [
            _container(c, {"running": None, **state}, ready=False) for c in pod["spec"]["containers"]
        ],
    }
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}


def ready_node(node: Json) -> Json:
    """Merge patch of a node's status: Ready, and with room for pods where it says nothing about that."""
    status: Json = {"conditions": [ready_condition()]}
    if "capacity" not in node.get("status", {}):
        status |= {"capacity": _DEFAULT_CAPACITY, "allocatable": _DEFAULT_CAPACITY}
    elif "allocatable" not in node["status"]:
        status["allocatable"] = node["status"]["capacity"]
    return {"status": status}


def _container(container: Json, state: Json, *, ready: bool) -> Json:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"simulated://{image}",
        "containerID": f"simulated://{container['name']}",
        "restartCount": 0,
        "ready": ready,
        "started": ready,
        "state": state,
    }


def _address(pod: Json) -> str:
    """An address in 10.128.0.0/9 made from the UID: unique enough where nothing is ever sent to it."""
    bits = int(pod["metadata"]["uid"].replace("-", ""), 16)
    return f"10.{128 + (bits & 0x7F)}.{(bits >> 7) & 0xFF}.{1 + (bits >> 15) % 254}"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
