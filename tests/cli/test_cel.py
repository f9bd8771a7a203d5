"""`kubectl-dra cel`: single and batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cli.main import run

DEVICE = {"driver": "gpu.example.com", "attributes": {"index": {"int": 3}, "model": {"string": "a100"}}}
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  nodeName: node-1
  devices:
  - {name: gpu-0, attributes: {index: {int: 0}}, capacity: {memory: {value: 40Gi}}}
  - {name: gpu-1, attributes: {index: {int: 1}}, capacity: {memory: {value: 80Gi}}}
  - {name: gpu-2, capacity: {memory: {value: lots}}}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[Any], str]:
    with pytest.raises(SystemExit) as stop:
        run(["cel", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), [json.loads(line) for line in out.splitlines()], err


def test_one_expression_one_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "device.json"
    file.write_text(json.dumps(DEVICE | {"name": "gpu-3"}))
    code, lines, err = call(capsys, 'device.attributes["gpu.example.com"].index == 3', "--device", str(file))
    assert (code, lines, err) == (0, [{"name": "gpu-3", "match": True}], "")


def test_a_slice_gives_an_answer_for_each_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "slice.yaml"
    file.write_text(SLICE)
    expression = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
    code, lines, err = call(capsys, expression, "--device", str(file))
    assert code == 1
    assert [(line["name"], line.get("match")) for line in lines] == [
        ("gpu.example.com/node-1/gpu-0", False),
        ("gpu.example.com/node-1/gpu-1", True),
        ("gpu.example.com/node-1/gpu-2", None),
    ]
    assert "gpu-2" in err
    assert "lots" in err


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("hello\n", "a device must be a map, found the text 'hello'"),
        ("[1]\n", "a device must be a map, found a list"),
        ("a: 1\n", "is no device: it has none of attributes, capacity, driver, name"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "holds no device"),
    ],
)
def test_what_is_no_device_does_not_match_by_accident(
    text: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "device.yaml"
    file.write_text(text)
    code, lines, err = call(capsys, "true", "--device", str(file))
    assert code == 1
    assert not any("match" in line for line in lines)
    assert err.startswith(f"error: {file}: ")
    assert wrong in err


def test_a_snapshot_is_asked_for_its_slices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.yaml"
    file.write_text(f"apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n---{SLICE.replace('lots', '1Gi')}")
    code, lines, _ = call(capsys, "true", "--device", str(file))
    assert (code, [line["match"] for line in lines]) == (0, [True, True, True])


def test_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = {"EnableListTypeAttributes": True}
    exists = 'device.attributes["gpu.example.com"].ids.exists(id, id == 1)'
    ids = DEVICE | {"attributes": {"ids": {"ints": [1, 2]}}}
    cases = [
        {"name": "yes", "expression": 'device.driver == "gpu.example.com"', "device": DEVICE},
        {"name": "no", "expression": "false", "device": DEVICE, "features": {}},
        {"name": "fails", "expression": 'device.attributes["x"].y', "device": DEVICE},
        {"name": "broken", "expression": "?!", "device": DEVICE},
        {"name": "old type", "expression": exists, "device": ids, "envType": "NewExpressions"},
        {"name": "new type", "expression": exists, "device": ids, "envType": "NewExpressions", "features": lists},
        {"name": "bare", "expression": "true", "device": {"driver": "", "attributes": None, "capacity": None}},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases) + "\n")
    code, lines, err = call(capsys, "--cases", str(file))
    assert (code, err) == (0, "")
    assert [set(line) - {"name"} for line in lines] == [
        *({"match"}, {"match"}, {"error"}, {"compileError"}, {"compileError"}, {"match"}, {"match"})
    ]
    assert [line.get("match") for line in lines] == [True, False, None, None, None, True, True]
    assert "no such key: y" in lines[2]["error"]
    assert "Syntax error" in lines[3]["compileError"]


def test_one_bad_case_does_not_stop_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.jsonl"
    good = json.dumps({"name": "good", "expression": "true", "device": DEVICE})
    bad = [
        "{",
        "[]",
        json.dumps({"name": "no device", "expression": "true"}),
        json.dumps({"name": "no text", "expression": 5, "device": DEVICE}),
        json.dumps({"name": "attribute", "expression": "true", "device": {"attributes": {"a": {"int": "x"}}}}),
        json.dumps({"name": "environment", "expression": "true", "device": DEVICE, "envType": "Old"}),
    ]
    file.write_text("\n".join([*bad, good]))
    code, lines, err = call(capsys, "--cases", str(file))
    assert code == 1
    assert [line["name"] for line in lines] == [
        *("line 1", "line 2", "no device", "no text", "attribute", "environment", "good")
    ]
    assert all("error" in line for line in lines[:-1])
    assert lines[-1]["match"] is True
    assert f"error: {file}: line 1: not JSON: " in err
    assert "a case is one line of JSON" in err
    assert "environment: envType must be one of StoredExpressions, NewExpressions" in err


@pytest.mark.parametrize("arguments", [[], ["true"], ["true", "--cases", "x"], ["--device", "x"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, err = call(capsys, *arguments)
    assert (code, lines) == (2, [])
    assert "--cases FILE" in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "true", "--device", "/nowhere/device.yaml")
    assert code == 1
    assert "/nowhere/device.yaml: cannot be read" in err
