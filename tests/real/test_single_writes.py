"""SIGKILL before and after each single write of an allocation: whatever was half done, the end is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import Nodes
from tests.real.conftest import StartOperator
from tests.real.forwarder import Forwarder
from tests.real.operator_process import OperatorProcess, own_kubeconfig
from tests.real.scene import Object, Scene, claim, pod, workload
from tests.real.workloads import devices, listed, nodes_of, template

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

#: Finalizers of two named claims that were in use before, their allocations, their pod's nomination (it is not pinned) and
#: gate; allocation and gate of a ReplicaSet's pod.
WRITES = 2 + 2 + 1 + 1 + 1 + 1


@pytest.fixture
def forwarder(control_plane: ControlPlane, namespace: str) -> Iterator[Forwarder]:
    with Forwarder(control_plane.server, namespace) as running:
        yield running


@pytest.fixture
def forwarded(
    control_plane: ControlPlane, forwarder: Forwarder, start_operator: StartOperator, tmp_path: Path
) -> OperatorProcess:
    """An operator that reaches the API server through the forwarder only; it ends with the others of `start_operator`."""
    replica = OperatorProcess(
        forwarder.kubeconfig(own_kubeconfig(control_plane, tmp_path)), tmp_path / "operator-forwarded.log"
    )
    start_operator.replicas.append(replica)  # type: ignore[attr-defined]
    replica.start()
    eventually(lambda: replica.leads, what="the operator leads")
    return replica


def test_killed_before_and_after_each_write(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    gpu_class: str,
    forwarder: Forwarder,
    forwarded: OperatorProcess,
) -> None:
    nodes("p4d:2")
    scene = Scene(control_plane, namespace)
    # From now on the claims have been used, and their finalizers must be restored.
    play(scene, given=(template("gpu", gpu_class), claim("a", gpu_class), claim("b", gpu_class, 2)))
    forwarder.arm()
    undisturbed = play(scene)
    # A write made of a claim as it was before kube-controller-manager's last one conflicts, and is made again.
    told = forwarder.writes, forwarder.refused
    assert len(forwarder.writes) - len(forwarder.refused) == WRITES, told
    assert undisturbed["evictions"] == 0

    sides: tuple[Literal["before", "after"], ...] = ("before", "after")
    for number in range(1, WRITES + 1):
        for side in sides:
            forwarder.arm(number, side, forwarded.kill)

            def go_on() -> None:
                eventually(lambda: forwarder.struck, what=f"write {number} comes")  # noqa: B023
                # Its Lease would keep the next one waiting for 15 s; what happens then is another test's concern.
                control_plane.kubectl(
                    "delete", "lease", "dra-operator", "--namespace", "dra-operator", "--ignore-not-found"
                )
                forwarded.start()

            assert play(scene, go_on) == undisturbed, f"killed {side} write {number}: {forwarder.struck}"


def play(
    scene: Scene, meanwhile: Callable[[], None] | None = None, given: tuple[Object, ...] = ()
) -> dict[str, object]:
    """A pod with two claims and a Deployment of one: what they get. All of it is taken away again."""
    before = evictions(scene)
    scene.apply(*given, pod("both", "a", "b"), workload("Deployment", "set", "gpu"))
    if meanwhile is not None:
        meanwhile()
    scene.wait(lambda: running(scene) == {"both", "set"}, "both pods run")
    claims = {item["metadata"]["name"]: item for item in listed(scene.plane, scene.namespace, "resourceclaims")}
    end = {
        "claims": len(claims),
        "one node": nodes_of(claims["a"]) == nodes_of(claims["b"]) == [scene.node("both")],
        "counts": sorted(len(devices(item)) for item in claims.values()),
        "distinct": len(scene.taken()) == len(set(scene.taken())),
        "protected": all(item["metadata"].get("finalizers") for item in claims.values()),
        "reserved": sorted(len(item["status"]["reservedFor"]) for item in claims.values()),
        "evictions": evictions(scene) - before,
    }
    scene.plane.kubectl("delete", "-n", scene.namespace, "pod/both", "deployment/set", "--wait=false")

    def free() -> bool:
        left = listed(scene.plane, scene.namespace, "resourceclaims")
        return (
            not listed(scene.plane, scene.namespace, "pods")
            and [item["metadata"]["name"] for item in left] == ["a", "b"]
            and not any(devices(item) or item["metadata"].get("finalizers") for item in left)
        )

    scene.wait(free, "everything is free again")
    return end


def evictions(scene: Scene) -> int:
    return len(scene.events("PinnedPodStuck") + scene.events("Moving"))


def running(scene: Scene) -> set[str]:
    return {item["metadata"]["labels"]["app"] for item in scene.pods().values() if item["status"]["phase"] == "Running"}
