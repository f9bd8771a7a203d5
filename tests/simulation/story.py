"""Random clusters with random lives, from a seed: what a person and the world do to them while the operator runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Self

from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.faults import Faults
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.invariants import Invariants, Violation
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.scenario import Player
from dra_operator.cluster.rest import BY_KIND, MERGE_PATCH, Request
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings
from tests.engine.stage import claim, device_class, gpus, node, pod, policy, template, workload
from tests.simulation.oracle import forgotten

Object = dict[str, Any]
EXEMPT = "exempt"


class Story:
    """One run. `play` goes through a number of random happenings; `rest` lets everything come to an end and judges it."""

    #: Seconds between two happenings.
    pauses = (0.0, 0.01, 0.1, 1.0, 5.0)

    def __init__(self, seed: int, faults: Faults | None = None, *, settings: EngineSettings | None = None) -> None:
        self.random = random.Random(seed)
        self.world = embedded_cluster(seed=seed)
        self.player = Player(self.world)
        observing = settings is not None and settings.mode == "observe"
        self.invariants = Invariants(self.world, observing=observing)
        self.world.after_step.append(self.invariants.check)
        self.log: list[str] = []
        self._number = 0
        self._build()
        self.runner = Runner(self.world, lambda: Engine(settings), faults=faults)
        self.runner.start()

    # -- the cluster

    def _build(self) -> None:
        labels = {"dra-operator.dev/managed": "false"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EXEMPT, "labels": labels}}
        terms = {"after": "20s", "hold": self.random.random() < 0.5}
        objects = [
            namespace,
            device_class(),
            template(),
            template("two", 2),
            template(namespace=EXEMPT),
            policy(starvation=terms),
        ]
        for index in range(self.random.randint(2, 4)):
            objects += [
                node(f"n{index}", cpu=str(self.random.choice([2, 4, 16]))),
                gpus(f"n{index}", self.random.randint(1, 4)),
            ]
        self.player.apply(objects)

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _send(self, method: str, kind: str, name: str, body: Any = None, namespace: str = "default") -> None:
        resource = BY_KIND[kind]
        path = resource.path(namespace if resource.namespaced else "", name)
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        self.world.server.handle(Request(method, path, body, content_type), ADMIN)

    def _some(self, kind: str, namespace: str = "default") -> str | None:
        resource = BY_KIND[kind]
        names = [
            item["metadata"]["name"]
            for item in self.world.server.store.listed(resource, namespace if resource.namespaced else "")
        ]
        return self.random.choice(names) if names else None

    # -- what happens

    def play(self, happenings: int) -> Self:
        deeds = self.deeds()
        for _ in range(happenings):
            deed = self.random.choice(deeds)
            self.log.append(f"{self.world.now:.3f} {deed.__name__}")
            deed()
            self.world.run_until(self.world.now + self.random.choice(self.pauses))
        return self

    def deeds(self) -> list[Callable[[], None]]:
        """What may happen, the likelier the oftener it stands here."""
        return [
            self.run_pod,
            self.run_pod,
            self.deploy,
            self.run_job,
            self.share,
            self.bare,
            self.foreign,
            self.remove,
            self.scale,
            self.cordon,
            self.taint,
            self.republish,
        ]

    def run_pod(self) -> None:
        name = self._name("pod")
        item = pod(
            name, templates=self.random.choice([["gpu"], ["two"], ["gpu", "gpu"]]), cpu=self.random.choice(["1", "3"])
        )
        if self.random.random() < 0.7:
            item["metadata"]["annotations"] = {"dra-operator.dev/run-for": f"{self.random.randint(1, 40)}s"}
        self.player.apply([item])

    def deploy(self) -> None:
        kind = self.random.choice(["Deployment", "StatefulSet", "DaemonSet"])
        self.player.apply([workload(kind, self._name(kind.lower()), self.random.randint(1, 3))])

    def run_job(self) -> None:
        item = workload("Job", self._name("job"), self.random.randint(1, 3))
        item["spec"]["template"]["metadata"]["annotations"] = {
            "dra-operator.dev/run-for": f"{self.random.randint(1, 20)}s"
        }
        self.player.apply([item])

    def share(self) -> None:
        name = self._name("shared")
        pods = [pod(self._name("user"), name) for _ in range(self.random.randint(1, 3))]
        self.player.apply([claim(name, self.random.randint(1, 2)), *pods])

    def bare(self) -> None:
        self.player.apply([claim(self._name("bare"))])

    def foreign(self) -> None:
        self.player.apply([pod(self._name("foreign"), templates=["gpu"], namespace=EXEMPT)])

    def remove(self) -> None:
        kind = self.random.choice(["Pod", "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "ResourceClaim"])
        namespace = self.random.choice(["default", "default", EXEMPT])
        name = self._some(kind, namespace)
        if name is not None:
            self._send("DELETE", kind, name, namespace=namespace)

    def scale(self) -> None:
        name = self._some("Deployment")
        if name is not None:
            self._send("PATCH", "Deployment", name, {"spec": {"replicas": self.random.randint(0, 4)}})

    def cordon(self) -> None:
        name = self._some("Node")
        if name is not None:
            self._send("PATCH", "Node", name, {"spec": {"unschedulable": self.random.random() < 0.5 or None}})

    def taint(self) -> None:
        name = "rule"
        if self._some("DeviceTaintRule"):
            self._send("DELETE", "DeviceTaintRule", name)
            return
        effect = self.random.choice(["NoSchedule", "NoExecute"])
        selector = {"pool": self._some("Node")}
        spec = {"deviceSelector": selector, "taint": {"key": "x", "effect": effect}}
        self.player.apply(
            [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}]
        )

    def republish(self) -> None:
        """A driver publishes a pool anew, with more or fewer devices."""
        name = self._some("Node")
        if name is None:
            return
        item = gpus(name, self.random.randint(1, 4))
        item["spec"]["pool"]["generation"] = self._number + 2
        self.player.apply([item])

    # -- the end

    def calm(self) -> Self:
        """Undo what keeps devices from being used, so that the end can be judged."""
        for item in list(self.world.server.store.listed(BY_KIND["Node"])):
            self._send("PATCH", "Node", item["metadata"]["name"], {"spec": {"unschedulable": None}})
        self._send("DELETE", "DeviceTaintRule", "rule")
        return self

    def rest(self, seconds: float = 900.0) -> list[Violation]:
        self.world.run_until(self.world.now + seconds)
        return self.invariants.at_rest() + forgotten(self.world)
