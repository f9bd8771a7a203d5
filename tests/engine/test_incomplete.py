"""Pods whose claims are not there are told so, once."""

from __future__ import annotations

import pytest

from tests.engine.gangs import LABEL, cluster, group
from tests.engine.stage import Object, Stage, claim, pod, template

NAMED = "waits: ResourceClaim default/a does not exist: create it"
GENERATED = "waits: claim 't0' has not been generated yet; that takes ResourceClaimTemplate gone to exist"


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (pod("p", "a"), NAMED),
        (pod("p", templates=["gone"]), GENERATED),
        (pod("p", "a", labels={LABEL: "gang"}), NAMED),
    ],
    ids=["named", "from a template", "a member of a group"],
)
def test_a_pod_without_its_claim_is_told_once(waiting: Object, words: str) -> None:
    stage = Stage(*cluster(1, 2), group(members=1), waiting).run(9)
    assert stage.events("WaitingForClaim") == []
    stage.run(120)
    assert stage.events("WaitingForClaim") == [words]


def test_what_comes_in_time_is_no_news() -> None:
    stage = Stage(*cluster(1, 2), pod("p", "a")).run(9)
    stage.apply(claim("a"))
    stage.run(60)
    assert stage.bound() == {"p": "n0"}
    assert stage.events("WaitingForClaim") == []


def test_nobody_is_tried_again_for_it() -> None:
    """Every pod waits a moment for its generated claim."""
    stage = Stage(*cluster(1, 1), template(), pod("first", templates=["gpu"])).run(5)
    stage.apply(pod("late", templates=["gpu"]))
    stage.run(20)
    units = stage.engines[-1]._state.units
    assert [unit.attempts for key, unit in units.items() if key.subject.name == "late"] == [1]


def test_each_claim_that_is_missing_is_told() -> None:
    stage = Stage(*cluster(1, 2), pod("p", "a", "b")).run(20)
    stage.apply(claim("a"))
    stage.run(20)
    assert [note.split()[2] for note in stage.events("WaitingForClaim")] == ["default/a", "default/b"]
    stage.apply(claim("b"))
    stage.run(20)
    assert stage.bound() == {"p": "n0"}


def test_a_template_that_comes_later_is_used() -> None:
    stage = Stage(*cluster(1, 2), pod("p", templates=["gpu"])).run(30)
    assert len(stage.events("WaitingForClaim")) == 1
    stage.apply(template())
    stage.run(60)
    assert stage.bound() == {"p": "n0"}
