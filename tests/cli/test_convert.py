"""`kubectl-dra convert`: streams, forms and exit codes; and the document this dialect comes from, run in the simulator."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dra_operator.cli import main
from tests.convert.document import MEANT, SEED, every_class, gpu_and_nic, seed_manifests

CLAIM = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {resourceClassName: k}\n"
WANTED = {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "k"}}]}}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kubectl-dra"])
        with pytest.raises(SystemExit) as stop:
            main.run(arguments)
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CLAIM.encode())))
    code, out, err = run("convert", "-f", "-")
    assert (code, err) == (0, "")
    assert yaml.safe_load(out)["spec"] == WANTED


def test_nothing_given_is_wrong_usage(run: Run) -> None:
    assert run("convert")[0] == 2


def test_missing_file(run: Run) -> None:
    code, out, err = run("convert", "-f", "no-such.yaml")
    assert (code, out) == (1, "")
    assert err == "error: no-such.yaml: cannot be read: No such file or directory; name a file that can be read\n"


def test_files_become_one_stream(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.yaml").write_text("# licence\n---\n" + CLAIM)
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}  # as it is")
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}')
    code, out, _ = run("convert", "-f", str(tmp_path))
    assert code == 0
    assert out == (
        "# licence\n---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n"
        "spec: {devices: {requests: [{name: device, exactly: {deviceClassName: k}}]}}\n"
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}  # as it is\n"
        '---\n{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}\n'
    )
    assert [item["kind"] for item in yaml.safe_load_all(out) if item] == ["ResourceClaim", "Secret", "Namespace"]


def test_json_stays_json(tmp_path: Path, run: Run) -> None:
    pod = {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    items = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod},
    ]
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "many.jsonl").write_text("\n".join(json.dumps(yaml.safe_load(CLAIM)) for _ in range(2)))
    code, out, _ = run("convert", "-f", str(tmp_path))
    assert code == 0
    first, *claims = [json.loads(part) for part in out.split("---\n")]
    assert [item["kind"] for item in first["items"]] == ["Secret", "ResourceClaimTemplate", "Pod"]
    assert [claim["spec"] for claim in claims] == [WANTED, WANTED]


def test_json_output_is_one_list(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.yaml").write_text(CLAIM + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    code, out, _ = run("convert", "-o", "json", "-f", str(tmp_path))
    found = json.loads(out)
    assert (code, found["kind"], [item["kind"] for item in found["items"]]) == (0, "List", ["ResourceClaim", "Secret"])


def test_completing_can_be_refused(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {resourceClaims: [{name: a, source: {resourceClaimName: c}}], containers: [{name: a}]}\n"
    )
    assert "pause" in run("convert", "-f", str(tmp_path))[1]
    code, out, err = run("convert", "--no-complete", "-f", str(tmp_path))
    assert (code, err) == (0, "")
    assert yaml.safe_load(out)["spec"]["containers"] == [{"name": "a"}]


@pytest.mark.skipif(not SEED.is_dir(), reason="no shared data")
def test_the_document_runs(tmp_path: Path, run: Run) -> None:
    """Its two A100s go to the claim by name and to the Job; the Deployment's replicas wait for more of them."""
    (tmp_path / "seed.yaml").write_text(seed_manifests())
    code, out, err = run("convert", "-f", str(tmp_path / "seed.yaml"))
    assert (code, "error" in err) == (0, False)
    kinds = [item["kind"] for item in yaml.safe_load_all(out)]
    assert kinds.count("DeviceClass") == 10
    assert kinds.count("ResourceClaimTemplate") == 3
    (tmp_path / "v1.yaml").write_text(out)
    code, out, err = run("simulate", "-o", "json", "-f", str(tmp_path / "v1.yaml"))
    assert (code, "error" in err) == (0, False)
    claims = json.loads(out)["claims"]
    got = {claim["name"]: [device["device"] for device in claim["devices"]] for claim in claims if claim["devices"]}
    assert got.pop("training-gpu-0")
    assert [name.startswith("new-training-") for name in got] == [True]
    assert sum(claim["name"].startswith("distributed-training-") for claim in claims if not claim["devices"]) == 4


