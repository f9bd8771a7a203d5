"""`kubectl-dra lint`: lines, forms of output, repairs in place, exit codes; and inventories in which there is nothing to find."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from dra_operator.cli import main
from dra_operator.lint.checking import RULES

ROOT = Path(__file__).parents[2]
SLICES = ROOT.parent / "shared/data/slices"
Run = Callable[..., tuple[int, str, str]]

CLAIM = """\
# A claim with two mistakes.
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: c
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        count: "2"   # two
    constraints:
    - requests: [gpus]
      matchAttribute: resource.kubernetes.io/pcieRoot
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kubectl-dra"])
        with pytest.raises(SystemExit) as stop:
            main.run(arguments)
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "claim.yaml"
    path.write_text(CLAIM)
    return path


def test_for_people(file: Path, run: Run) -> None:
    code, out, err = run("lint", "-f", file.name)
    assert (code, err) == (1, "")
    assert out == (
        "claim.yaml:12: error wrong-type: ResourceClaim default/c: spec.devices.requests[0].exactly.count\n"
        "    expected a whole number of 64 bits, found the text '2'; the API server cannot decode the object and refuses it\n"
        "    fix: Write it without quotes.\n"
        "claim.yaml:14: error unknown-request: ResourceClaim default/c: spec.devices.constraints[0].requests[0]\n"
        "    the claim has no request 'gpus'; the API server refuses the object\n"
        "    fix: Write gpu.\n"
    )


def test_for_programs(file: Path, run: Run) -> None:
    code, out, _ = run("lint", "-o", "json", "-f", file.name)
    first, second = json.loads(out)
    assert code == 1
    assert first == {
        "file": "claim.yaml",
        "line": 12,
        "object": "ResourceClaim default/c",
        "path": "spec.devices.requests[0].exactly.count",
        "code": "wrong-type",
        "level": "error",
        "message": "expected a whole number of 64 bits, found the text '2'; the API server cannot decode the object and refuses it",
        "fix": "Write it without quotes.",
        "fixable": True,
    }
    assert (second["line"], second["code"], second["fixable"]) == (14, "unknown-request", False)


