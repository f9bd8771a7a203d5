"""What if: nodes more, nodes fewer, other policies. Changes the input of a simulation before it starts, and nothing else.

Nodes are added from a profile or as copies of one that is there; a node that is removed goes as with `kubectl delete node`, with
its slices, so that what runs on it is lost as it would be. Files and clusters are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count as count_from
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cli.failures import USAGE, CommandFailed
from dra_operator.cli.inputs import FILL_IT
from dra_operator.cli.manifests import Manifest, Manifests, Source, read_more
from dra_operator.cluster.memory.scenario import Step, Target
from dra_operator.cluster.rest import ALLOCATION_POLICIES, BY_KIND, NODES, RESOURCE_SLICES

_ADDED = Source("(--add-nodes)")
#: What a copy of an object must not take over.
_IDENTITY = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "generateName",
    "ownerReferences",
    "managedFields",
)
MOST_NODES = 10_000


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """`count` nodes of a profile, or like the node `like` (one of the two is set), named `NAME-N`."""

    profile: str
    like: str
    count: int
    name: str

    @classmethod
    def parse(cls, text: str) -> AddedNodes:
        """`profile=p4d,count=2` or `like=NODE,count=2`, with `name=PREFIX` if wanted. Raises CommandFailed."""
        values: dict[str, str] = {}
        for part in text.split(","):
            key, sign, value = part.strip().partition("=")
            if not sign or not value or key not in ("profile", "like", "count", "name") or key in values:
                raise _wrong(text, "write profile=NAME,count=N or like=NODE,count=N, and name=PREFIX if wanted")
            values[key] = value
        profile, like = values.get("profile", ""), values.get("like", "")
        if bool(profile) == bool(like):
            raise _wrong(text, "give one of profile=NAME and like=NODE")
        number = values.get("count", "1")
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_NODES):
            raise _wrong(text, f"count={number} is no number from 1 to {MOST_NODES}")
        if profile:
            from dra_operator.profiles import names

            if profile not in names():
                raise _wrong(text, f"there is no profile {profile!r}, but {', '.join(names())}")
        return cls(profile, like, int(number), values.get("name") or profile or like)


def _wrong(text: str, message: str) -> CommandFailed:
    return CommandFailed(f"--add-nodes {text}: {message}", USAGE)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`policy`: files or directories of AllocationPolicies."""

    remove_node: Sequence[str] = ()
    add_nodes: Sequence[AddedNodes] = ()
    policy: Sequence[str] = ()


def change(manifests: Manifests, what_if: WhatIf) -> Step | None:
    """Change the input; what remains to be done once it is loaded, before anything decides. Raises CommandFailed."""
    removal = _removal(manifests.objects, what_if.remove_node)
    for path in what_if.policy:
        _put_policies(path, manifests)
    for added in what_if.add_nodes:
        manifests.objects += _nodes(added, manifests.objects)
    return removal


def _put_policies(path: str, manifests: Manifests) -> None:
    """The policies of a file take the place of those of the same name."""
    before = len(manifests.problems)
    policies = read_more(path, manifests)
    for manifest in policies:
        if manifest.resource is not ALLOCATION_POLICIES:
            raise CommandFailed(
                f"{manifest.source}: {manifest.title}: --policy takes AllocationPolicies; give others with -f"
            )
    if not policies and len(manifests.problems) == before:
        raise CommandFailed(f"{path}: holds no AllocationPolicy for --policy; {FILL_IT}")
    names = {manifest.name for manifest in policies}
    manifests.objects[:] = [
        manifest
        for manifest in manifests.objects
        if manifest.resource is not ALLOCATION_POLICIES or manifest.name not in names
    ] + policies


def _removal(objects: Sequence[Manifest], names: Sequence[str]) -> Step | None:
    """Nodes and their slices, to be deleted. A node may be known by its slices alone."""
    if not names:
        return None
    slices: dict[str, list[str]] = {}
    known = {manifest.name for manifest in objects if manifest.resource is NODES}
    for manifest in objects:
        if manifest.resource is RESOURCE_SLICES and (node := _slice_node(manifest.object)):
            slices.setdefault(node, []).append(manifest.name)
    known |= slices.keys()
    targets: list[Target] = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise CommandFailed(f"--remove-node {name}: there is no such node{_near(name, known)}")
        targets.append(Target(NODES, Key("", name)))
        targets += [Target(RESOURCE_SLICES, Key("", item)) for item in slices.get(name, ())]
    return Step(0.0, delete=tuple(targets))


def _near(name: str, known: set[str]) -> str:
    near = get_close_matches(name, sorted(known), 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _slice_node(item: Mapping[str, Any]) -> str:
    return str((item.get("spec") or {}).get("nodeName") or "")


def _nodes(added: AddedNodes, objects: Sequence[Manifest]) -> list[Manifest]:
    taken = {manifest.name for manifest in objects if manifest.resource is NODES}
    taken |= {_slice_node(manifest.object) for manifest in objects if manifest.resource is RESOURCE_SLICES}
    free = ((index, f"{added.name}-{index}") for index in count_from() if f"{added.name}-{index}" not in taken)
    chosen = [next(free) for _ in range(added.count)]
    make = _of_profile(added.profile) if added.profile else _copies(added.like, objects)
    return [Manifest(_ADDED, BY_KIND[item["kind"]], item) for index, name in chosen for item in make(name, index)]


def _of_profile(profile: str) -> Any:
    from dra_operator.profiles import expand

    return lambda name, index: expand(profile, name, index)


def _copies(like: str, objects: Sequence[Manifest]) -> Any:
    """Copies of a node and its slices: name, hostname and pool are the copy's own."""
    nodes = {manifest.name: manifest.object for manifest in objects if manifest.resource is NODES}
    slices = [
        manifest.object
        for manifest in objects
        if manifest.resource is RESOURCE_SLICES and _slice_node(manifest.object) == like
    ]
    if like not in nodes and not slices:
        raise CommandFailed(f"--add-nodes like={like}: there is no such node{_near(like, set(nodes))}")
    originals = ([nodes[like]] if like in nodes else []) + slices

    def copy(name: str, index: int) -> Iterator[dict[str, Any]]:
        for number, original in enumerate(originals):
            item: dict[str, Any] = deepcopy(original)
            meta = item["metadata"]
            for field in _IDENTITY:
                meta.pop(field, None)
            if item["kind"] == "Node":
                meta["name"] = name
                labels = meta.setdefault("labels", {})
                labels["kubernetes.io/hostname"] = name
                # A cordon or a taint of the original says nothing about the copy.
                item["spec"] = {}
            else:
                meta["name"] = f"{name}-{number}"
                spec = item["spec"]
                spec["nodeName"] = name
                pool = str(spec["pool"]["name"])
                spec["pool"]["name"] = pool.replace(like, name) if like in pool else f"{name}-{pool}"
            yield item

    return copy
