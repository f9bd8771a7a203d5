"""Random lives under a careless administrator: things come back under their old name, rules and labels change under what waits, pools
are published by halves, gates of others come and go, requests are denied, the operator dies."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cluster.memory.faults import Faults
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.invariants import Violation
from dra_operator.cluster.rest import BY_KIND, STRATEGIC_PATCH, Request
from dra_operator.engine.decisions import Decision, RecordEvent
from tests.engine.stage import claim, gpus, namespace, pod, policy, priority_class, template, workload
from tests.simulation.story import Object, Story

GROUP = "dra-operator.dev/claim-group"
CONSTRAINTS = "dra-operator.dev/constraints"
RUN_FOR = "dra-operator.dev/run-for"
OTHER_GATE = "queue.example.com/wait"
#: Refusals of one kind of write on one object in one run; a namespace on its way out refuses new reports for a while.
MOST_REFUSALS = 15
#: What an API server fills in.
_FILLED_IN = ("uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences", "finalizers")


class Upheaval(Story):
    """Generations of pools count up from a thousand, so that each is newer than those of a plain Story."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.generation = 1000
        super().__init__(seed, faults)

    def play(self, happenings: int) -> Upheaval:
        deeds = [
            *(self.run_pod, self.run_pod, self.deploy, self.run_job, self.share, self.bare, self.foreign),
            *(self.remove, self.scale, self.cordon, self.taint, self.republish, self.publish_by_halves),
            *(self.recreate, self.recreate, self.recreate, self.withdraw, self.edit_policy, self.relabel_node),
            *(self.change_priority, self.urgent, self.urgent, self.guard, self.gang, self.edit_gang, self.relabel_pod),
            *(self.come_and_go, self.clear, self.end_pod, self.force_delete, self.gate, self.lift, self.picky),
            *(self.constrain, self.strip, self.die),
        ]
        for _ in range(happenings):
            deed = self.random.choice(deeds)
            self.log.append(f"{self.world.now:.3f} {deed.__name__}")
            deed()
            # Often so soon that the writes of before are under way.
            self.let_pass(0.0, 0.003, 0.006, 0.009, 0.012, 0.1, 1.0, 5.0, 10.0)
        return self

    def let_pass(self, *seconds: float) -> None:
        self.world.run_until(self.world.now + self.random.choice(seconds))

    # -- looking and sending

    def all_of(self, kind: str) -> list[Object]:
        """Those of a kind in the namespace default, or in none."""
        resource = BY_KIND[kind]
        return list(self.world.server.store.listed(resource, "default" if resource.namespaced else ""))

    def named(self, kind: str, name: str, place: str = "default") -> Object | None:
        resource = BY_KIND[kind]
        return self.world.server.store.get(resource, Key(place if resource.namespaced else "", name))

    def create(self, kind: str, item: Object) -> None:
        path = BY_KIND[kind].path(item["metadata"].get("namespace", ""))
        self.world.server.handle(Request("POST", path, item), ADMIN)

    def set_status(self, kind: str, item: Object, status: Object) -> None:
        path = BY_KIND[kind].path("default", item["metadata"]["name"], "status")
        self.world.server.handle(Request("PUT", path, {**deepcopy(item), "status": status}), ADMIN)

    # -- what comes back under its old name

    def recreate(self) -> None:
        kinds = ["Pod", "ResourceClaim", "DeviceClass", "AllocationPolicy", "Node", "ClaimGroup", "ResourceSlice"]
        kind = self.random.choice(kinds)
        found = [item for item in self.all_of(kind) if not item["metadata"].get("ownerReferences")]
        if not found:
            return
        old = self.random.choice(found)
        grace = {"gracePeriodSeconds": 0} if kind == "Pod" else None
        self._send("DELETE", kind, old["metadata"]["name"], grace)
        self.let_pass(0.0, 0.003, 0.01, 0.5)
        self.create(kind, _as_written(old))

    def withdraw(self) -> None:
        name = self._some("ClaimGroup")
        if name is not None:
            self._send("DELETE", "ClaimGroup", name)

    def come_and_go(self) -> None:
        """A namespace with all that is in it."""
        found = self.named("Namespace", "team")
        if found is None:
            self.player.apply(
                [
                    namespace("team"),
                    template(namespace="team"),
                    pod(self._name("pod"), templates=["gpu"], namespace="team"),
                    claim(self._name("bare"), namespace="team"),
                    workload("Deployment", self._name("web"), 2, namespace="team"),
                ]
            )
        elif not found["metadata"].get("deletionTimestamp"):
            self._send("DELETE", "Namespace", "team")

    # -- pools

    def republish(self) -> None:
        name = self._some("Node")
        if name is None:
            return
        if self.named("ResourceSlice", f"{name}-more") is not None:
            self._send("DELETE", "ResourceSlice", f"{name}-more")
        self.generation += 1
        self._publish(name, f"{name}-gpus", range(self.random.randint(1, 4)), slices=1)

    def publish_by_halves(self) -> None:
        """The next generation of a pool has two slices, which come one by one."""
        name = self._some("Node")
        if name is None:
            return
        self.generation += 1
        self._publish(name, f"{name}-gpus", range(2), slices=2)
        self.let_pass(0.0, 0.01, 2.0)
        self._publish(name, f"{name}-more", range(2, 4), slices=2)

    def _publish(self, node: str, name: str, numbers: range, *, slices: int) -> None:
        item = gpus(node, numbers.stop)
        item["metadata"]["name"] = name
        item["spec"]["pool"] = {"name": node, "generation": self.generation, "resourceSliceCount": slices}
        item["spec"]["devices"] = item["spec"]["devices"][numbers.start :]
        self.player.apply([item])

    # -- rules and labels

    def edit_policy(self) -> None:
        choice, chance = self.random.choice, self.random.random
        edited = policy(
            starvation={"after": choice(["0s", "3s", "20s"]), "hold": chance() < 0.5},
            preemption={"mode": choice(["Never", "WhenStarved", "Always"]), "maxVictims": choice([1, 4])},
            fairness=choice(["FIFO", "FairShare"]),
            preemptible=chance() < 0.8,
            placement={
                "strategy": choice(["FirstFit", "Pack", "Spread", "Fragmentation"]),
                "pin": choice(["Auto", "Never"]),
            },
            onClassChange=choice(["Keep", "Reallocate"]),
            provisioning={"mode": choice(["Hold", "Hold", "Ungate"]), "after": "5s"},
        )
        self.player.apply([edited])

    def relabel_node(self) -> None:
        self._patch("Node", {"metadata": {"labels": {"zone": self.random.choice(["a", "b", None])}}})

    def relabel_pod(self) -> None:
        group = self.random.choice([self._some("ClaimGroup"), None, None])
        self._patch("Pod", {"metadata": {"labels": {"app": self.random.choice(["a", "b"]), GROUP: group}}})

    def _patch(self, kind: str, body: Object) -> None:
        name = self._some(kind)
        if name is not None:
            self._send("PATCH", kind, name, body)

    def change_priority(self) -> None:
        if self.named("PriorityClass", "high") is not None:
            self._send("DELETE", "PriorityClass", "high")
        self.create("PriorityClass", priority_class("high", self.random.choice([100, 500, 1000])))

    def guard(self) -> None:
        name = self.random.choice(["a", "b"])
        spec = {"minAvailable": self.random.randint(0, 2), "selector": {"matchLabels": {"app": name}}}
        metadata = {"name": name, "namespace": "default"}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        self.player.apply([budget])

    # -- pods and claims

    def urgent(self) -> None:
        if self.named("PriorityClass", "high") is None:
            self.change_priority()
        if self.random.random() < 0.3:
            item = claim(self._name("urgent"))
            item["metadata"]["annotations"] = {"dra-operator.dev/priority-class": "high"}
        else:
            wanted = [self.random.choice(["gpu", "two"])]
            item = pod(self._name("urgent"), templates=wanted, priorityClassName="high")
            item["metadata"]["annotations"] = {RUN_FOR: f"{self.random.randint(5, 60)}s"}
        self.player.apply([item])

    def gang(self) -> None:
        name, count = self._name("gang"), self.random.randint(2, 3)
        spec = {"minMembers": self.random.randint(1, count), "timeout": "30s"}
        metadata = {"name": name, "namespace": "default"}
        group = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimGroup", "metadata": metadata, "spec": spec}
        job = workload("Job", name, count, templates=["gpu"])
        job["spec"]["template"]["metadata"] = {"labels": {GROUP: name}, "annotations": {RUN_FOR: "60s"}}
        member = claim(self._name("member"))
        member["metadata"]["labels"] = {GROUP: name}
        self.player.apply(
            [group, *self.random.choice([[job], [member, pod(name, templates=["gpu"], labels={GROUP: name})]])]
        )

    def edit_gang(self) -> None:
        spec = {"minMembers": self.random.randint(1, 4), "timeout": self.random.choice(["1s", "30s"])}
        self._patch("ClaimGroup", {"spec": spec})

    def picky(self) -> None:
        zone = self.random.choice(["a", "b"])
        self.player.apply([pod(self._name("picky"), templates=["gpu"], nodeSelector={"zone": zone})])

    def constrain(self) -> None:
        item = pod(self._name("tied"), templates=["gpu", "gpu"])
        which = self.random.choice(['[{"distinctAttribute": "gpu.example.com/index"}]', "broken"])
        item["metadata"]["annotations"] = {CONSTRAINTS: which}
        self.player.apply([item])

    def gate(self) -> None:
        item = pod(self._name("gated"), templates=["gpu"])
        item["spec"]["schedulingGates"] = [{"name": OTHER_GATE}]
        self.player.apply([item])

    def lift(self) -> None:
        """Whoever set the other gate takes it off."""
        body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": OTHER_GATE}]}}
        for item in self.all_of("Pod"):
            if {"name": OTHER_GATE} in (item["spec"].get("schedulingGates") or ()):
                path = BY_KIND["Pod"].path("default", item["metadata"]["name"])
                self.world.server.handle(Request("PATCH", path, body, STRATEGIC_PATCH), ADMIN)

    def clear(self) -> None:
        """Somebody takes the devices of a claim back that no pod on a node uses."""
        found = [item for item in self.all_of("ResourceClaim") if self._is_idle(item)]
        if found:
            self.set_status("ResourceClaim", self.random.choice(found), {})

    def _is_idle(self, item: Object) -> bool:
        status = item.get("status") or {}
        users = [self.named("Pod", consumer["name"]) for consumer in status.get("reservedFor") or ()]
        return bool(status.get("allocation")) and not any(user and user["spec"].get("nodeName") for user in users)

    def strip(self) -> None:
        """Somebody takes the finalizer off claims that have no devices."""
        for item in self.all_of("ResourceClaim"):
            if not (item.get("status") or {}).get("allocation") and self.random.random() < 0.5:
                self._send("PATCH", "ResourceClaim", item["metadata"]["name"], {"metadata": {"finalizers": None}})

    def end_pod(self) -> None:
        running = [item for item in self.all_of("Pod") if item["spec"].get("nodeName")]
        if running:
            item = self.random.choice(running)
            phase = self.random.choice(["Failed", "Succeeded"])
            self.set_status("Pod", item, {**(item.get("status") or {}), "phase": phase})

    def force_delete(self) -> None:
        name = self._some("Pod")
        if name is not None:
            self._send("DELETE", "Pod", name, {"gracePeriodSeconds": 0})

    def die(self) -> None:
        self.runner.kill()

    # -- the end

    def calm(self) -> Upheaval:
        super().calm()
        self.lift()
        return self

    def rest(self, seconds: float = 900.0) -> list[Violation]:
        found = [broken for broken in super().rest(seconds) if not self._waits_rightly(broken)]
        return found + self._hammering()

    def _collided(self) -> set[str]:
        """Claims, as namespace/name, of whose devices another allocator took one."""
        told = [each.decision for each in self.runner.executed if isinstance(each.decision, RecordEvent)]
        about = [event.regarding for event in told if event.reason == "DeviceCollision"]
        return {f"{each['namespace']}/{each['name']}" for each in about}

    def _hammering(self) -> list[Violation]:
        """What the API server refuses is not sent as fast as it can refuse it."""
        refused = Counter(
            _target(each.decision)
            for each in self.runner.executed
            if each.response is not None and each.response.status in (403, 404, 422)
        )
        return [
            Violation(self.world.now, "refusals are heeded", target, f"refused {count} times")
            for target, count in refused.items()
            if count > MOST_REFUSALS
        ]

    def _waits_rightly(self, found: Violation) -> bool:
        """The oracle knows no gangs (`gangs` judges them) and no constraints across claims. A pod whose devices were given up to
        another allocator just as kube-scheduler bound it waits for others on its node."""
        if found.rule == "a bound pod has its claims":
            return found.message.split()[1] in self._collided()
        place, _, name = found.object.removeprefix("pod ").partition("/")
        item = self.named("Pod", name, place) if found.rule == "nothing that fits waits for ever" else None
        metadata: dict[str, Any] = {} if item is None else item["metadata"]
        return GROUP in (metadata.get("labels") or {}) or CONSTRAINTS in (metadata.get("annotations") or {})


def _target(decision: Decision) -> str:
    """The request, without what differs from one try to the next. Each Event is a request of its own, and none is tried again."""
    if isinstance(decision, RecordEvent):
        return f"RecordEvent {decision.reason} {decision.regarding.get('uid')} {decision.note}"
    about = getattr(decision, "claim", None) or getattr(decision, "pod", None) or getattr(decision, "key", None)
    return f"{type(decision).__name__} {about or ''}"


def _as_written(item: Object) -> Object:
    """The object as somebody would apply it again; nodes bring their status along."""
    again = deepcopy(item)
    for name in _FILLED_IN:
        again["metadata"].pop(name, None)
    labels = again["metadata"].get("labels") or {}
    again["metadata"]["labels"] = {key: value for key, value in labels.items() if key != "dra-operator.dev/managed"}
    annotations = again["metadata"].get("annotations") or {}
    again["metadata"]["annotations"] = {key: text for key, text in annotations.items() if key in (RUN_FOR, CONSTRAINTS)}
    if item["kind"] == "Pod":
        for name in ("nodeName", "schedulingGates", "affinity"):
            again["spec"].pop(name, None)
    if item["kind"] != "Node":
        again.pop("status", None)
    return again
