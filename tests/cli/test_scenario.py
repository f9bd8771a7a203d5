"""Scenarios: what a step may say, files beside the Scenario, and one mistake that does not cost the other steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.cli.manifests import read_manifests
from dra_operator.cli.scenario import read_scenario

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def write(folder: Path, spec: Any, name: str = "scenario.json") -> Path:
    document = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}
    (folder / name).write_text(json.dumps(document))
    return folder / name


def problems(folder: Path, spec: Any) -> list[str]:
    found = read_manifests([str(write(folder, spec))])
    read_scenario(found)
    return [problem.message for problem in found.problems]


def test_without_a_scenario_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(POD))
    scenario, applied = read_scenario(read_manifests([str(tmp_path)]), 7.0)
    assert (scenario.steps, scenario.until, applied) == ((), 7.0, [])


def test_steps_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    spec = {
        "until": "5m",
        "steps": [
            {"at": "2m", "delete": ["pod/team/a", "node/n1"], "finish": ["po/team/b"]},
            {"at": 30, "apply": [POD, "more/claim.yaml", {"kind": "List", "apiVersion": "v1", "items": [POD]}]},
            {"at": "6m", "apply": [POD]},
        ],
    }
    (tmp_path / "more").mkdir()
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c, namespace: team}\n"
    (tmp_path / "more" / "claim.yaml").write_text(claim)
    found = read_manifests([str(write(tmp_path, spec))])
    scenario, applied = read_scenario(found)
    assert found.problems == []
    assert scenario.until == 300.0
    assert [step.at for step in scenario.steps] == [30.0, 120.0]
    first, second = scenario.steps
    assert [(item["kind"], item["metadata"]) for item in first.apply] == [
        ("Pod", {"name": "p", "namespace": "default"}),
        ("ResourceClaim", {"name": "c", "namespace": "team"}),
        ("Pod", {"name": "p", "namespace": "default"}),
    ]
    assert [manifest.source.file for manifest in applied][1] == str(tmp_path / "more" / "claim.yaml")
    assert [target.key for target in second.delete] == [Key("team", "a"), Key("", "n1")]
    assert [target.key for target in second.finish] == [Key("team", "b")]


def test_the_end_can_be_moved(tmp_path: Path) -> None:
    found = read_manifests([str(write(tmp_path, {"until": "5m", "steps": [{"at": "4m"}, {"at": "6m"}]}))])
    assert read_scenario(found, 600.0)[0].until == 600.0
    assert len(read_scenario(found, 600.0)[0].steps) == 2
    assert read_scenario(found, 60.0)[0].steps == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "Scenario s: spec is no mapping"),
        ({"steps": {}}, "Scenario s: spec.steps is no list"),
        ({"untill": "5m"}, "Scenario s: spec.untill is not known; did you mean until?"),
        ({"until": "soon"}, "Scenario s: spec.until: 'soon' is not a duration: write one such as 30s, 1h30m or 500ms"),
        ({"steps": ["x"]}, "Scenario s: spec.steps[0] is no mapping; write it as {at: 30s, apply: […]}"),
        ({"steps": [{"apply": []}]}, "Scenario s: spec.steps[0].at is missing; say when, as in 30s"),
        ({"steps": [{"at": -1}]}, "Scenario s: spec.steps[0].at: -1 is not a duration: write one such as 30s, 1h30m or 500ms"),
        ({"steps": [{"at": "1s", "remove": []}]}, "Scenario s: spec.steps[0].remove is not known; there are at, apply, delete, finish"),
        ({"steps": [{"at": "1s", "delete": "pod/a/b"}]}, "Scenario s: spec.steps[0].delete is no list; put it in brackets"),
        ({"steps": [{"at": "1s", "delete": ["pad/a/b"]}]}, "Scenario s: spec.steps[0].delete[0]: 'pad/a/b': kind 'pad' is not known; write for example pod/NAMESPACE/NAME"),
        ({"steps": [{"at": "1s", "delete": ["pod/b"]}]}, "Scenario s: spec.steps[0].delete[0]: 'pod/b' does not name a Pod; write pod/NAMESPACE/NAME"),
        ({"steps": [{"at": "1s", "finish": ["node/n1"]}]}, "Scenario s: spec.steps[0].finish[0]: only pods finish; write pod/NAMESPACE/NAME"),
        ({"steps": [{"at": "1s", "apply": [{"kind": "Pod", "apiVersion": "v1"}]}]}, "Pod (no name): metadata.name is missing; give it a name"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, spec: Any, message: str) -> None:
    assert problems(tmp_path, spec) == [message]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, {"steps": [{"at": "1s", "apply": ["nowhere.yaml"]}]})
    assert problem == f"Scenario s: spec.steps[0].apply[0]: there is no file {tmp_path / 'nowhere.yaml'}"


def test_a_mistake_costs_its_item_only(tmp_path: Path) -> None:
    spec = {"steps": [{"at": "x"}, {"at": "1s", "delete": ["pad/a/b", "pod/a/b"]}]}
    found = read_manifests([str(write(tmp_path, spec))])
    (step,) = read_scenario(found)[0].steps
    assert [target.key for target in step.delete] == [Key("a", "b")]
    assert len(found.problems) == 2


def test_a_second_scenario_is_not_played(tmp_path: Path) -> None:
    write(tmp_path, {"steps": [{"at": "1s"}]}, "a.json")
    write(tmp_path, {"steps": []}, "b.json")
    found = read_manifests([str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert len(found.of_kind("Scenario")) == 1
    assert "was given before, differently" in found.problems[0].message
