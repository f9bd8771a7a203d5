"""Plays scenario files on a real control plane, each in namespaces, on nodes and with classes of its own, many at a time.

The names of a story get a prefix that no other story has; what is read back loses it, so that a file says the same on every cluster.
What must be so at a time may come a little later here: watches, schedulers and kubelets have their own pace.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from devcluster import ApiError, ControlPlane, eventually
from devcluster.nodes import schedulable
from devcluster.pytest_plugin import empty_namespace
from devcluster.watching import Api
from dra_operator.cluster.rest import BY_KIND
from tests.scenarios.looking import seen
from tests.scenarios.story import Check, Step, Story

Object = dict[str, Any]

#: Seconds after its time within which a check must come true: reports of what nobody waits for are written within 30.
PATIENCE = 75.0
#: Selects the namespaces of one story.
LABEL = "scenarios.dra-operator.dev/story"
_EVERY = 0.4
_GATE = "dra-operator.dev/allocation"
_DRIVER = "gpu.example.com"
_NAMED = frozenset(
    {"nodeName", "deviceClassName", "priorityClassName", "kubernetes.io/hostname", "dra-operator.dev/priority-class"}
)
_FIRST = (
    "Namespace",
    "PriorityClass",
    "DeviceClass",
    "Node",
    "AllocationPolicy",
    "DeviceTaintRule",
    "ResourceSlice",
    "PodDisruptionBudget",
)


class Failure(AssertionError):
    """What a story expected and what there was."""


# -- names


def localised(item: Object, prefix: str) -> Object:
    """The object with every name that is shared by the whole cluster prefixed."""
    found: Object = _renamed(json.loads(json.dumps(item).replace(_DRIVER, prefix + _DRIVER)), prefix)
    metadata = found["metadata"]
    if BY_KIND[found["kind"]].namespaced:
        metadata["namespace"] = prefix + metadata.get("namespace", "default")
    else:
        metadata["name"] = prefix + metadata["name"]
    match found["kind"]:
        case "Namespace":
            metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: prefix.rstrip("-")}
        case "AllocationPolicy":
            selector = found["spec"].setdefault("namespaceSelector", {})
            selector["matchLabels"] = {**selector.get("matchLabels", {}), LABEL: prefix.rstrip("-")}
        case "ResourceSlice":
            found["spec"]["pool"]["name"] = prefix + found["spec"]["pool"]["name"]
        case "DeviceTaintRule":
            found["spec"]["deviceSelector"]["pool"] = prefix + found["spec"]["deviceSelector"]["pool"]
    return found


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, prefix) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        if key in _NAMED and isinstance(item, str):
            found[key] = prefix + item
        elif key == "deviceClassNames":
            found[key] = [prefix + name for name in item]
        else:
            found[key] = _renamed(item, prefix)
    return found


# -- looking


class Watcher:
    """One look after the other at everything, for all stories together, and a watch for evictions, which are soon over."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._found: dict[str, list[Object]] = {}
        self._evicted: dict[tuple[str, str], None] = {}
        self._looks = 0
        self._news = threading.Condition()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._look, self._follow)]

    def __enter__(self) -> Watcher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        kinds = ("Pod", "ResourceClaim", "ClaimReport", "AllocationPolicy")
        while not self._end.wait(_EVERY):
            with contextlib.suppress(ApiError, OSError):
                found = {kind: self._plane.client.get(BY_KIND[kind].path())["items"] for kind in kinds}
                with self._news:
                    self._found = found
                    self._looks += 1
                    self._news.notify_all()

    def _follow(self) -> None:
        asyncio.run(self._follow_pods())

    async def _follow_pods(self) -> None:
        async with Api.connect(self._plane.kubeconfig) as api:
            following = asyncio.create_task(api.follow(BY_KIND["Pod"].path(), self._note))
            await asyncio.to_thread(self._end.wait)
            following.cancel()

    def _note(self, pod: Object, deleted: bool) -> None:
        """The Eviction API leaves a condition on the pod that it deletes."""
        if any(item["type"] == "DisruptionTarget" for item in pod.get("status", {}).get("conditions", ())):
            self._evicted[pod["metadata"]["namespace"], pod["metadata"]["name"]] = None

    def after(self, looks: int) -> int:
        """Wait for a look later than `looks`, and tell its number."""
        with self._news:
            self._news.wait_for(lambda: self._looks > looks, timeout=60)
            return self._looks

    @property
    def looks(self) -> int:
        return self._looks

    def objects(self, kind: str, prefix: str) -> list[Object]:
        """What belongs to the story, without its prefix."""
        field = "namespace" if BY_KIND[kind].namespaced else "name"
        mine = [item for item in self._found[kind] if item["metadata"][field].startswith(prefix)]
        found: list[Object] = json.loads(json.dumps(mine).replace(prefix, ""))
        return found

    def evicted(self, prefix: str) -> list[str]:
        return sorted(name for namespace, name in tuple(self._evicted) if namespace.startswith(prefix))


