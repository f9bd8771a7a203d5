"""Members that start together or not at all."""

from __future__ import annotations

from dra_operator.engine import ties
from dra_operator.engine.gangproblems import GangProblems
from dra_operator.engine.gangs import Gangs
from dra_operator.engine.groups import Roll
from dra_operator.queue.groups import GroupBook
from tests.scenarios.breaks import empty, first_member, function, later_as_gang, method, must, no, none
from tests.scenarios.rules.rule import Rule

GANGS = (
    Rule(
        "all or none",
        method(Roll, "needed", property(lambda self: 1)),  # type: ignore[arg-type]
        (
            "gangs/all-or-none",
            "gangs/a-quota-counts-the-whole-gang",
            "gangs/members-wait-for-each-other",
            "gangs/a-gang-that-shrinks-stops-it",
            "gangs/the-operator-dies-half-way",
            "gangs/two-gangs-compete",
        ),
    ),
    Rule(
        "a group is waited for",
        method(GroupBook, "apply", no),
        (
            "gangs/a-label-that-names-no-group",
            "gangs/the-operator-dies-half-way",
        ),
    ),
    Rule(
        "groups time out",
        method(Gangs, "_time_out", empty),
        ("gangs/an-incomplete-group-times-out", "gangs/a-timeout-releases-what-it-has"),
    ),
    Rule(
        "the topology decides",
        method(GangProblems, "topology", none),
        (
            "gangs/same-keeps-it-under-one-value",
            "gangs/spread-takes-different-values",
            "gangs/the-model-case",
            "gangs/room-is-made-for-all-members",
        ),
    ),
    Rule(
        "what claims had before their gang came is placed with it",
        method(Gangs, "_early", empty),
        ("gangs/claims-that-had-devices-before",),
    ),
    Rule("Prefer is no must", must, ("gangs/same-where-possible",)),
    Rule(
        "constraints across members",
        method(GangProblems, "_group_link", none),
        ("gangs/a-constraint-across-members",),
    ),
    Rule(
        "room for all members or for none",
        first_member,
        (
            "gangs/nobody-goes-for-half-a-gang",
            "gangs/two-gangs-preempt",
        ),
    ),
    Rule(
        "gangs give way by their rules",
        function(ties.groups_of, lambda state, tied: ()),
        ("gangs/a-gang-goes-whole-or-not-at-all",),
    ),
    Rule(
        "later members are no gang",
        later_as_gang,
        ("gangs/later-members-come-one-by-one", "gangs/a-gang-that-grows-while-victims-leave"),
    ),
)
