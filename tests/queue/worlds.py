"""Small inventories, and what claims ask for and have of them."""

from __future__ import annotations

from typing import Any

from dra_operator.api.claims import Allocation, ClaimSpec, DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.policy import AllocationPolicy
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.inventory import DeviceId, Inventory
from dra_operator.queue.budgets import Budget, BudgetKey, make_budget

GPU, NIC = "gpu.example.com", "nic.example.com"
Object = dict[str, Any]


def inventory(*slices: Object, classes: dict[str, str] | None = None, rules: tuple[Object, ...] = ()) -> Inventory:
    """With a node for every slice that names one, and classes by name and expression."""
    found = Inventory()
    named = {item["spec"].get("nodeName") for item in slices if item["spec"].get("nodeName")}
    for name in sorted({"n1", "n2", *named}):
        found.apply_node(Node.from_dict({"metadata": {"name": name, "labels": {"zone": name}}}))
    for item in slices:
        found.apply_slice(ResourceSlice.from_dict(item))
    everything = {"gpu": f"device.driver == '{GPU}'", "nic": f"device.driver == '{NIC}'", "any": "true"}
    for name, expression in {**everything, **(classes or {})}.items():
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        found.apply_class(DeviceClass.from_dict({"metadata": {"name": name}, "spec": spec}))
    for rule in rules:
        found.apply_taint_rule(DeviceTaintRule.from_dict(rule))
    found.refresh()
    return found


def published(node: str, *devices: Object | int, driver: str = GPU, slice_count: int = 1, **spec: Any) -> Object:
    """One slice; a number stands for so many plain devices d0, d1, …"""
    entries: list[Object] = []
    for item in devices:
        if isinstance(item, int):
            entries += [{"name": f"d{len(entries) + index}"} for index in range(item)]
        else:
            entries.append({"name": f"d{len(entries)}", **item})
    pool = {"name": node, "generation": 1, "resourceSliceCount": slice_count}
    where = {} if {"allNodes", "nodeSelector"} & spec.keys() else {"nodeName": node}
    body = {"driver": driver, "pool": pool, "devices": entries, **where, **spec}
    return {"metadata": {"name": f"{node}-{driver}"}, "spec": body}


def size(amount: str, *, shared: bool = False) -> Object:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    entry: Object = {"value": amount, **({"requestPolicy": policy} if shared else {})}
    return {"capacity": {"memory": entry}, **({"allowMultipleAllocations": True} if shared else {})}


def budget(world: Inventory, of: str = "gpu", number: int = 0, *, reserve: bool = False, **entry: Any) -> Budget:
    """An entry of policy p, compiled."""
    field = "reserve" if reserve else "quota"
    body = {"deviceClassName": of, **({} if "capacity" in entry else {"devices": 1}), **entry}
    policy = AllocationPolicy.from_dict({"metadata": {"name": "p"}, "spec": {field: [body]}})
    terms = policy.spec.reserve[0] if reserve else policy.spec.quota[0]
    made = make_budget(BudgetKey("p", "reserve" if reserve else "quota", number), terms, world)
    world.refresh()
    return made


def exactly(of: str = "gpu", count: int = 1, **detail: Any) -> Object:
    return {"exactly": {"deviceClassName": of, "count": count, **detail}}


def first_of(*options: Object) -> Object:
    return {"firstAvailable": [{"name": f"s{number}", **item["exactly"]} for number, item in enumerate(options)]}


def claim(*requests: Object) -> ResourceClaim:
    named = [{"name": f"r{number}", **request} for number, request in enumerate(requests)]
    return ResourceClaim.from_dict({"metadata": {"name": "c", "uid": "c"}, "spec": {"devices": {"requests": named}}})


def spec(*requests: Object) -> ClaimSpec:
    return claim(*requests).spec


def got(*results: str, **fields: Any) -> Allocation:
    """`r0:n1/d0` each; GPUs. `fields` go into every result."""
    entries = []
    for text in results:
        request, _, device = text.partition(":")
        pool, _, name = device.partition("/")
        entries.append({"request": request, "driver": GPU, "pool": pool, "device": name, **fields})
    return Allocation.from_dict({"devices": {"results": entries}})


def device(text: str, driver: str = GPU) -> DeviceId:
    pool, _, name = text.partition("/")
    return DeviceId(driver, pool, name)
