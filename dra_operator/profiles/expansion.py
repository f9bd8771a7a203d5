"""Node profiles: from a small file to the Node and ResourceSlices that a machine of that kind would have.

Pure: the same profile, name and index give the same objects, so an offline simulation can use them as well. What is
written here follows the drivers as shipped; the YAML files beside this module say which machine each is.

The format. `node` has labels and capacity; `classes` the DeviceClasses that such drivers install (name → CEL);
`pools` one entry a driver, each with `devices`, which are templates: one device an entry of `each` (its variables) or
`count` of them. `{variable}` in a text is replaced; a text that is only `{variable}` takes its type too. Known
everywhere: `{node}`, `{index}` (the how-many-eth node of the profile), and an entry of `groups: {rack: 4}` gives
`{rack}` = index // 4; in devices also `{i}` and `{uuid}`. Attribute types follow from YAML, versions are written
`{version: 8.0.0}`, null leaves one out. `shared: true` is allowMultipleAllocations. `partitions`: see `partitions`.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

FOLDER: Final = Path(__file__).parent
PROFILE_LABEL: Final = "devcluster.dra-operator.dev/profile"
_SLICE_DEVICES: Final = 128  # the API's limit; 64 where counters are consumed (partitions stay far below)
_ZONES: Final = ("zone-a", "zone-b", "zone-c")
_NAMESPACE: Final = uuid.UUID("6f0d3c0e-6f3b-4c53-9d3a-0a5d2f5f2b41")

Json = dict[str, Any]


class ProfileError(Exception):
    """There is no such profile, or a mix or a profile file says something impossible."""


def names() -> list[str]:
    """The profiles there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def describe(profile: str) -> str:
    """One line on what a node of this profile has. Raises `ProfileError`."""
    return str(_load(profile)["description"])


