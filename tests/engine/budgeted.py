"""Claims of two namespaces on one node, for tests of quotas and reservations."""

from __future__ import annotations

from typing import Any

from tests.engine.stage import (
    Object,
    Stage,
    claim,
    device_class,
    gpus,
    namespace,
    node,
    pod,
)

NEVER = {"mode": "Never"}
CRITICAL = {"claimSelector": {"matchLabels": {"tier": "critical"}}}


def cluster(*objects: Object, gpu_count: int = 4) -> Stage:
    return Stage(node("n1"), gpus("n1", gpu_count), device_class(), namespace("a"), namespace("b"), *objects)


def use(stage: Stage, name: str, count: int = 1, *, of: str = "gpu", labels: Object | None = None, **spec: Any) -> None:
    """A pod with a claim of its own, both of this name, in the namespace that its first letter names."""
    where = name[0]
    item = claim(name, count, namespace=where, of=of)
    item["metadata"]["labels"] = labels or {}
    stage.apply(item, pod(name, name, namespace=where, **spec))


def quota(**entry: Any) -> Object:
    return {"deviceClassName": "gpu", **entry}


def report(stage: Stage, name: str) -> Object:
    return stage.report(name, name[0])


def summary(stage: Stage, name: str) -> str:
    found: str = report(stage, name)["explanation"]["summary"]
    return found


def attempts(stage: Stage, name: str) -> int:
    units = stage.engines[-1]._state.units
    return next(unit.attempts for key, unit in units.items() if key.subject.name == name)
