"""`examples/portable`: the same manifests get what each cluster has, and where they do not fit the change that is told helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dra_operator.cli.porting import judge
from tests.cli.commands import ROOT, call

FOLDER = ROOT / "examples" / "portable"
TRAINING = "Job research/training"


def judged(*clusters: str, app: Path = FOLDER / "app", fits: bool) -> dict[str, dict[str, Any]]:
    """By cluster, the workloads by name."""
    verdicts, fine = judge([str(app)], [str(FOLDER / "clusters" / f"{name}.yaml") for name in clusters])
    assert fine
    assert all(verdict.fits for verdict in verdicts) == fits
    return {
        Path(verdict.cluster).stem: {name: fate.to_dict() for name, fate in verdict.fates.items()}
        for verdict in verdicts
    }


def test_a100s_here_h100s_there() -> None:
    found = judged("a100", "h100", fits=True)
    got = {name: workloads[TRAINING]["devices"] for name, workloads in found.items()}
    assert got == {
        "a100": [{"device": "NVIDIA A100-SXM4-80GB (80Gi)", "count": 4}],
        "h100": [{"device": "NVIDIA H100 80GB HBM3 (80Gi)", "count": 4}],
    }


def test_what_must_change_where_it_does_not_fit() -> None:
    found = judged("h100", "l4", "without-class", fits=False)
    assert found["l4"][TRAINING]["changes"][0] == "lower memory >= 40Gi to 24Gi in class high-mem-gpu"
    (change,) = found["without-class"][TRAINING]["changes"]
    assert change.startswith("make DeviceClass high-mem-gpu, as ")
    assert change.endswith("h100.yaml has it: with it, it fits")
    assert found["h100"][TRAINING]["fits"]


def test_without_another_cluster_that_has_the_class_its_devices_are_told() -> None:
    (change,) = judged("without-class", fits=False)["without-class"][TRAINING]["changes"]
    assert change == "make DeviceClass high-mem-gpu for the devices here (8 × NVIDIA H100 80GB HBM3 (80Gi))"


APP = """
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: research}
spec:
  nodeSelector: {zone: mars}
  containers: [{name: main, image: i}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: bare, namespace: research}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: high-mem-gpu}}]}}
"""


def test_claims_and_pods_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    found = judged("a100", app=tmp_path, fits=False)["a100"]
    assert found["ResourceClaim research/bare"]["fits"]
    assert not found["Pod research/plain"]["fits"]
    assert "node" in found["Pod research/plain"]["reasons"][0]


def test_a_file_that_is_not_there() -> None:
    done = call("portable", "-f", FOLDER / "app", "--cluster", "no-such.yaml")
    assert done.returncode == 1
    assert "no-such.yaml: cannot be read" in done.stderr