def expand(profile: str, node_name: str, index: int) -> list[Json]:
    """The Node (first, Ready) and its ResourceSlices (`resource.k8s.io/v1`), as one would create them.

    `index` counts the nodes of a profile from 0; it decides the zone and the groups (rack, NVLink domain). The owner
    reference of the slices is left to whoever knows the Node's UID. Raises `ProfileError`.
    """
    document = _load(profile)
    variables: dict[str, Any] = {"node": node_name, "index": index}
    variables |= {group: index // size for group, size in document.get("groups", {}).items()}
    slices = [made for pool in document["pools"] for made in _pool(pool, node_name, variables)]
    return [_node(profile, document["node"], node_name, variables), *slices]


def device_classes(profile: str) -> list[Json]:
    """The DeviceClasses that the drivers of this profile install. Raises `ProfileError`."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        for name, expression in _load(profile).get("classes", {}).items()
    ]


def parse_mix(mix: str, count: int | None = None) -> list[tuple[str, int]]:
    """Read `p4d` or `p4d:2,l4:3` into profiles and how many of each.

    One profile may lack its number: it gets what is left of `count`, or 1. Raises `ProfileError`.
    """
    entries = [entry.strip().partition(":") for entry in mix.split(",")]
    for profile, _, number in entries:
        _load(profile)
        if number and not re.fullmatch(r"[1-9][0-9]{0,4}", number):
            raise ProfileError(f"{mix!r}: {number!r} is no number of nodes for {profile} (1 to 99999)")
    given = sum(int(number) for _, _, number in entries if number)
    open_ended = [profile for profile, _, number in entries if not number]
    if len(open_ended) > 1:
        raise ProfileError(f"{mix!r}: say how many of each, as in {open_ended[0]}:2,{open_ended[1]}:3")
    rest = 1 if count is None else count - given
    if open_ended and rest < 1:
        raise ProfileError(f"{mix!r}: no nodes are left for {open_ended[0]} out of {count}")
    if not open_ended and count not in (None, given):
        raise ProfileError(f"{mix!r} makes {given} nodes and {count} are asked for: leave one number out")
    return [(profile, int(number) if number else rest) for profile, _, number in entries]


def _load(profile: str) -> Json:
    if profile not in names():
        raise ProfileError(f"there is no profile {profile!r}: have {', '.join(names())}")
    return _read(FOLDER / f"{profile}.yaml")


@cache
def _read(path: Path) -> Json:
    try:
        document = YAML(typ="safe").load(path)
    except YAMLError as error:
        raise ProfileError(f"{path}: {error}") from error
    for key in ("description", "node", "pools"):
        if not isinstance(document, dict) or key not in document:
            raise ProfileError(f"{path}: `{key}` is missing")
    return dict(document)


def _node(profile: str, template: Json, name: str, variables: Mapping[str, Any]) -> Json:
    index: int = variables["index"]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": _ZONES[index % len(_ZONES)],
        PROFILE_LABEL: profile,
    } | _fill(template.get("labels", {}), variables)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": template["capacity"],
            "allocatable": template["capacity"],
            "conditions": [ready_condition()],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": labels["kubernetes.io/arch"],
                "operatingSystem": "linux",
                "kubeletVersion": "v1.37.2-simulated",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "simulated://1",
                "osImage": "simulated",
                "kernelVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def ready_condition() -> Json:
    """The condition that makes a node Ready."""
    return {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated kubelet is ready"}


def _pool(template: Json, node: str, variables: Mapping[str, Any]) -> list[Json]:
    driver: str = template["driver"]
    plain: list[Json] = []
    counters: list[Json] = []
    groups: list[list[Json]] = []  # partitioned devices: those of one counter set make one slice
    for device_template in template["devices"]:
        for device, values in _devices(device_template, driver, variables):
            if "partitions" in device_template:
                counter_set, family = partition(device, device_template["partitions"], values)
                counters.append(counter_set)
                groups.append(family)
            else:
                plain.append(device)
    chunks = [plain[start : start + _SLICE_DEVICES] for start in range(0, len(plain), _SLICE_DEVICES)]
    contents: list[Json] = [{"sharedCounters": counters}] if counters else []
    contents += [{"devices": devices} for devices in (*chunks, *groups)]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{number}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": len(contents)},
                **content,
            },
        }
        for number, content in enumerate(contents)
    ]


def _devices(template: Json, driver: str, variables: Mapping[str, Any]) -> Iterator[tuple[Json, dict[str, Any]]]:
    """Each device of a template, with the variables it was made from."""
    entries: list[Json] = template.get("each") or [{}] * template.get("count", 1)
    for i, entry in enumerate(entries):
        values: dict[str, Any] = {**variables, "i": i, **entry}
        name = _fill(template["name"], values)
        values["uuid"] = str(uuid.uuid5(_NAMESPACE, f"{values['node']}/{driver}/{name}"))
        device: Json = {"name": name, "attributes": _attributes(template["attributes"], values)}
        if "capacity" in template:
            device["capacity"] = _capacity(template["capacity"], values)
        if template.get("shared"):
            device["allowMultipleAllocations"] = True
        yield device, values


def partition(whole: Json, template: Json, variables: Mapping[str, Any]) -> tuple[Json, list[Json]]:
    """The counter set of a partitionable device, and the device itself with every partition it can be cut into.

    `total` are the counters beside one `memory-slice-N` for each of `slots`; a layout takes its `capacity` of them,
    and the `size` slots from each of `starts` on. A name like `copyEngines` is a capacity, `copy-engines` a counter.
    """
    counter_set = _fill(template["counterSet"], variables)
    slots = range(template["slots"])
    devices = [{**whole, "consumesCounters": [_consumed(counter_set, template["total"], slots)]}]
    for layout in template["layouts"]:
        for start in layout["starts"]:
            values = {**variables, "profile": layout["profile"], "start": start}
            values["layout"] = layout["profile"].replace(".", "")
            taken = range(start, start + layout["size"])
            devices.append(
                {
                    "name": _fill(template["name"], values),
                    "attributes": {
                        name: value
                        for name, value in (whole["attributes"] | _attributes(template["attributes"], values)).items()
                        if template["attributes"].get(name, "") is not None
                    },
                    "capacity": _capacity(layout["capacity"], values),
                    "consumesCounters": [_consumed(counter_set, layout["capacity"], taken)],
                }
            )
    total = _consumed(counter_set, template["total"], slots)
    return {"name": counter_set, "counters": total["counters"]}, devices


def _consumed(counter_set: str, capacity: Json, slots: range) -> Json:
    counters = {re.sub(r"[A-Z]", lambda m: f"-{m[0].lower()}", name): value for name, value in capacity.items()}
    counters |= {f"memory-slice-{slot}": 1 for slot in slots}
    return {"counterSet": counter_set, "counters": {name: {"value": str(value)} for name, value in counters.items()}}


def _attributes(template: Json, variables: Mapping[str, Any]) -> Json:
    return {name: _attribute(value) for name, value in _fill(template, variables).items() if value is not None}


def _attribute(value: Any) -> Json:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case {"version": version}:
            return {"version": str(version)}
        case str():
            return {"string": value}
    raise ProfileError(f"{value!r} is no attribute value: int, bool, text or {{version: …}}")


def _capacity(template: Json, variables: Mapping[str, Any]) -> Json:
    return {name: {"value": str(value)} for name, value in _fill(template, variables).items()}


def _fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """Replace the variables in every text of a YAML value."""
    match value:
        case dict():
            return {key: _fill(inner, variables) for key, inner in value.items()}
        case list():
            return [_fill(inner, variables) for inner in value]
        case str() if only := re.fullmatch(r"\{(\w+)\}", value):
            return _variable(only[1], variables)
        case str():
            return re.sub(r"\{(\w+)\}", lambda found: str(_variable(found[1], variables)), value)
    return value


def _variable(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        raise ProfileError(f"a profile uses {{{name}}}, which is not one of {', '.join(variables)}")
    return variables[name]
