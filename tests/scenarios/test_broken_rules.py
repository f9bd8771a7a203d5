"""Every scenario fails when a rule that it shows is broken."""

from __future__ import annotations

import pytest

from tests.scenarios.breaking import RULES
from tests.scenarios.rules.rule import Rule
from tests.scenarios.story import stories
from tests.scenarios.test_on_the_embedded_cluster import play

STORIES = {story.name: story for story in stories()}
CASES = [(rule, name) for rule in RULES for name in rule.scenarios]


@pytest.mark.parametrize(("rule", "name"), CASES, ids=lambda each: each if isinstance(each, str) else each.name)
def test_it_fails_without_its_rule(rule: Rule, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule.without(monkeypatch)
    with pytest.raises(AssertionError, match=r"\(at "):
        play(STORIES[name])


def test_every_scenario_has_a_rule() -> None:
    assert {name for _, name in CASES} == set(STORIES)
