"""The scenario files marked `real` on the real control plane: real watches, evictions, disruption budgets and scheduling.

`DRA_SCENARIOS=REGEX` plays only those whose name matches.
"""

from __future__ import annotations

import os
import re

import pytest

from devcluster import ControlPlane
from devcluster.install import install
from devcluster.install import operator as running_operator
from tests.real.operator_process import OperatorProcess
from tests.real.scenario_player import play
from tests.scenarios.story import stories

pytestmark = pytest.mark.real

#: Stories at a time. They mostly wait; the control plane and the operator have two processors.
AT_ONCE = 40


@pytest.mark.timeout(600)
def test_scenarios(control_plane: ControlPlane, operator: OperatorProcess) -> None:
    chosen = [story for story in stories() if story.real]
    assert len(chosen) >= 15
    wanted = os.environ.get("DRA_SCENARIOS", "")
    chosen = [story for story in chosen if re.search(wanted, story.name)]
    plays = list(play(control_plane, chosen, AT_ONCE))
    for each in sorted(plays, key=lambda each: -each.seconds):
        print(f"{each.seconds:5.1f} s  {each.story.name}")
    troubles = [each.trouble for each in plays if each.trouble]
    assert not troubles, "\n\n".join([f"{len(troubles)} of {len(plays)} stories went wrong", *troubles])
    crashes = [line for line in operator.text().splitlines() if "the engine crashed" in line]
    assert operator.metric("engine_crashes_total") == 0, "\n".join(crashes)


def test_list_attributes() -> None:
    """Kubernetes 1.37 knows them behind an alpha gate, so they need a control plane of their own."""
    [story] = [story for story in stories() if story.name.endswith("aliases-and-lists")]
    with ControlPlane.start(feature_gates={"DRAListTypeAttributes": True}) as plane:
        install(plane)
        with running_operator(plane) as process:
            [played] = play(plane, [story], 1)
            assert not played.trouble, f"{played.trouble}\n{process.log.read_text()[-4000:]}"
