"""Which devices and nodes are chosen where several would do, and what is done when they change."""

from __future__ import annotations

from dra_operator.engine import constraining, givingback, preferring
from dra_operator.engine.drifting import Drifting
from dra_operator.engine.preferring import NodeWishes
from dra_operator.engine.reallocating import Reallocating
from dra_operator.preemption.budgets import Budgets
from tests.scenarios.breaks import (
    always_reallocating,
    empty,
    function,
    method,
    no,
    none,
    preferred_is_required,
    wishes_are_required,
    without_constraints,
)
from tests.scenarios.rules.rule import Rule

DEVICES = (
    Rule(
        "constraints across the claims of a pod",
        function(constraining.within_unit, lambda *args: ()),
        (
            "alignment/gpu-and-nic-on-one-numa-node",
            "alignment/aliases-and-lists",
            "alignment/preferred-gives-way-and-required-is-explained",
        ),
    ),
    Rule(
        "what claims had before their pod is aligned, too",
        function(givingback.give_back_early, empty),
        ("alignment/claims-that-had-devices-before",),
    ),
    Rule("Preferred is no must", preferred_is_required, ("alignment/preferred-gives-way-and-required-is-explained",)),
    Rule(
        "aliases mean the same",
        function(constraining.attributes_of, lambda name, terms: (name,)),
        ("alignment/aliases-and-lists",),
    ),
    Rule("constraints within a claim", without_constraints, ("topology/a-required-domain-is-waited-for",)),
    Rule(
        "devices of one value are preferred",
        function(preferring.device_wishes, lambda *args: ()),
        ("topology/a-claim-gets-one-half-of-the-machine", "topology/a-preference-gives-way"),
    ),
    Rule("a preference of devices is no must", wishes_are_required, ("topology/a-preference-gives-way",)),
    Rule(
        "nodes of one value are preferred",
        method(NodeWishes, "_places", empty),
        ("topology/pods-of-a-workload-stay-in-one-zone",),
    ),
    Rule(
        "groups have preferences too",
        function(preferring.group_topology, none),
        ("topology/a-group-follows-the-preferred-label",),
    ),
    Rule(
        "what is allocated is looked at again",
        method(Drifting, "look", none),
        (
            "drift/a-deleted-class",
            "drift/a-lost-device-of-a-running-pod",
            "drift/an-edited-class-leaves-allocated-claims-alone",
            "drift/changed-attributes",
            "drift/taints-on-allocated-devices",
        ),
    ),
    Rule("Keep moves nothing", always_reallocating, ("drift/an-edited-class-leaves-allocated-claims-alone",)),
    Rule(
        "Reallocate moves",
        method(Reallocating, "_next", empty),
        (
            "drift/reallocate-moves-claims-that-nobody-uses",
            "drift/reallocate-restarts-running-pods-one-at-a-time",
            "drift/a-lost-device-of-a-running-pod",
        ),
    ),
    Rule(
        "who uses nothing loses nothing",
        method(Reallocating, "_unused", no),
        ("drift/a-lost-device-of-a-claim-that-nobody-uses", "drift/taints-on-allocated-devices"),
    ),
    Rule(
        "budgets bind moves",
        method(Budgets, "allows", empty),
        ("drift/a-budget-that-allows-nothing-keeps-a-drifted-pod",),
    ),
    Rule(
        "who would not come back stays",
        method(Reallocating, "_fixed", none),
        ("drift/a-pod-without-a-controller-is-not-restarted",),
    ),
    Rule(
        "who waits comes before a move",
        method(Reallocating, "_rivals", lambda *args: iter(())),
        ("drift/who-waits-comes-before-who-has-drifted",),
    ),
    Rule("drift outlives the operator", method(Drifting, "restore", none), ("drift/drift-outlives-a-restart",)),
)
