"""What sketches of workloads leave out and the API server insists on: selector, labels, restart policy, container and image.

Documents show workloads in a few lines. Only workloads that are converted anyway are completed, and each addition is an assumption
that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.plan import Notes
from dra_operator.convert.podspecs import owner_name, pod_specs
from dra_operator.convert.values import Object, dig, replaced, with_field

#: Does nothing, for ever.
PLACEHOLDER = "pause"
_SELECTING = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})


def complete(value: Object, notes: Notes) -> Object:
    """The workload with what it lacks."""
    value = _selector(value, notes)
    for path, spec in list(pod_specs(value)):
        value = _spec(value, spec, path, notes)
    return value


def _selector(value: Object, notes: Notes) -> Object:
    if value.get("kind") not in _SELECTING or dig(value, "spec", "selector") is not None:
        return value
    labels = dig(value, "spec", "template", "metadata", "labels")
    if not isinstance(labels, Mapping) or not labels:
        labels = {"app": owner_name(value)}
        metadata = {**(dig(value, "spec", "template", "metadata") or {}), "labels": labels}
        template = {
            "metadata": metadata,
            **{name: item for name, item in value["spec"]["template"].items() if name != "metadata"},
        }
        value = replaced(value, ("spec", "template"), template)
    shown = ", ".join(f"{name}={item}" for name, item in labels.items())
    notes.assume(("spec",), f"pods are selected by their labels ({shown}), as no selector is given")
    return _with(value, ("spec",), with_field(value["spec"], "selector", {"matchLabels": dict(labels)}, "template"))


def _spec(value: Object, spec: Object, path: FieldPath, notes: Notes) -> Object:
    if value.get("kind") in ("Job", "CronJob") and not spec.get("restartPolicy"):
        notes.assume(path, "restartPolicy is Never, as none is given and jobs need one")
        spec = {"restartPolicy": "Never", **spec}
        value = replaced(value, path, spec)
    containers = spec.get("containers")
    if not containers:
        claims = [{"name": dig(claim, "name")} for claim in spec.get("resourceClaims") or ()]
        resources = {"resources": {"claims": claims}} if claims else {}
        notes.assume(
            path, f"a container `main` that waits ({PLACEHOLDER}) stands in, as none is given: put yours there"
        )
        return _with(value, (*path, "containers"), [{"name": "main", "image": PLACEHOLDER, **resources}])
    for index, container in enumerate(containers):
        if isinstance(container, Mapping) and not container.get("image"):
            where = (*path, "containers", index)
            name = container.get("name")
            notes.assume(
                where, f"{PLACEHOLDER} stands in for the image of container {name}, as none is given: put yours there"
            )
            value = replaced(value, where, _after(container, "name", "image", PLACEHOLDER))
    return value


def _with(value: Object, path: FieldPath, new: Any) -> Object:
    result: Object = replaced(value, path, new)
    return result


def _after(value: Object, mark: str, name: str, item: Any) -> dict[str, Any]:
    result: dict[str, Any] = {} if mark in value else {name: item}
    for key, old in value.items():
        result[key] = old
        if key == mark:
            result[name] = item
    return result
