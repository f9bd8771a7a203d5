"""`simulate --compare`: the same claims found again in another run, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dra_operator.cli.comparison import Fate, differences, fates_of
from tests.cli.commands import DEMO, call, data, expect

GOLDEN = Path(__file__).parent / "compare"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, flags in (("before", ()), ("after", ("--remove-node", "node-c"))):
        (folder / f"{name}.json").write_text(call("simulate", "-f", DEMO, "-o", "json", *flags).stdout)
    return folder / "before.json", folder / "after.json"


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_output(runs: tuple[Path, Path], form: str) -> None:
    done = call("simulate", "--compare", runs[0].name, runs[1].name, "-o", form, folder=runs[0].parent)
    assert (done.returncode, done.stderr) == (0, "")
    expect(done.stdout, GOLDEN / f"without-a-node.{form}.txt")


def test_manifests_and_saved_results_are_the_same(runs: tuple[Path, Path]) -> None:
    found = data("simulate", "--compare", DEMO, runs[0])
    assert found["claims"] == []
    assert found["summary"]["before"] == found["summary"]["after"]


def test_another_seed_changes_nothing(tmp_path: Path) -> None:
    """Generated names differ; the claims are the same."""
    (tmp_path / "seed.yaml").write_text(call("simulate", "-f", DEMO, "--seed", "7", "-o", "yaml").stdout)
    assert data("simulate", "--compare", DEMO, tmp_path / "seed.yaml")["claims"] == []


MET, LATE, NEVER = Fate("Reserved", "n1", 0), Fate("Reserved", "n1", 20), Fate("Queued", None, None)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"a": MET}, {"a": MET}, []),
        ({"a": MET}, {"a": LATE}, [("a", ["wait"])]),
        ({"a": MET}, {"a": NEVER}, [("a", ["phase", "node", "wait"])]),
        ({"a": MET}, {}, [("a", ["removed"])]),
        ({}, {"a": MET}, [("a", ["added"])]),
        ({"web-bcdfg": MET}, {"web-zzzzz": MET}, []),
        # Those that fared alike stand for each other, whatever their order.
        ({"web-bbbbb": MET, "web-ccccc": NEVER}, {"web-ddddd": NEVER, "web-fffff": MET}, []),
        (
            {"web-bbbbb": MET, "web-ccccc": MET},
            {"web-ddddd": NEVER, "web-fffff": MET},
            [("web-ddddd", ["phase", "node", "wait"])],
        ),
        ({"web-bbbbb": MET}, {"web-ddddd": MET, "web-fffff": MET}, [("web-fffff", ["added"])]),
    ],
)
def test_differences(before: dict[str, Fate], after: dict[str, Fate], changed: list[tuple[str, list[str]]]) -> None:
    sides = [{("ns", name): fate for name, fate in side.items()} for side in (before, after)]
    assert [(item.name, item.changed) for item in differences(*sides)] == changed


def test_waits_add_up() -> None:
    claims = [{"namespace": "ns", "name": "a", "phase": "Reserved", "node": "n1", "devices": [{}]}]
    events = [
        {"at": 9, "object": "claim/ns/a", "reason": "Allocated", "message": "gpu-0 on n1 after 9 s"},
        {"at": 20, "object": "claim/ns/a", "reason": "Freed", "message": "n1/gpu-0"},
        {"at": 25, "object": "claim/ns/a", "reason": "Allocated", "message": "gpu-0 on n1 after 5 s"},
    ]
    assert fates_of({"claims": claims, "events": events}) == {("ns", "a"): Fate("Reserved", "n1", 14)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"claims": [{"name": "a"}]}, "is no result of simulate: KeyError: 'namespace'"),
        ({"claims": ["a"]}, "is no result of simulate: TypeError"),
    ],
)
def test_what_is_no_result(tmp_path: Path, content: object, said: str) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(content))
    done = call("simulate", "--compare", "bad.json", "bad.json", folder=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize("others", [("-f", DEMO), ("--live",), ("--remove-node", "a"), ("--html", "x.html")])
def test_it_takes_two_runs_only(others: tuple[object, ...]) -> None:
    done = call("simulate", "--compare", DEMO, DEMO, *others)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--compare takes its two runs only" in done.stderr