@dataclass
class Sight:
    """The cluster as one story sees it."""

    watcher: Watcher
    prefix: str

    def objects(self, kind: str) -> list[Object]:
        return self.watcher.objects(kind, self.prefix)

    def evicted(self) -> list[str]:
        return self.watcher.evicted(self.prefix)

    def events(self, reason: str) -> int:
        raise Failure("Events are counted on the embedded cluster only: here they are limited in number")

    def tries(self, pod: str) -> int:
        raise Failure("attempts are counted on the embedded cluster only")


# -- playing


@dataclass
class Play:
    """One story on its way. `trouble` is what went wrong, empty if nothing did."""

    story: Story
    prefix: str
    plane: ControlPlane
    watcher: Watcher
    trouble: str = ""
    seconds: float = 0.0
    _made: dict[str, None] = field(default_factory=dict)
    _namespaces: dict[str, None] = field(default_factory=dict)

    def run(self) -> None:
        """Play it and clean up, whatever happens."""
        began = time.monotonic()
        try:
            self._act()
        except Exception as error:
            self.trouble = f"{self.story.name}: {error if isinstance(error, Failure) else repr(error)}"
        self.seconds = time.monotonic() - began
        try:
            self._clean()
        except Exception as error:
            self.trouble = self.trouble or f"{self.story.name}: cannot clean up: {error!r}"

    def _act(self) -> None:
        self._namespace("default", {})
        self._apply(self.story.given)
        # Each node is tainted until kube-controller-manager has seen that it is Ready, and they come in any order.
        nodes = {self.prefix + item["metadata"]["name"] for item in self.story.given if item["kind"] == "Node"}
        eventually(lambda: schedulable(self.plane.client, nodes), what="the nodes are Ready and untainted")
        policies = [item["metadata"]["name"] for item in self.story.given if item["kind"] == "AllocationPolicy"]
        eventually(lambda: all(map(self._judged, policies)), what="the operator has judged the policies")
        time.sleep(1.0)  # until the operator and the admission plugins have seen what is given
        start = time.monotonic()
        for what in self.story.moments:
            time.sleep(max(0.0, start + what.at - time.monotonic()))
            if isinstance(what, Step):
                self._do(what)
            else:
                self._check(what)
                # What comes next keeps its distance: it builds on what this check found, however long that took.
                start = max(start, time.monotonic() - what.at)

    def _judged(self, policy: str) -> bool:
        found = self.plane.client.get(BY_KIND["AllocationPolicy"].path("", self.prefix + policy))
        return bool((found.get("status") or {}).get("conditions"))

    def _check(self, check: Check) -> None:
        sight = Sight(self.watcher, self.prefix)
        expected = {name: sorted(value) if name == "evicted" else value for name, value in check.expected.items()}
        looks, end, found = self.watcher.looks, time.monotonic() + PATIENCE, {}
        while time.monotonic() < end:
            looks = self.watcher.after(looks)
            found = seen(sight, check)
            if found == expected:
                return
        wrong = {name: found[name] for name in expected if found[name] != expected[name]}
        wanted = {name: expected[name] for name in wrong}
        raise Failure(f"{self.story.told} (at {check.at:g} s)\n  expected {wanted}\n  found    {wrong}")

    def _do(self, step: Step) -> None:
        if step.restart:
            raise Failure("the operator is shared with other stories; restarts are for the embedded cluster")
        client = self.plane.client
        self._apply(step.objects)
        for kind, name in step.delete:
            client.delete(self._path(kind, name))
        for name, off in step.cordon:
            client.patch(self._path("Node", name), {"spec": {"unschedulable": off or None}})
        for name in step.finish:
            client.patch(self._path("Pod", name, "status"), {"status": {"phase": "Succeeded"}})
        for name in step.ungate:
            client.patch(self._path("Pod", name), {"spec": {"schedulingGates": [{"name": _GATE}]}})
        for name, replicas in step.scale:
            client.patch(self._path("Deployment", name), {"spec": {"replicas": replicas}})

    def _path(self, kind: str, name: str, sub: str = "") -> str:
        """Names are used once in a story, so a pod or claim is found in whichever namespace it is."""
        resource = BY_KIND[kind]
        if not resource.namespaced:
            return resource.path("", self.prefix + name, sub)
        found = (
            (item["metadata"] for item in Sight(self.watcher, self.prefix).objects(kind))
            if kind in ("Pod", "ResourceClaim")
            else iter(())
        )
        where = next((each["namespace"] for each in found if each["name"] == name), "default")
        return resource.path(self.prefix + where, name, sub)

    def _apply(self, objects: tuple[Object, ...]) -> None:
        """Create or replace, what others refer to first."""
        ranks = {kind: rank for rank, kind in enumerate(_FIRST)}
        for item in sorted(objects, key=lambda item: ranks.get(item["kind"], len(_FIRST))):
            if item["kind"] == "Namespace":
                self._namespace(item["metadata"]["name"], item["metadata"]["labels"])
            else:
                self._put(localised(item, self.prefix))

    def _namespace(self, name: str, labels: dict[str, str]) -> None:
        body = localised(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, self.prefix
        )
        client, made = self.plane.client, body["metadata"]["name"]
        client.post(BY_KIND["Namespace"].path(), body)
        self._namespaces[made] = None
        eventually(lambda: client.get(f"/api/v1/namespaces/{made}/serviceaccounts/default"))

    def _put(self, item: Object) -> None:
        resource, metadata, client = BY_KIND[item["kind"]], item["metadata"], self.plane.client
        where = metadata.get("namespace", "")
        path = resource.path(where, metadata["name"])

        def accepted() -> bool:
            # Again where it raises: admission has not seen a class yet, or somebody wrote in between.
            try:
                client.post(resource.path(where), item)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                if item["kind"] != "Node":  # a node's devices change, itself it stays as the kubelet has it
                    replacement = {**metadata, "resourceVersion": client.get(path)["metadata"]["resourceVersion"]}
                    client.put(path, {**item, "metadata": replacement})
            return True

        eventually(accepted, what=f"{item['kind']} {metadata['name']} is accepted")
        if not where:
            self._made[path] = None

    def _clean(self) -> None:
        for name in self._namespaces:
            empty_namespace(self.plane.client, name)
        for path in reversed(self._made):
            with contextlib.suppress(ApiError):
                self.plane.client.delete(path)


def play(plane: ControlPlane, stories: list[Story], at_once: int) -> Iterator[Play]:
    """Play them all, so many at a time; each is given when it is over."""
    with Watcher(plane) as watcher:
        plays = [Play(story, f"s{index:02}-", plane, watcher) for index, story in enumerate(stories)]
        turns = threading.Semaphore(at_once)

        def take_turn(each: Play) -> None:
            with turns:
                each.run()

        threads = [threading.Thread(target=take_turn, args=(each,)) for each in plays]
        for thread in threads:
            thread.start()
        for thread, each in zip(threads, plays, strict=True):
            thread.join()
            yield each