def test_for_code_scanning(file: Path, run: Run) -> None:
    code, out, _ = run("lint", "-o", "sarif", "-f", file.name)
    document = json.loads(out)
    (only,) = document["runs"]
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert code == 1
    assert rules == ["unknown-request", "wrong-type"]
    assert_sarif(document)
    place = only["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "claim.yaml"}, "region": {"startLine": 12}}


def test_code_scanning_takes_any_name_of_a_file(file: Path, run: Run) -> None:
    name = "my claims [é]#1?.yaml"
    file.rename(file.with_name(name))
    document = json.loads(run("lint", "-o", "sarif", "-f", name)[1])
    assert_sarif(document)
    place = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert unquote(place["artifactLocation"]["uri"]) == name


def assert_sarif(document: Any) -> None:
    """What SARIF 2.1.0 (OASIS, sections 3.13 to 3.52) asks of the parts that are used."""
    assert document.keys() == {"$schema", "version", "runs"}
    assert document["version"] == "2.1.0"
    (only,) = document["runs"]
    assert only.keys() == {"tool", "results"}
    driver = only["tool"]["driver"]
    assert driver["name"]
    assert driver["version"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
    for result in only["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            uri = place["artifactLocation"]["uri"]
            assert re.fullmatch(r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+", uri), "not an RFC 3986 path"
            assert all(each["fullyQualifiedName"] for each in location.get("logicalLocations", ()))


def test_for_github(file: Path, run: Run) -> None:
    file.rename(file.with_name("a,b.yaml"))
    code, out, _ = run("lint", "-o", "github", "-f", "a,b.yaml")
    assert code == 1
    assert out.splitlines()[1] == (
        "::error file=a%2Cb.yaml,line=14,title=unknown-request::ResourceClaim default/c: spec.devices.constraints[0].requests[0]: "
        "the claim has no request 'gpus'; the API server refuses the object%0Afix: Write gpu."
    )


@pytest.mark.parametrize(("form", "nothing"), [("table", ""), ("json", "[]\n"), ("github", "")])
def test_nothing_to_find(form: str, nothing: str, file: Path, run: Run) -> None:
    file.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    assert run("lint", "-o", form, "-f", file.name) == (0, nothing, "")


def test_unreadable_text_is_a_finding(file: Path, run: Run) -> None:
    file.write_text("kind: [\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    code, out, _ = run("lint", "-f", file.name)
    assert code == 1
    assert out.startswith("claim.yaml:2: error unreadable\n    not YAML: ")


def test_nothing_given(file: Path, run: Run) -> None:
    assert run("lint")[0] == 2
    file.write_text("# nothing\n")
    code, out, _ = run("lint", "-f", file.name)
    assert code == 1
    assert out.startswith(
        "claim.yaml: error unreadable\n    holds no objects; kubectl refuses the file\n    fix: Write it, or"
    )


def test_certain_repairs_touch_nothing_else(file: Path, run: Run) -> None:
    code, out, err = run("lint", "--fix", "-f", file.name)
    assert (code, err) == (1, "note: claim.yaml: 1 repaired\n")
    assert "unknown-request" in out
    assert "wrong-type" not in out
    assert file.read_text() == CLAIM.replace('"2"   # two', "2   # two")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata: {name: ü}  # old\nspec: {}\n", "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: ü}  # old\nspec: {}\n"),
        ("# é\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a, labels: {on: on, x: 010}}\nspec: {}\n", "# é\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a, labels: {on: \"on\", x: \"010\"}}\nspec: {}\n"),
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec:\n  Selectors: # why\n  - cel:\n      Expression: device.driver == 'x'\n", "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec:\n  selectors: # why\n  - cel:\n      expression: device.driver == 'x'\n"),
        ('{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",\n "metadata": {"name": "a", "labels": {"b": 1}}, "spec": {"Selectors": []}}\n', '{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",\n "metadata": {"name": "a", "labels": {"b": "1"}}, "spec": {"selectors": []}}\n'),
        ("apiVersion: v1\nkind: List\nitems:\n- apiVersion: resource.k8s.io/v1\n  kind: DeviceClass\n  metadata: {name: a}\n  spec:\n    selectors:\n    - cel:\n        expression: |\n          device.attributes['d'].x == 'a' &&\n          device.attributes['d'].y == 'b'\n# end\n", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: resource.k8s.io/v1\n  kind: DeviceClass\n  metadata: {name: a}\n  spec:\n    selectors:\n    - cel:\n        expression: |\n          has(device.attributes['d'].x) &&\n          device.attributes['d'].x == 'a' &&\n          has(device.attributes['d'].y) &&\n          device.attributes['d'].y == 'b'\n# end\n"),
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {selectors: [{cel: {expression: \"device.attributes['d'].x\"}}]}\n", "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {selectors: [{cel: {expression: \"has(device.attributes['d'].x) && device.attributes['d'].x\"}}]}\n"),
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {selectors: [{cel: {expression: 'device.attributes[\"d\"].x'}}]}\n", "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {selectors: [{cel: {expression: 'has(device.attributes[''d''].x) && device.attributes[''d''].x'}}]}\n"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims: [{name: a-gpu, resourceClaimName: c}]\n  containers:\n  - {name: c, image: x, resources: {claims: [{name: aGPU}]}}\n", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims: [{name: a-gpu, resourceClaimName: c}]\n  containers:\n  - {name: c, image: x, resources: {claims: [{name: a-gpu}]}}\n"),
    ],
)  # fmt: skip
def test_repairs(before: str, after: str, file: Path, run: Run) -> None:
    file.write_text(before)
    assert run("lint", "--fix", "-f", file.name)[:2] == (0, "")
    assert file.read_text() == after


def test_repairs_by_inventory(file: Path, run: Run) -> None:
    slices = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec: {driver: d, nodeName: n1, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: a, attributes: {memoryGb: {int: 80}}}]}\n"
    text = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec:\n  selectors:\n  - cel:\n      expression: device.driver == 'd' && device.attributes['d'].memory_gb >= '40'  # enough\n"
    file.write_text(slices + text)
    assert run("lint", "--inventory", "--fix", "-f", file.name)[:2] == (0, "")
    assert file.read_text() == slices + text.replace("memory_gb >= '40'", "memoryGb >= 40")


def test_standard_input(file: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CLAIM.encode())))
    code, out, _ = run("lint", "-f", "-")
    assert (code, out.startswith("(stdin):12: error wrong-type")) == (1, True)
    code, out, err = run("lint", "--fix", "-f", "-")
    assert (code, out, err) == (2, "", "error: --fix writes files; standard input is none\n")


@pytest.mark.skipif(not SLICES.is_dir(), reason="no shared data")
@pytest.mark.parametrize("file", sorted(SLICES.glob("*.yaml")) if SLICES.is_dir() else [], ids=lambda file: file.name)
def test_captured_inventories_are_clean(file: Path, run: Run) -> None:
    assert run("lint", "--inventory", "-f", str(file)) == (0, "", "")


@pytest.mark.parametrize("folder", sorted({file.parent for file in (ROOT / "examples").rglob("*.yaml")}), ids=str)
def test_examples_are_clean(folder: Path, run: Run) -> None:
    assert run("lint", "-f", str(folder)) == (0, "", "")


def test_converted_manifests_are_clean(run: Run) -> None:
    cases = ROOT / "tests/convert/cases"
    for file in sorted(cases.glob("*.want.yaml")):
        code, out, _ = run("lint", "-o", "json", "-f", str(file))
        # A sketch of a Job without containers has one that does nothing; what was written there is clean.
        assert [item["code"] for item in json.loads(out)] == [], file.name
        assert code == 0


def test_the_table_of_rules_is_true() -> None:
    table: dict[str, tuple[bool, str, list[str]]] = {}
    for line in (ROOT / "docs/lint.md").read_text().partition("## Rules")[2].splitlines():
        if match := re.match(r"\| `([a-z-]+)`( •)?( \(warning\))? \| (.*) \|$", line):
            cells = [cell.replace("\\|", "|") for cell in match[4].split(" | ")]
            table[match[1]] = (bool(match[2]), "warning" if match[3] else "error", cells)
    assert table == {
        rule.code: (rule.inventory, rule.level, [rule.what, rule.outcome, rule.repair]) for rule in RULES.values()
    }