@pytest.mark.parametrize(
    ("requested", "wanted"),
    [
        ("high-mem-gpu", {"b/new", "b/newest"}),
        ("by-type", {"a/old"}),
        ("fast", {"b/new"}),
        ("not-healthy", {"a/old"}),
    ],
)
def test_devices_are_chosen_as_the_dialect_says(tmp_path: Path, run: Run, requested: str, wanted: set[str]) -> None:
    """'100' is more than '40' and '10.0' more than '8.0'; a device without the attribute is not taken."""
    selectors = {
        "high-mem-gpu": "device.attributes['memory-gb'] >= '40' && device.attributes['compute-capability'] >= '8.0'",
        "by-type": "device.type == 'k80'",
        "fast": "device.attributes['latency-ms'] < '50'",
        "not-healthy": "device.attributes['healthy'] != 'true'",
    }
    classes = "---\n".join(
        f"apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceClass\nmetadata: {{name: {name}}}\nspec:\n  selectors:\n  - CELExpression: |\n      {text}\n"
        for name, text in selectors.items()
    )
    slices = """---
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: a}
spec:
  nodeName: a
  devices:
  - {name: old, type: k80, attributes: {memory-gb: "8", compute-capability: "3.7", healthy: "false"}}
  - {name: bare, type: a100}
---
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: b}
spec:
  nodeName: b
  devices:
  - {name: new, type: a100, attributes: {memory-gb: "40", compute-capability: "8.0", latency-ms: "9", healthy: "true"}}
  - {name: newest, type: b200, attributes: {memory-gb: "100", compute-capability: "10.0", latency-ms: "120"}}
"""
    claims = "".join(
        f"---\napiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\nmetadata: {{name: c{number}}}\nspec: {{resourceClassName: {requested}}}\n"
        for number in range(4)
    )
    (tmp_path / "old.yaml").write_text(classes + slices + claims)
    code, out, _ = run("convert", "-f", str(tmp_path / "old.yaml"))
    assert code == 0
    (tmp_path / "new.yaml").write_text(out)
    _, out, _ = run("simulate", "-o", "json", "-f", str(tmp_path / "new.yaml"))
    taken = {
        f"{device['pool']}/{device['device']}" for claim in json.loads(out)["claims"] for device in claim["devices"]
    }
    assert taken == wanted


@pytest.mark.skipif(not SEED.is_dir(), reason="no shared data")
@pytest.mark.parametrize("classes", [MEANT.keys() - {"premium-gpu"}, {"premium-gpu"}], ids=["others", "premium-gpu"])
def test_each_class_of_the_document_means_what_it_says(tmp_path: Path, run: Run, classes: set[str]) -> None:
    """Its claims get the devices it means and no others; one claim more waits. (Premium devices are standard ones, too.)"""
    (tmp_path / "old.yaml").write_text(every_class(classes))
    code, out, _ = run("convert", "-f", str(tmp_path / "old.yaml"))
    assert code == 0
    (tmp_path / "new.yaml").write_text(out)
    code, out, _ = run("simulate", "-o", "json", "-f", str(tmp_path / "new.yaml"))
    assert code == 0
    claims = json.loads(out)["claims"]
    got = {
        name: {item["device"] for claim in claims if claim["name"].startswith(name) for item in claim["devices"]}
        for name in classes
    }
    assert got == {name: MEANT[name] for name in classes}
    waiting = [claim["reason"].split(":")[0] for claim in claims if not claim["devices"]]
    assert waiting == ["NoDevices"] * len(classes)


@pytest.mark.skipif(not SEED.is_dir(), reason="no shared data")
def test_the_pod_with_a_gpu_and_a_nic_gets_both(tmp_path: Path, run: Run) -> None:
    (tmp_path / "old.yaml").write_text(gpu_and_nic())
    code, out, _ = run("convert", "-f", str(tmp_path / "old.yaml"))
    assert code == 0
    (tmp_path / "new.yaml").write_text(out)
    code, out, _ = run("simulate", "-o", "json", "-f", str(tmp_path / "new.yaml"))
    assert code == 0
    got = {claim["name"]: claim["devices"][0]["device"] for claim in json.loads(out)["claims"]}
    assert got["training-gpu"] in MEANT["high-mem-gpu"]
    assert got["training-nic"] == "nic"
    assert [pod["phase"] for pod in json.loads(out)["pods"]] == ["Running"]
