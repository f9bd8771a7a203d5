"""Rules of the engine, each broken on purpose: what a scenario shows is worth something only if it fails without its rule.

`RULES` says how each is broken and which scenarios must fail then; `test_broken_rules` plays them. How a thing is broken where that
takes more than a line is in `breaks`.
"""

from __future__ import annotations

from tests.scenarios.rules.devices import DEVICES
from tests.scenarios.rules.gangs import GANGS
from tests.scenarios.rules.policies import POLICIES
from tests.scenarios.rules.preempting import PREEMPTING
from tests.scenarios.rules.queueing import QUEUEING
from tests.scenarios.rules.rule import Rule

RULES: tuple[Rule, ...] = (*QUEUEING, *PREEMPTING, *GANGS, *POLICIES, *DEVICES)
