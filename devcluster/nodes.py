"""Put simulated nodes into a cluster, and take them out again."""

from collections.abc import Iterator, Sequence
from itertools import count as count_from
from typing import Any

from devcluster.client import ApiError, Client, in_parallel
from devcluster.waiting import eventually
from dra_operator import profiles

_NODES = "/api/v1/nodes"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def add(client: Client, mix: str, *, count: int | None = None, prefix: str | None = None) -> list[str]:
    """Create the nodes of a mix (see `profiles.parse_mix`), named `PREFIX-PROFILE-N`, with their ResourceSlices.

    N goes on from the nodes there are. Returns the names once the nodes are schedulable.
    Raises `ProfileError`, `ApiError`.
    """
    parts = profiles.parse_mix(mix, count)
    taken = {node["metadata"]["name"] for node in client.get(_NODES)["items"]}
    wanted: list[tuple[str, str, int]] = []
    for profile, number in parts:
        free = _free_names(profile, prefix, taken)
        for _ in range(number):
            index, name = next(free)
            taken.add(name)
            wanted.append((profile, name, index))
    in_parallel(lambda entry: _create(client, *entry), wanted)
    added = [name for _, name, _ in wanted]
    eventually(lambda: schedulable(client, set(added)), timeout=120, what="the new nodes are Ready and untainted")
    return added


def remove(client: Client, names: Sequence[str]) -> None:
    """Delete nodes and their slices; what is gone already is no error. Pods on them are left to whoever cares."""
    gone = set(names)
    slices = [
        made["metadata"]["name"]
        for made in client.get(f"{_SLICES}?resourceVersion=0")["items"]
        if made["spec"].get("nodeName") in gone
    ]
    paths = [f"{_NODES}/{name}" for name in names] + [f"{_SLICES}/{name}" for name in slices]

    def delete(path: str) -> None:
        try:
            client.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise

    in_parallel(delete, paths)


def add_classes(client: Client, mix: str) -> list[str]:
    """Create the DeviceClasses of the drivers in a mix, as their charts would; those that exist stay as they are."""
    found = {
        made["metadata"]["name"]: made
        for profile, _ in profiles.parse_mix(mix)
        for made in profiles.device_classes(profile)
    }
    for made in found.values():
        try:
            client.post(_CLASSES, made)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    return sorted(found)


def _free_names(profile: str, prefix: str | None, taken: set[str]) -> Iterator[tuple[int, str]]:
    stem = f"{prefix}-{profile}" if prefix else profile
    for index in count_from():
        name = f"{stem}-{index}"
        if name not in taken:
            yield index, name


def _create(client: Client, profile: str, name: str, index: int) -> None:
    node, *slices = profiles.expand(profile, name, index)
    uid = client.post(_NODES, node)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}
    for made in slices:
        client.post(_SLICES, made | {"metadata": made["metadata"] | {"ownerReferences": [owner]}})


def schedulable(client: Client, names: set[str]) -> bool:
    """Whether all of these nodes are Ready and untainted."""
    listed = client.get(f"{_NODES}?resourceVersion=0")["items"]
    return names <= {node["metadata"]["name"] for node in listed if _is_schedulable(node)}


def _is_schedulable(node: Any) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    return ready and not node["spec"].get("taints")
