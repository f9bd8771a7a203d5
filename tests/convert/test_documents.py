"""Whole documents: each `cases/*.yaml` becomes `*.want.yaml`, with the assumptions in `*.notes.txt`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_operator.cli import main
from dra_operator.convert.comments import comments, lost
from dra_operator.convert.yamltext import rewrite

CASES = Path(__file__).parent / "cases"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def convert(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kubectl-dra"])
        with pytest.raises(SystemExit) as stop:
            main.run(["convert", *arguments])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.mark.parametrize("name", sorted(file.name.removesuffix(".want.yaml") for file in CASES.glob("*.want.yaml")))
def test_cases(name: str, convert: Run) -> None:
    code, out, err = convert("-f", str(CASES / f"{name}.yaml"))
    assert out == (CASES / f"{name}.want.yaml").read_text()
    assert err.replace(f"{CASES}/", "") == (CASES / f"{name}.notes.txt").read_text()
    assert code == 0


@pytest.mark.parametrize("file", sorted(CASES.glob("*.want.yaml")), ids=lambda file: file.name)
def test_what_is_v1_stays_as_it_is(file: Path, convert: Run) -> None:
    assert convert("-f", str(file)) == (0, file.read_text(), "")


@pytest.mark.parametrize("file", sorted(CASES.glob("*.want.yaml")), ids=lambda file: file.name)
def test_no_comment_is_lost(file: Path) -> None:
    before = (CASES / file.name.replace(".want", "")).read_text()
    assert lost(before, [file.read_text()]) == []


def test_comments_are_told_from_text() -> None:
    assert comments("# one\na: b#c  # two\nd: '# no'\ne: |\n  # text\n  x # text\nf: [a, # three\n b]\n#\n") == [
        "one",
        "two",
        "three",
    ]
    assert comments("a: [}") == []


@pytest.mark.parametrize(
    ("text", "change", "wanted"),
    [
        ("a: 1   # one\nb: 2\n", {"a": 1, "b": 3}, "a: 1   # one\nb: 3\n"),
        ("a: 1   # one\nb: 2\n", {"b": 2}, "# one\nb: 2\n"),
        ("a: 1   # one\n", {"z": {"a": 1}}, "z:\n  a: 1 # one\n"),
        ("# top\na:\n- b: 1 # one\n- c: 2\n", {"a": [{"b": 1}, {"c": 3}]}, "# top\na:\n- b: 1 # one\n- c: 3\n"),
        ("a:\n    - b\n", {"a": ["b", "on"]}, 'a:\n    - b\n    - "on"\n'),
        ("a: &x {b: 1}\nc: *x # same\n", {"a": {"b": 1}, "c": {"b": 2}}, "# same\na:\n  b: 1\nc:\n  b: 2\n"),
        ("a: {b: 1}\n", {"a": {"b": "x\ny"}}, 'a: {b: "x\\ny"}\n'),
        ("a: 'q'\n", {"a": "q", "b": "0.5"}, "a: 'q'\nb: \"0.5\"\n"),
    ],
)
def test_rewriting(text: str, change: dict[str, Any], wanted: str) -> None:
    value = yaml.safe_load(text)
    # The changed value holds nodes of whatever tree it is asked with, as conversions do.
    become = lambda tree: [{**{key: tree[key] for key in tree if change.get(key) == tree[key]}, **change}]  # noqa: E731
    keep = lambda tree: [{key: tree[key] if tree.get(key) == item else item for key, item in become(tree)[0].items()}]  # noqa: E731
    (found,) = rewrite(text, value, [((), keep)])
    assert found == wanted


def case(kind: str, spec: str, version: str = "resource.k8s.io/v1alpha3", **more: str) -> str:
    extra = "".join(f"{key}: {value}\n" for key, value in more.items())
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n{extra}spec: {spec}\n"


POD = "{{containers: [{{name: a, image: x, resources: {{limits: {limits}}}}}]{more}}}"


def pod(limits: str, more: str = "") -> str:
    return case("Pod", POD.format(limits=limits, more=more), "v1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (case("PodSchedulingContext", "{}"), "f.yaml:1: PodSchedulingContext x: PodSchedulingContext has no successor in v1"),
        (case("Nonsense", "{}"), "f.yaml:2: Nonsense x: kind: resource.k8s.io has no kind Nonsense"),
        (case("ResourceClaim", "{resourceClassName: a, parametersRef: {name: p}}"), "f.yaml:4: ResourceClaim x: spec.parametersRef: parameters of classic DRA"),
        (case("ResourceClaim", "{resourceClassName: a, colour: red}"), "spec.colour: the field `colour` has no counterpart"),
        (case("ResourceClaim", "{resourceClassName: }"), "spec.resourceClassName: the class's name is missing"),
        (case("ResourceClaim", "{controller: c, devices: {}}"), "spec.controller: classic DRA controllers are gone"),
        (case("ResourceClaim", "{devices: {requests: [{name: a, deviceClassName: c, firstAvailable: [{name: b}]}]}}"), "spec.devices.requests[0]: a request has either"),
        (case("ResourceClass", "{}", "resource.k8s.io/v1alpha2", driverName="x", suitableNodes="{}"), "f.yaml:5: ResourceClass x: suitableNodes"),
        (case("DeviceClass", "{suitableNodes: {}}"), "spec.suitableNodes: classes no longer choose nodes"),
        (case("DeviceTaintRule", "{deviceSelector: {deviceClassName: c}, taint: {key: a, effect: NoSchedule}}"), "spec.deviceSelector.deviceClassName: taint rules choose by"),
        (case("ResourceSlice", "{devices: [{name: a}]}"), "spec.nodeName: nodeName, which says whose devices these are, is missing"),
        (case("ResourceSlice", "{nodeName: n1, devices: [{name: a}, {name: A}]}"), "spec.devices[1].name: node n1 has a device a already"),
        (case("ResourceSlice", "{nodeName: n1, devices: [{name: a, attributes: {a-b: '1', a_b: '2'}}]}"), "`a_b` and `a-b` would both be called a_b"),
        (case("ResourceSlice", "{nodeName: n1, devices: [{name: a, attributes: {a: [1]}}]}"), "spec.devices[0].attributes.a: the value is a list"),
        (case("ResourceSlice", "{nodeName: n1, devices: [{name: a, cost: 3}]}"), "spec.devices[0].cost: the field `cost` has no counterpart"),
        (case("ResourceSlice", f"{{nodeName: n1, devices: [{{name: a, attributes: {{a: {'x' * 65}}}}}]}}"), "the text is 65 characters long"),
        (case("ResourceSlice", "{driver: d, nodeName: n1, pool: {name: p, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: c, counters: {a: {value: 1}}}], devices: [{name: a, basic: {}}]}", "resource.k8s.io/v1beta1"), "convert all its 2 slices together (1 are here)"),
        (case("DeviceClass", "{selectors: [{CELExpression: device.name == 'x'}]}"), "f.yaml:4: DeviceClass x: spec.selectors[0]: the expression cannot be translated: a v1 selector cannot see device.name"),
        (case("DeviceClass", "{selectors: [{CELExpression: [x]}]}"), "spec.selectors[0].CELExpression: the value is a list"),
        (case("DeviceClass", "{selectors: [{expression: x}]}"), "spec.selectors[0]: the selector has no expression"),
        (case("DeviceClass", "{selectors: [{CELExpression: 'true', also: x}]}"), "spec.selectors[0].also: the field `also`"),
        (case("DeviceClass", "{selectors: [{CELExpression: frobnicate('x')}]}"), "would not be valid in v1"),
        (case("DeviceClass", "{selectors: [{CELExpression: 1 + 1}]}"), "must evaluate to bool"),
        (case("Pod", "{resourceClaims: [{name: a, source: {}}], containers: [{name: a, image: x}]}", "v1"), "spec.resourceClaims[0].source: a pod's claim has one of"),
        (case("Pod", "{resourceClaimTemplates: [{name: A_B, spec: {resourceClassName: c}}], containers: []}", "v1"), "'A_B' is no name of a pod's claim"),
        (case("Pod", "{resourceClaimTemplates: [{name: a, spec: {}}], containers: []}", "v1"), "the template asks for nothing"),
        (pod("{nvidia.com/gpu: x}"), "spec.containers[0].resources.limits[nvidia.com/gpu]: 'x' is no number of devices"),
        (pod("{nvidia.com/gpu: 64}"), "64 devices: a claim has at most 32"),
        (pod("{nvidia.com/gpu.shared: 1}"), "nvidia.com/gpu.shared is a share of a GPU"),
        (pod("{nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 2}"), "limit and request of nvidia.com/gpu differ"),
        (pod("{nvidia.com/gpu: 1}", ", nodeSelector: {nvidia.com/gpu.product: A100-SHARED}"), "spec.nodeSelector[nvidia.com/gpu.product]: nvidia.com/gpu.product In A100-SHARED: a time-sliced GPU"),
        (pod("{nvidia.com/gpu: 1}", ", nodeSelector: {nvidia.com/gpu.memory: lots}"), "'lots' is not a whole number"),
        (pod("{nvidia.com/gpu: 1}", ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [a]}]}, {}]}}}"), "alternatives (2 terms) that choose GPUs"),
        (pod("{nvidia.com/gpu: 1}", ", initContainers: [{name: i, image: x, resources: {limits: {nvidia.com/gpu: 2}}}]"), "init container i asks for 2 nvidia.com/gpu, more than any other"),
        ("a: [}", "f.yaml:1: not YAML"),
        ("spec: {selectors: []}", "f.yaml:1: object (no name): this is no object: it has no `kind`"),
        ("just text", "f.yaml:1: document: this is no object"),
        ("# nothing\n", "f.yaml: holds no objects; write it, or name another file"),
    ],
)  # fmt: skip
def test_no_translation(text: str, message: str, tmp_path: Path, convert: Run) -> None:
    (tmp_path / "f.yaml").write_text(text)
    code, out, err = convert("-f", str(tmp_path))
    assert (code, out) == (1, "")
    assert message in err.replace(f"{tmp_path}/", "")


def test_all_failures_are_told(tmp_path: Path, convert: Run) -> None:
    (tmp_path / "a.yaml").write_text(case("PodSchedulingContext", "{}") + "---\n" + case("Nonsense", "{}"))
    (tmp_path / "b.yaml").write_text(case("DeviceClass", "{suitableNodes: {}}"))
    code, out, err = convert("-f", str(tmp_path))
    assert (code, out, err.count("error: ")) == (1, "", 3)
