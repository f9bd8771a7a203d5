"""Examples on the real control plane, their files applied as they are: the nodes are theirs, and the simulated kubelet serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devcluster import ControlPlane, eventually
from devcluster.pytest_plugin import empty_namespace
from tests.real.conftest import StartOperator
from tests.real.operator_process import ROOT
from tests.real.scene import Scene
from tests.real.workloads import devices, listed

pytestmark = pytest.mark.real

EXAMPLES = ROOT / "examples"
NewNamespace = Callable[[str], Scene]


class Example:
    """The files of a folder. What they have that is no namespace's is deleted at the end."""

    def __init__(self, plane: ControlPlane, start_operator: StartOperator) -> None:
        self._plane = plane
        self._start_operator = start_operator
        self._applied: list[str] = []

    def apply(self, folder: str, *files: str, namespace: str = "") -> None:
        """As a user does. `namespace`: of objects that name none."""
        where = ("--namespace", namespace) if namespace else ()
        for file in files:
            path = str(EXAMPLES / folder / file)
            if file in ("cluster.yaml", "classes.yaml", "policy.yaml", "policies.yaml"):
                self._applied.append(path)
            self._plane.kubectl("apply", *where, "-f", path)

    def start(self) -> None:
        """Start the operator once all nodes are usable: it lists everything before it is ready, so it knows all that there is."""
        client = self._plane.client

        def usable() -> bool:
            return not any(item["spec"].get("taints") for item in client.get("/api/v1/nodes")["items"])

        eventually(usable, what="all nodes are usable")
        replica = self._start_operator()
        eventually(lambda: replica.leads, what="the operator leads")

    def delete(self) -> None:
        for path in reversed(self._applied):
            self._plane.kubectl("delete", "-f", path, "--ignore-not-found", "--wait=false")


@pytest.fixture
def example(control_plane: ControlPlane, start_operator: StartOperator) -> Iterator[Example]:
    found = Example(control_plane, start_operator)
    yield found
    found.delete()


@pytest.fixture
def new_namespace(control_plane: ControlPlane, example: Example) -> Iterator[NewNamespace]:
    """Makes the namespaces that the examples name; they are emptied before the nodes go."""
    made = []

    def make(name: str) -> Scene:
        made.append(name)
        control_plane.kubectl("create", "namespace", name)
        eventually(lambda: control_plane.client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        return Scene(control_plane, name)

    yield make
    for name in made:
        empty_namespace(control_plane.client, name)


def places(scene: Scene, app: str) -> list[str]:
    return sorted(scene.bound(app).values())


def waiting(scene: Scene, pod: str) -> str:
    """What the report of the claim of a Deployment's pod says."""
    [name] = [
        item["metadata"]["name"]
        for item in listed(scene.plane, scene.namespace, "claimreports")
        if item["metadata"]["name"].startswith(pod)
    ]
    return scene.summary(name)


def test_gpu_nic_and_cpus_on_one_numa_node(example: Example, new_namespace: NewNamespace) -> None:
    """dra.cpu, a NIC that names its NUMA node in its own way, and a GPU; then what is impossible, and the same as a wish."""
    scene = new_namespace("alignment")
    example.apply("alignment", "cluster.yaml", "policy.yaml")
    example.start()
    example.apply("alignment", "training.yaml", namespace="alignment")
    scene.wait(lambda: scene.node("training") == "node-a", "the aligned pod is bound")
    [gpu], [nic], [cpu] = (devices(scene.claim(f"training-{kind}")) for kind in ("gpu", "nic", "cpu"))
    numa = {"gpu-0": 0, "gpu-1": 0, "gpu-2": 1, "gpu-3": 1, "pci-0000-00-01-0": 0, "pci-0000-80-01-0": 1}
    numa |= {"pci-0000-80-02-0": 1, "cpudevnuma0": 0, "cpudevnuma1": 1}
    assert (gpu[0], nic[0], cpu[0]) == ("gpu.example.com", "dra.net", "dra.cpu")
    assert len({numa[device] for _, _, device in (gpu, nic, cpu)}) == 1
    [result] = scene.claim("training-cpu")["status"]["allocation"]["devices"]["results"]
    assert result["consumedCapacity"] == {"dra.cpu/cpu": "8"}

    example.apply("alignment", "arriving/impossible.yaml", "arriving/wish.yaml", namespace="alignment")
    scene.wait(lambda: scene.node("wish") == "node-a", "the wish gives way")
    scene.wait(
        lambda: "agree in resource.kubernetes.io/pcieRoot" in scene.summary("pair-gpu"), "the impossible is explained"
    )
    assert scene.node("pair") is None


def test_a_gang_in_one_domain_and_claims_in_one_half(example: Example, new_namespace: NewNamespace) -> None:
    scene = new_namespace("topology")
    example.apply("topology", "cluster.yaml", "policy.yaml")
    example.start()
    example.apply("topology", "busy.yaml", "claims.yaml", namespace="topology")
    names = ("notebook", "same-root", "four", "two", "six")
    scene.wait(lambda: all(devices(scene.claim(name)) for name in names), "the bare claims are allocated")
    numbers = {
        name: [int(device.removeprefix("gpu-")) for _, _, device in devices(scene.claim(name))] for name in names
    }
    assert len({number // 2 for number in numbers["same-root"]}) == 1
    assert [len({number % 2 for number in numbers[name]}) for name in ("four", "two")] == [1, 1]
    [(_, pool, _)] = devices(scene.claim("notebook"))
    assert pool.startswith("rack-left")

    example.apply("topology", "arriving/gang.yaml", namespace="topology")
    scene.wait(lambda: len(scene.bound()) == 2, "both pods of the gang are bound")
    assert sorted(scene.bound().values()) == ["rack-right-0", "rack-right-1"]


def test_inference_optimized(example: Example, new_namespace: NewNamespace) -> None:
    scene = new_namespace("serving")
    example.apply("patterns/inference-optimized", "cluster.yaml", "classes.yaml")
    example.start()
    example.apply("patterns/inference-optimized", "workloads.yaml")
    scene.wait(lambda: len(places(scene, "model")) == 3, "the three servers run")
    assert places(scene, "model") == ["infer-0", "infer-1", "train-0"]
    example.apply("patterns/inference-optimized", "arriving/strict.yaml")
    scene.wait(lambda: "NoDevices" in waiting(scene, "strict"), "the strict one waits, and is told why")
    assert places(scene, "strict") == []


def test_reserved_critical(example: Example, new_namespace: NewNamespace) -> None:
    critical, team = new_namespace("critical"), new_namespace("team")
    example.apply("patterns/reserved-critical", "cluster.yaml", "classes.yaml", "policies.yaml")
    example.start()
    example.apply("patterns/reserved-critical", "workloads.yaml")
    team.wait(lambda: len(places(team, "batch")) == 3, "batch has all but the reserve")
    team.wait(lambda: "QuotaExceeded" in waiting(team, "sneaky"), "the class for critical work is not for everybody")
    assert "gpu-reserved-1" not in places(team, "batch")

    example.apply("patterns/reserved-critical", "arriving/alarm.yaml")
    critical.wait(lambda: places(critical, "alarm") == ["gpu-reserved-1"], "by attribute")
    critical.wait(lambda: places(critical, "fallback") != [], "from the reserve")
    assert sorted(places(team, "batch") + places(critical, "fallback")) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2"]
