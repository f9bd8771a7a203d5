"""Files to objects: what is kept, with which namespace, what is left out quietly, and what is said about mistakes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from dra_operator.cli.manifests import IRRELEVANT, read_manifests

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
CLAIM = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c, namespace: team}\nspec: {devices: {requests: []}}\n"


def read(tmp_path: Path, text: str | bytes, name: str = "f.yaml") -> tuple[list[str], list[str], list[str]]:
    """Titles, problems and notes, with the folder's own name taken out."""
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_manifests([str(tmp_path / name)])
    short = f"{tmp_path}/"
    return (
        [manifest.title for manifest in found.objects],
        [str(problem).replace(short, "") for problem in found.problems],
        [str(note).replace(short, "") for note in found.notes],
    )


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (POD, ["Pod default/p"]),
        (POD + "---\n" + CLAIM, ["Pod default/p", "ResourceClaim team/c"]),
        ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Node, metadata: {name: n1, namespace: x}}", ["Pod default/a", "Node n1"]),
        ("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n", ["Pod default/a"]),
        ("- {apiVersion: v1, kind: Node, metadata: {name: n1}}", ["Node n1"]),
        ('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}\n{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"}}', ["Node n", "Node m"]),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n", ["Pod default/p-"]),
        (POD + "---\n" + POD, ["Pod default/p"]),
        ("apiVersion: dra-operator.dev/v1alpha1\nkind: Scenario\nspec: {steps: []}", ["Scenario scenario"]),
    ],
)  # fmt: skip
def test_objects(tmp_path: Path, text: str, titles: list[str]) -> None:
    assert read(tmp_path, text) == (titles, [], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [}", "f.yaml:1: not YAML: while parsing a flow node, did not find expected node content (column 5)"),
        ("just text", "f.yaml:1: expected an object with apiVersion and kind, found the text 'just text'"),
        ("a: 1", "f.yaml:1: an object without `kind`; add apiVersion and kind"),
        ("kind: Pod\nmetadata: {name: p}", "f.yaml:1: Pod p: `apiVersion` is missing: v1"),
        ("kind: Frob", "f.yaml:1: Frob (no name): `apiVersion` is missing"),
        ("apiVersion: v1\nkind: Pod", "f.yaml:1: Pod (no name): metadata.name is missing; give it a name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 12}", "f.yaml:1: Pod (no name): metadata.name is the number 12; put it in quotes"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: n}", "f.yaml:1: Node (no name): metadata.name is the boolean false; put it in quotes"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [x]", "f.yaml:1: Pod (no name): metadata is a list, not a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: on}}", "f.yaml:1: Pod p: metadata.labels[a] is the boolean true; put it in quotes"),
        ("apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}", "f.yaml:1: ResourceClaim c: apiVersion resource.k8s.io/v1beta1 is not read here; write it as resource.k8s.io/v1"),
        ("apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceTaintRule\nmetadata: {name: t}", "f.yaml:1: DeviceTaintRule t: apiVersion resource.k8s.io/v1alpha3 is not read here; write it as resource.k8s.io/v1"),
        ("apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}", "f.yaml:1: Deployment d: apiVersion extensions/v1beta1 is not read here; write it as apps/v1"),
        ("apiVersion: resource.k8s.io/v1\nkind: Pod\nmetadata: {name: p}", "f.yaml:1: Pod p: Pod is not a kind of resource.k8s.io; its apiVersion is v1"),
        ("apiVersion: resource.k8s.io/v1\nkind: ResourceClaims\nmetadata: {name: p}", "f.yaml:1: ResourceClaims p: resource.k8s.io has no kind ResourceClaims; did you mean ResourceClaim?"),
        ("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: a, exactly: {count: many}}]}}", "f.yaml:1: ResourceClaim default/c: spec.devices.requests[0].exactly.count: expected a whole number of 64 bits, found the text 'many'; write it without quotes"),
        (POD + "---\n" + POD + "spec: {nodeName: n1}\n", "f.yaml:5: Pod default/p was given before, differently, in "),
    ],
)  # fmt: skip
def test_problems(tmp_path: Path, text: str, problem: str) -> None:
    _, problems, notes = read(tmp_path, text)
    assert [text[: len(problem)] for text in problems] == [problem]
    assert notes == []


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("apps/v1/Deployment", None, "spec.template.spec is missing; it says what the pods are"),
        ("batch/v1/Job", {"template": {}}, "spec.template.spec is missing; it says what the pods are"),
        ("apps/v1/StatefulSet", {"template": {"spec": {}}}, "spec.selector is missing; repeat the template's labels there as matchLabels"),
        ("apps/v1/DaemonSet", {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}, "spec.selector wants a=b, which the template's labels lack"),
        ("batch/v1/Job", {"template": {"spec": {"resourceClaims": [{}]}}}, "spec.resourceClaims[0]: "),
    ],
)  # fmt: skip
def test_workloads_must_say_what_their_pods_are(tmp_path: Path, kind: str, spec: object, message: str) -> None:
    version, _, name = kind.rpartition("/")
    document = {
        "apiVersion": version,
        "kind": name,
        "metadata": {"name": "w"},
        **({} if spec is None else {"spec": spec}),
    }
    _, (problem,), _ = read(tmp_path, json.dumps(document))
    assert message in problem


