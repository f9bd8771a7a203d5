"""`kubectl-dra solve`: files in, JSON Lines out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.solve import solve
from tests.allocator.problems import make_problem


def problem(name: str = "p", count: int = 1, **more: Any) -> dict[str, Any]:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"d{i}"} for i in range(2)]
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    request = {"name": "r", "exactly": {"deviceClassName": "any", "count": count}}
    return {
        "name": name,
        "node": {"metadata": {"name": "n"}},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "claims": [{"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": {"requests": [request]}}}],
        **more,
    }


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Write a file, solve it, and give back the lines of stdout as JSON where they are."""

    def call(text: str, name: str = "problem.json", **options: Any) -> list[Any]:
        path = tmp_path / name
        path.write_text(text)
        solve(str(path), **options)
        lines = capsys.readouterr().out.splitlines()
        return [json.loads(line) if line.startswith("{") else line for line in lines]

    return call


def test_the_three_kinds_of_answers(run: Any) -> None:
    lines = [problem("yes"), problem("no", count=3), problem("wrong", classes=[])]
    solved, unsolved, failed = run("\n".join(map(json.dumps, lines)), "problems.jsonl")
    assert solved["name"] == "yes"
    assert solved["node"] == "n"
    assert [item["device"] for item in solved["results"][0]["devices"]["results"]] == ["d0"]
    assert unsolved["results"] is None
    assert "claim c" in unsolved["explanation"]
    assert set(failed) == {"name", "error"}
    assert "device class any not found" in failed["error"]


def test_yaml_and_a_document_without_a_name(run: Any) -> None:
    text = """
node: {metadata: {name: n1}}
classes: [{metadata: {name: any}}]
claims: [{metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}}]
"""
    (answer,) = run(text, "problem.yaml")
    assert answer["name"] == "problem-1"
    assert answer["results"] is None


@pytest.mark.parametrize(
    ("features", "solvable"),
    [
        (None, True),
        (["ConsumableCapacity"], False),
        ({"AdminAccess": False}, False),
        ({"ConsumableCapacity": False}, True),
    ],
)
def test_features_as_a_list_or_a_map(run: Any, features: Any, solvable: bool) -> None:
    given = problem(**({} if features is None else {"features": features}))
    given["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    (answer,) = run(json.dumps(given))
    assert ("error" not in answer) == solvable


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"slices": []}, ""),
        (
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}},
            "; ResourceClaim is a manifest, which `simulate` and `explain` read",
        ),
    ],
)
def test_what_is_no_problem_is_not_answered_with_a_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], more: str
) -> None:
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(given))
    with pytest.raises(CommandFailed):
        solve(str(path))
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"name": "problem-1", "error": f"`claims` is missing, so this is no allocation problem{more}"}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"features": ["Nonsense"]}, "unknown feature 'Nonsense'"),
        ({"claims": 3}, "`claims` must be a list"),
        ({"allocated": {"devices": ["x"]}}, "driver/pool/device"),
        ({"allocated": 7}, "`allocated` must be a mapping, found the number 7"),
        ({"allocated": {"shared": [1]}}, "`allocated.shared` must be a list of texts"),
        ({"allocated": {"capacity": {"d/p/x": {"memory": []}}}}, "allocated.capacity of d/p/x: "),
        ({"nodes": [{"metadata": {"name": ["n"]}}]}, "Node #0 of `nodes`: metadata.name: expected text, found a list"),
        ({"slices": [{"metadata": {"name": "s"}, "spec": {}}]}, "ResourceSlice s"),
        (
            {"claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"exactly": 1}]}}}]},
            "ResourceClaim c",
        ),
    ],
)
def test_bad_input_is_named_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: dict[str, Any], words: str
) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(problem("bad", **broken)) + "\n" + json.dumps(problem("good")))
    with pytest.raises(CommandFailed):
        solve(str(path))
    printed = capsys.readouterr()
    bad, good = map(json.loads, printed.out.splitlines())
    assert words in bad["error"]
    assert f"bad: {bad['error']}" in printed.err
    assert good["results"]


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CommandFailed, match=r"nowhere\.json: cannot be read"):
        solve("nowhere.json")


def test_fill(run: Any) -> None:
    given = problem()
    given["claims"] *= 3
    *answers, last = run(json.dumps({**given, "nodes": [given.pop("node")]}), fill=True)
    taken = [item["results"] and item["results"][0]["devices"]["results"][0]["device"] for item in answers]
    assert taken == ["d0", "d1", None]
    assert re.fullmatch(r"claims=3 allocated=2 load_seconds=\d+\.\d{3} seconds=\d+\.\d{3}", last)


def test_the_same_input_gives_the_same_bytes(run: Any) -> None:
    text = "\n".join(json.dumps(make_problem(seed)) for seed in range(40))
    assert run(text, "problems.jsonl") == run(text, "problems.jsonl")
