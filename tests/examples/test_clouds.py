"""`examples/gke`, `eks` and `oci`: the classes take what they mean in published and captured inventories, the workloads run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_operator.api.slices import ResourceSlice
from dra_operator.cel import EvaluationError, bind_device, compile_selector
from dra_operator.cli.simulation import play_files, result
from dra_operator.profiles import expand

ROOT = Path(__file__).parents[2]
EXAMPLES, CAPTURED = ROOT / "examples", ROOT.parent / "shared" / "data" / "slices"
Object = dict[str, Any]


@cache
def classes() -> dict[str, list[str]]:
    """Selectors of the classes of all three, by name."""
    found: dict[str, list[str]] = {}
    for cloud in ("gke", "eks", "oci"):
        for item in yaml.safe_load_all((EXAMPLES / cloud / "classes.yaml").read_text()):
            found[item["metadata"]["name"]] = [entry["cel"]["expression"] for entry in item["spec"]["selectors"]]
    return found


def published(source: str) -> Iterator[Object]:
    """The slices of a profile, of an example, or captured ones."""
    if source.endswith(".yaml"):
        for item in yaml.safe_load_all((CAPTURED / source).read_text()):
            yield from item.get("items", [item])
    elif "/" in source:
        yield from yaml.safe_load_all((EXAMPLES / source / "cluster.yaml").read_text())
    else:
        yield from expand(source, "node", 0)


def taken(source: str) -> dict[str, int]:
    """How many of its devices each class takes; classes that take none are left out. A selector that fails on a device is a failure."""
    found: Counter[str] = Counter()
    compiled = {name: [compile_selector(text) for text in texts] for name, texts in classes().items()}
    for device in devices(published(source)):
        for name, selectors in compiled.items():
            try:
                found[name] += all(selector.matches(device) for selector in selectors)
            except EvaluationError as error:
                pytest.fail(f"class {name} fails in {source}: {error}")
    return {name: count for name, count in sorted(found.items()) if count}


def devices(objects: Iterable[Object]) -> Iterator[Any]:
    for item in objects:
        if item["kind"] == "ResourceSlice":
            one = ResourceSlice.from_dict(item)
            for device in one.devices:
                yield bind_device(one.driver, device.attributes, device.capacity, device.allow_multiple)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("h100", {"gpu-with-nccl-fast-socket": 8, "nvidia-h100-80gb": 8}),
        ("p4d", {"efa": 4, "gpu-with-nccl-fast-socket": 8, "nvidia-a100-40gb": 8}),
        ("l4", {}),
        ("mig", {"gpu-with-nccl-fast-socket": 8, "nvidia-a100-40gb": 8}),
        ("tpu-v6e", {}),
        ("gb200", {"connectx-8": 8, "gb200": 4, "gpu-with-nccl-fast-socket": 4}),
        ("cpu", {}),
    ],
)
def test_classes_take_what_they_mean_of_each_profile(source: str, expected: dict[str, int]) -> None:
    assert taken(source) == expected


@pytest.mark.skipif(not CAPTURED.is_dir(), reason="no shared data")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("aws-p4d-efa-gpu.yaml", {"gpu-with-nccl-fast-socket": 8, "nvidia-a100-40gb": 8}),
        ("aws-p4d-efa-dranet.yaml", {"efa": 4}),
        ("oci-gb200-gpu.yaml", {"gb200": 4, "gpu-with-nccl-fast-socket": 4}),
        ("oci-gb200-dranet.yaml", {"connectx-8": 8}),
    ],
)
def test_and_of_captured_machines(source: str, expected: dict[str, int]) -> None:
    assert taken(source) == expected


def played(cloud: str) -> dict[str, tuple[str, list[str]]]:
    """By claim, without what is generated of its name: node and devices."""
    run = play_files([str(EXAMPLES / cloud)])
    assert not run.bad
    return {
        claim["name"].rpartition("-")[0]: (claim["node"], [device["device"] for device in claim["devices"]])
        for claim in result(run)["claims"]
    }


def test_gke() -> None:
    found = played("gke")
    assert {name: (node, len(names)) for name, (node, names) in found.items()} == {
        "nccl-devices": ("a2-fast", 3), "tpu-training-chips": ("v5p-host", 4), "training-gpus": ("a3-high", 4),
    }  # fmt: skip
    assert "eth1" in found["nccl-devices"][1]


def test_eks_pairs_share_a_switch_with_their_adapter() -> None:
    behind = {"10": "01", "20": "23", "90": "45", "a0": "67"}
    found = played("eks")
    assert len(found) == 4
    for _, names in found.values():
        (bus,) = [name.split("-")[2] for name in names if name.startswith("pci")]
        assert sorted(name[-1] for name in names if name.startswith("gpu")) == list(behind[bus])


def test_oci_keeps_the_group_in_one_domain() -> None:
    found = played("oci")
    assert sorted(node for name, (node, _) in found.items() if name.startswith("pretraining")) == ["tray-b0", "tray-b1"]
    assert found["inference-devices"][0] == "tray-a0"


@pytest.mark.skipif(not CAPTURED.is_dir(), reason="no shared data")
@pytest.mark.parametrize(("cloud", "prefix"), [("eks", "aws"), ("oci", "oci")])
def test_the_workloads_run_on_the_captured_machine(cloud: str, prefix: str) -> None:
    files = [str(EXAMPLES / cloud / name) for name in ("classes.yaml", "workloads.yaml")]
    run = play_files([*files, *(str(path) for path in sorted(CAPTURED.glob(f"{prefix}-*")))])
    assert not run.bad
    pods = {pod["name"].split("-")[0]: pod["phase"] for pod in result(run)["pods"]}
    # One captured tray is no two: the group of OCI needs two in one domain.
    assert pods[{"eks": "allreduce", "oci": "inference"}[cloud]] == "Running"
