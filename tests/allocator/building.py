"""Allocation problems from short calls: one driver, one node `n`, one class `any` that selects everything.

Only the pieces; what is made of them is `nasty` and `differences`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.allocator.problems import INCUBATING

DRIVER = "d.example.com"
OWN = f'device.attributes["{DRIVER}"]'


def device(name: str, **fields: Any) -> dict[str, Any]:
    """Attributes are given as `attributes={name: value}`; a list is a list of integers."""
    kinds = {bool: "bool", int: "int", str: "string", list: "ints"}
    attributes = {key: {kinds[type(value)]: value} for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, "attributes": attributes, **fields}


def devices(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [device(f"x{number:02}", **fields) for number in range(count)]


def takes(counter_set: str, units: int, **fields: Any) -> dict[str, Any]:
    counters = {"units": {"value": str(units)}}
    return {"consumesCounters": [{"counterSet": counter_set, "counters": counters, **fields}]}


def counters(name: str, units: int) -> dict[str, Any]:
    return {"name": name, "counters": {"units": {"value": str(units)}}}


def pool(name: str, *slices: dict[str, Any], count: int | None = None) -> list[dict[str, Any]]:
    """`count`: how many slices the pool says it has."""
    identity = {"name": name, "generation": 1, "resourceSliceCount": len(slices) if count is None else count}
    return [
        {
            "metadata": {"name": f"{name}-{number}"},
            "spec": {"driver": DRIVER, "nodeName": "n", "pool": identity, **item},
        }
        for number, item in enumerate(slices)
    ]


def ask(name: str, count: int | None = 1, *selectors: str, **fields: Any) -> dict[str, Any]:
    """A request; `count` None asks for all."""
    return {"name": name, "exactly": wants(count, *selectors, **fields)}


def wants(count: int | None, *selectors: str, **fields: Any) -> dict[str, Any]:
    mode: dict[str, Any] = {"allocationMode": "All"}
    if count is not None:
        mode = {"allocationMode": "ExactCount", "count": count}
    chosen = {"selectors": [{"cel": {"expression": text}} for text in selectors]} if selectors else {}
    return {"deviceClassName": "any", **mode, **chosen, **fields}


def either(name: str, **alternatives: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "firstAvailable": [{"name": key, **value} for key, value in alternatives.items()]}


def match(attribute: str, *requests: str) -> dict[str, Any]:
    return {"matchAttribute": f"{DRIVER}/{attribute}", **({"requests": list(requests)} if requests else {})}


def distinct(attribute: str, *requests: str) -> dict[str, Any]:
    return {"distinctAttribute": f"{DRIVER}/{attribute}", **({"requests": list(requests)} if requests else {})}


def claim(*requests: dict[str, Any], constraints: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {})}


def problem(
    slices: list[dict[str, Any]],
    *claims: dict[str, Any],
    features: Sequence[str] = INCUBATING,
    allocated: dict[str, Any] | None = None,
    declared: Sequence[str] = (),
) -> dict[str, Any]:
    """`declared`: features the node declares."""
    status = {"declaredFeatures": list(declared)} if declared else {}
    return {
        "features": list(features),
        "nodes": [{"metadata": {"name": "n", "labels": {"zone": "x"}}, "status": status}],
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "allocated": {"devices": [], "shared": [], "capacity": {}, **(allocated or {})},
        "claims": [
            {
                "metadata": {"name": f"c{number}", "namespace": "ns", "uid": f"uid-{number}"},
                "spec": {"devices": wanted},
            }
            for number, wanted in enumerate(claims)
        ],
    }


def ranged(step: str, minimum: str = "1", value: str = "10") -> dict[str, Any]:
    policy = {"default": minimum, "validRange": {"min": minimum, "step": step}}
    return {"allowMultipleAllocations": True, "capacity": {"cores": {"value": value, "requestPolicy": policy}}}


def cores(amount: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"cores": amount}}}


def lists(**values: list[int] | int) -> list[dict[str, Any]]:
    """A pool of devices by their `g`."""
    return pool("p", {"devices": [device(name, attributes={"g": value}) for name, value in values.items()]})


#: A pool with a slice missing.
INCOMPLETE = pool("p", {"devices": devices(2)}, count=2)
