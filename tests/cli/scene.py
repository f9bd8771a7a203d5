"""A cluster with everything in it that commands look at: a full node, a tainted device, a waiting pod, a claim of somebody else."""

from __future__ import annotations

from typing import Any

from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.scenario import Player
from dra_operator.cluster.memory.world import World
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings
from dra_operator.profiles import device_classes, expand

Object = dict[str, Any]


def template(name: str, count: int = 1, device_class: str = "gpu.nvidia.com") -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


def pod_spec(template: str) -> Object:
    return {
        "containers": [
            {
                "name": "main", "image": "registry.example.com/secret:1",
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"claims": [{"name": "gpus"}], "requests": {"cpu": "1"}},
            }
        ],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
    }  # fmt: skip


def workload(kind: str, name: str, replicas: int, template: str) -> Object:
    labels = {"app": name, "team": "opt1cs"}
    spec: Object = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(template)},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "team-a", "annotations": {"contact": "ann@example.com"}},
        "spec": spec,
    }  # fmt: skip


def pod(name: str, template: str) -> Object:
    meta = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(template)}


def scene() -> World:
    """Two nodes with 8 GPUs each; a Deployment and a StatefulSet have 12 of them, a pod waits for 8, after 90 s."""
    world = embedded_cluster(seed=1)
    player = Player(world)
    nodes = [item for index in range(2) for item in expand("p4d", f"rack7-{index}", index)]
    objects = [
        *(item for item in device_classes("p4d") if item["metadata"]["name"] == "gpu.nvidia.com"),
        *nodes,
        template("one"),
        template("two", 2),
        template("eight", 8),
        workload("Deployment", "web", 4, "one"),
        workload("StatefulSet", "train", 4, "two"),
    ]
    player.apply(objects)
    Runner(world, lambda: Engine(EngineSettings())).start()
    world.run_until(world.now + 30)
    player.apply([pod("tardy", "eight")])
    world.run_until(world.now + 60)
    assert not player.troubles, player.troubles
    return world
