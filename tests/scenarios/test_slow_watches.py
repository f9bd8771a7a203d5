"""The stories of the real control plane, played as on a slow one: watches and requests take up to seconds, in any order.

A step that builds on what an earlier one brought about needs a check between them, here as there: the player waits in a check.
"""

from __future__ import annotations

import random
import uuid

import pytest

from dra_operator.cluster.memory.faults import Rates, SeededFaults
from dra_operator.cluster.memory.registrar import Registrar
from tests.engine.stage import Stage
from tests.scenarios.looking import seen
from tests.scenarios.story import Check, Step, Story, stories
from tests.scenarios.test_on_the_embedded_cluster import Embedded, do

#: Less than the age at which a claim that no pod is known of is allocated by itself.
SLOW = Rates(conflict=0, error=0, lost=0, unanswered=0, killed=0, watch=0, slow=0.4, slowest=1.6)
#: Seconds after its time within which a check must come true.
PATIENCE = 75.0
_EVERY = 0.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("story", [each for each in stories() if each.real], ids=lambda story: story.name)
def test_real_scenario(story: Story, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(seed)
    monkeypatch.setattr(Registrar, "_uid", lambda self, meta: str(uuid.UUID(int=drawn.getrandbits(128), version=4)))
    stage = Stage(*story.given, faults=SeededFaults(seed, SLOW))
    stage.run(1.0)
    start = stage.world.now
    for what in story.moments:
        stage.world.run_until(max(stage.world.now, start + what.at))
        if isinstance(what, Step):
            do(stage, what)
        else:
            await_check(stage, what, story)
            start = max(start, stage.world.now - what.at)


def await_check(stage: Stage, check: Check, story: Story) -> None:
    end, expected = stage.world.now + PATIENCE, _sorted(check.expected)
    while (found := _sorted(seen(Embedded(stage), check))) != expected:
        assert stage.world.now < end, f"{story.told} (at {check.at:g} s)\n  expected {expected}\n  found    {found}"
        stage.run(_EVERY)


def _sorted(found: dict[str, object]) -> dict[str, object]:
    """Who is evicted first is not said."""
    return {name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}