def test_one_broken_object_leaves_the_others(tmp_path: Path) -> None:
    titles, problems, _ = read(tmp_path, f"{POD}---\nkind: [\n---\napiVersion: v1\nkind: Pod\n---\n{CLAIM}")
    assert titles == ["Pod default/p", "ResourceClaim team/c"]
    assert [problem.partition(": ")[0] for problem in problems] == ["f.yaml:6", "f.yaml:7"]


def test_problems_in_lists_name_the_line_of_the_item(tmp_path: Path) -> None:
    _, problems, _ = read(
        tmp_path,
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod}\n",
    )
    assert problems == ["f.yaml:5: Pod (no name): metadata.name is missing; give it a name"]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", []),
        ("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}", []),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization", []),
        ("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}", ["f.yaml:1: Job j (batch.volcano.sh/v1alpha1) has no bearing on devices, left out"]),
    ],
)  # fmt: skip
def test_what_is_left_out(tmp_path: Path, text: str, notes: list[str]) -> None:
    assert read(tmp_path, f"{text}\n---\n{POD}") == (["Pod default/p"], [], notes)
    assert read(tmp_path, text) == (
        [],
        [f"f.yaml: {IRRELEVANT}; name files with workloads, claims, nodes or slices"],
        notes,
    )


def test_an_empty_file_is_no_mistake_beside_others(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# to come\n")
    titles, problems, notes = read(tmp_path, POD)
    assert (titles, problems, notes) == (["Pod default/p"], [], [])
    both = read_manifests([str(tmp_path)])
    assert [str(note).removeprefix(f"{tmp_path}/") for note in both.notes] == ["empty.yaml: holds no objects"]
    assert both.problems == []


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert read(tmp_path, b"a: b\nc: \xff\n")[1] == ["f.yaml:2: is not UTF-8 text (byte 0xff); save it as UTF-8"]
    assert read(tmp_path, "a: b", "f.json")[1] == ["f.json:1: not JSON: Expecting value (column 1)"]
    missing = read_manifests([str(tmp_path / "missing.yaml")])
    assert [problem.message for problem in missing.problems] == ["cannot be read: No such file or directory"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf" + POD.encode())[0] == ["Pod default/p"]


def test_directories_are_read_in_order_and_not_below(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "x.yaml").write_text(POD)
    assert "no .yaml, .yml, .json, .jsonl file" in str(read_manifests([str(tmp_path)]).problems[0])
    for name in ("b.yaml", "a.yml", "c.json"):
        (tmp_path / name).write_text(f'{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name[0]}"}}}}')
    (tmp_path / "README.md").write_text("no manifest")
    found = read_manifests([str(tmp_path), str(tmp_path / "a.yml")])
    assert [manifest.title for manifest in found.objects] == ["Node a", "Node b", "Node c"]
    assert found.problems == []


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode() + b"---\n{")))
    found = read_manifests(["-"])
    assert [manifest.title for manifest in found.objects] == ["Pod default/p"]
    assert str(found.problems[0]).startswith("(stdin):")
