"""`kubectl-dra explain` as a shell calls it: from files, from a cluster, and what it says where there is nothing to explain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEMO, ROOT, call, data
from tests.cli.served import serve
from tests.engine.stage import Stage, claim, device_class, gpus, node, pod
from tests.explain.cases import CASES

SLICES = ROOT.parent / "shared" / "data" / "slices"
ONE_GPU = [node("n1"), gpus("n1", 1), device_class(), claim("a"), pod("first", "a"), claim("b"), pod("second", "b")]


def written(folder: Path, *objects: Any) -> Path:
    file = folder / "input.json"
    file.write_text("\n".join(json.dumps(item) for item in objects))
    return file


def test_json_has_the_fields_that_programs_rely_on(tmp_path: Path) -> None:
    told = data("explain", "pod/second", "-f", written(tmp_path, *ONE_GPU))
    assert list(told)[:3] == ["object", "phase", "summary"]
    assert (told["object"], told["phase"]) == ("pod/default/second", "Starved")
    (request,) = told["requests"]
    assert (request["devices"], request["usable"]) == (1, 0)
    assert told["fixes"]
    assert all(fix["verified"] is True and fix["text"] for fix in told["fixes"])


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    import yaml

    file = written(tmp_path, *ONE_GPU)
    done = call("explain", "claim/b", "-f", file, "-o", "yaml")
    assert yaml.safe_load(done.stdout) == data("explain", "claim/b", "-f", file)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    file = written(tmp_path, *ONE_GPU)
    assert len({call("explain", "pod/second", "-f", file, PYTHONHASHSEED=seed).stdout for seed in "123"}) == 1


def test_a_pipe_gets_no_colours(tmp_path: Path) -> None:
    assert "\x1b" not in call("explain", "pod/second", "-f", written(tmp_path, *ONE_GPU)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("pod/nobody", "-f", DEMO), 1, "error: there is no pod default/nobody in the input\n"),
        (("node/n1", "-f", DEMO), 2, "error: 'node/n1' is neither claim/NAME nor pod/NAME\n"),
        (("pod/a/b/c", "-f", DEMO), 2, "error: 'pod/a/b/c' is neither claim/NAME nor pod/NAME\n"),
        (("pod//b", "-f", DEMO), 2, "error: 'pod//b' is neither claim/NAME nor pod/NAME\n"),
        (("pod/a/b", "-n", "c", "-f", DEMO), 2, "error: pod/a/b is in namespace a, and -n says c; leave -n out\n"),
        (("pod/a/b", "-f", DEMO), 1, "error: there is no pod a/b in the input\n"),
        (("pod/", "-f", DEMO), 2, "error: 'pod/' is neither claim/NAME nor pod/NAME\n"),
        (
            ("pod/a", "-f", DEMO, "--context", "c"),
            2,
            "error: -f and a cluster (--kubeconfig, --context) exclude each other\n",
        ),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], code: int, message: str) -> None:
    done = call("explain", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(message)


def test_a_name_nearly_right_and_one_in_another_namespace(tmp_path: Path) -> None:
    file = written(tmp_path, *ONE_GPU)
    assert "did you mean second?" in call("explain", "pod/secnod", "-f", file).stderr
    assert "in namespace default; say -n" in call("explain", "pod/second", "-n", "other", "-f", file).stderr


def test_a_broken_object_hinders_nobody_and_is_told(tmp_path: Path) -> None:
    file = written(tmp_path, *ONE_GPU, {"apiVersion": "v1", "kind": "Pod"})
    done = call("explain", "pod/second", "-f", file)
    assert done.returncode == 1
    assert done.stdout.startswith("pod/default/second  Starved")
    assert "input.json" in done.stderr


# -- a cluster


@pytest.mark.parametrize("name", ["memory-bound", "held-for-another", "rolling-update", "running"])
def test_a_cluster_is_read_and_nothing_else(name: str, tmp_path: Path) -> None:
    """From outside the same is told as by the engine that runs in the cluster."""
    stage, target = CASES[name]()
    kind, name = target.split("/")
    before = {(item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
              for each in ("Pod", "ResourceClaim", "ClaimReport") for item in stage.objects(each)}  # fmt: skip
    with serve(stage.world.server, tmp_path) as cluster:
        told = data("explain", target, "--kubeconfig", cluster.kubeconfig)
    assert {method for method, _ in cluster.requests} == {"GET"}
    after = {(item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
             for each in ("Pod", "ResourceClaim", "ClaimReport") for item in stage.objects(each)}  # fmt: skip
    assert before == after
    assert told["object"] == f"{kind}/default/{name}"
    inside = stage.engines[-1].explain(kind, stage_key(name), stage.world.now)  # type: ignore[arg-type]
    assert inside is not None
    assert told["summary"] == inside.summary
    if inside.explanation is not None:
        assert [item["usable"] for item in told["requests"]] == [item.usable for item in inside.explanation.requests]


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    """As with kubectl; the server has nothing in it."""
    stage = Stage(node("n1"), device_class(), claim("c"), pod("p", "c")).run(5)
    with serve(stage.world.server, tmp_path) as cluster:
        text = cluster.kubeconfig.read_text()
        assert '"user": "u"}' in text
        cluster.kubeconfig.write_text(text.replace('"user": "u"}', '"user": "u", "namespace": "team-a"}'))
        for command in ("explain", "defrag"):
            done = call(command, "pod/p", "--kubeconfig", cluster.kubeconfig)
            assert done.returncode != 0
            assert "team-a" in done.stderr
            assert call(command, "pod/default/p", "--kubeconfig", cluster.kubeconfig).stderr != done.stderr
        told = data("explain", "pod/p", "-n", "default", "--kubeconfig", cluster.kubeconfig)
    assert told["object"] == "pod/default/p"


def stage_key(name: str) -> Any:
    from dra_operator.api.meta import Key

    return Key("default", name)


def test_a_cluster_of_500_nodes_is_read_page_by_page(tmp_path: Path) -> None:
    """How long that takes is measured on a real control plane: `python -m bench.explain --cluster`."""
    nodes = [item for number in range(500) for item in (node(f"n{number}"), gpus(f"n{number}", 8))]
    stage = Stage(*nodes, device_class(), claim("c", 9), pod("p", "c")).run(5)
    with serve(stage.world.server, tmp_path) as cluster:
        told = data("explain", "pod/p", "--kubeconfig", cluster.kubeconfig)
    assert told["requests"][0]["devices"] == 4000
    assert told["fixes"]


def test_the_engine_is_not_imported_before_the_cluster_is_asked() -> None:
    check = (
        "import sys, dra_operator.cli.explain, dra_operator.cli.explaining as explaining\n"
        "name = 'dra_operator.engine.engine'\n"
        "def read_cluster(*_, meanwhile):\n"
        "    before = name in sys.modules; meanwhile(); print(before, name in sys.modules); sys.exit()\n"
        "explaining.read_cluster = read_cluster\n"
        "explaining.explain_cluster(None, None, 'pod', explaining.Key('default', 'p'))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# -- captured inventories


@pytest.mark.skipif(not SLICES.exists(), reason="the captured slices of ../shared are not there")
@pytest.mark.parametrize(("machine", "product"), [("aws-p4d-efa", "H100"), ("oci-gb200", "H100")], ids=["p4d", "gb200"])
def test_captured_inventories_explain(machine: str, product: str, tmp_path: Path) -> None:
    classes = [
        device_class("gpu", 'device.driver == "gpu.nvidia.com"'),
        device_class("nic", 'device.driver == "dra.net"'),
    ]
    wrong = claim("c", selector=f'device.attributes["gpu.nvidia.com"].productName == "{product}"')
    file = written(tmp_path, *classes, wrong, pod("p", "c"))
    sources = [part for name in ("gpu", "dranet") for part in ("-f", SLICES / f"{machine}-{name}.yaml")]
    told = data("explain", "pod/p", *sources, "-f", file)
    (request,) = told["requests"]
    assert request["devices"] == sum(step["devices"] for step in request["steps"]) + request["usable"]
    (term,) = (each for each in request["conjuncts"] if "productName" in each["text"])
    assert term["rejects"] == term["of"] > 0
    assert term["best"]
    assert any("productName" in fix["text"] for fix in told["fixes"])


#: A GPU and a NIC on one PCIe root.
ALIGNED = {
    "devices": {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
            {"name": "nic", "exactly": {"deviceClassName": "nic"}},
        ],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["gpu", "nic"]}],
    }
}


@pytest.mark.skipif(not SLICES.exists(), reason="the captured slices of ../shared are not there")
@pytest.mark.parametrize(("machine", "aligned"), [("aws-p4d-efa", True), ("oci-gb200", False)], ids=["p4d", "gb200"])
def test_captured_gpus_with_the_nic_at_their_side(machine: str, aligned: bool, tmp_path: Path) -> None:
    """On p4d they get one; on GB200 no GPU shares a PCIe root with a NIC, which is told, and what helps."""
    classes = [
        device_class("gpu", 'device.driver == "gpu.nvidia.com"'),
        device_class("nic", 'device.driver == "dra.net"'),
    ]
    file = written(tmp_path, *classes, {**claim("c"), "spec": ALIGNED}, pod("p", "c"))
    sources = [part for name in ("gpu", "dranet") for part in ("-f", SLICES / f"{machine}-{name}.yaml")]
    (found,) = data("simulate", *sources, "-f", file)["claims"]
    told = data("explain", "pod/p", *sources, "-f", file)
    if aligned:
        roots = _roots(found["devices"], SLICES / f"{machine}-gpu.yaml", SLICES / f"{machine}-dranet.yaml")
        assert found["phase"] == told["phase"] == "Reserved"
        assert len(roots) == 2
        assert len(set(roots)) == 1
    else:
        assert found["devices"] == []
        assert told["summary"].startswith("no node has devices for gpu, nic on one pcieRoot")
        assert any(fix["kind"] == "constraint" for fix in told["fixes"])


def _roots(devices: list[dict[str, str]], *files: Path) -> list[str]:
    import yaml

    published = {
        (item["spec"]["driver"], device["name"]): device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"]
        for file in files
        for item in yaml.safe_load(file.read_text())["items"]
        for device in item["spec"]["devices"]
        if "resource.kubernetes.io/pcieRoot" in device["attributes"]
    }
    return [published[device["driver"], device["device"]] for device in devices]
