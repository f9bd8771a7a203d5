"""Who is tried when: order, wake-ups, starvation and its holds."""

from __future__ import annotations

from dra_operator.allocator.candidates import Candidates
from dra_operator.engine import pods
from dra_operator.engine.starvation import Starvation
from dra_operator.engine.state import State
from dra_operator.engine.strict import Strict
from dra_operator.engine.usage import Usage
from dra_operator.preemption.holds import Holds
from dra_operator.queue import fairness, priority, units
from tests.scenarios.breaks import (
    always_holding,
    by_name,
    every_hold,
    fair,
    function,
    ignoring_the_end,
    method,
    no,
    no_holds,
    none,
    one_policy,
    polling,
    since_it_was_made,
    strict_for_all,
    yes,
)
from tests.scenarios.rules.rule import Rule

QUEUEING = (
    Rule(
        "effective priority orders the queue",
        function(units.order, lambda unit: (0, unit.share.value, unit.created, unit.uid)),
        (
            "order/higher-priority-goes-first",
            "order/priority-of-a-bare-claim-is-in-its-annotation",
            "order/the-policy-gives-priority-where-nothing-else-does",
            "policies/an-edited-policy-takes-effect-at-once",
            "starvation/a-higher-priority-may-use-what-is-held",
        ),
    ),
    Rule(
        "the older goes first",
        function(units.order, lambda unit: (-unit.effective, unit.share.value, -unit.created, unit.uid)),
        (
            "order/equal-priority-goes-by-age",
            "order/positions-are-told",
        ),
    ),
    Rule(
        "who has less goes first under FairShare",
        function(fairness.dominant_share, lambda held, totals, weight: 0.0),
        ("order/fair-share-serves-who-has-less", "order/fair-share-looks-at-the-scarcest-class"),
    ),
    Rule(
        "FIFO is no fair share",
        fair,
        ("order/first-come-first-served-without-fair-share",),
    ),
    Rule(
        "a shared claim is as high as its highest user",
        function(pods.priority_of_pod, lambda pod, seen, state: pod.priority),
        ("order/a-shared-claim-has-the-highest-priority-of-its-users",),
    ),
    Rule(
        "weights count",
        function(fairness.dominant_share, lambda held, totals, weight, of=fairness.dominant_share: of(held, totals, 1)),
        ("order/weights-tilt-the-fair-share",),
    ),
    Rule(
        "waiting raises the effective priority",
        function(priority.effective_priority, lambda base, waited, terms: base),
        ("order/aging-lets-the-old-pass", "order/aging-stops-at-its-maximum"),
    ),
    Rule(
        "Strict keeps back",
        method(Strict, "keeps_back", no),
        (
            "order/strict-keeps-the-small-behind",
            "preemption/who-stands-behind-a-stuck-one-evicts-nobody",
        ),
    ),
    Rule(
        "Strict looks at devices", method(Strict, "_overlap", yes), ("order/strict-lets-pass-who-wants-something-else",)
    ),
    Rule(
        "Backfill lets pass, and so does the impossible",
        strict_for_all,
        ("order/backfill-lets-the-small-pass", "order/strict-does-not-wait-for-the-impossible"),
    ),
    Rule(
        "what changed wakes",
        method(State, "relaid", none),
        (
            "wakeups/new-devices-wake",
            "wakeups/a-new-class-wakes",
            "wakeups/an-edited-class-wakes",
            "wakeups/a-lifted-taint-wakes",
            "wakeups/an-uncordoned-node-wakes",
            "drift/a-class-that-asks-for-less-serves-at-once",
        ),
    ),
    Rule("room wakes", method(State, "made_room", none), ("wakeups/freed-cpu-wakes-who-lacked-it",)),
    Rule(
        "a freed device wakes",
        method(Usage, "wakes", lambda self: (False, ())),
        ("wakeups/a-finished-pod-frees-its-devices", "wakeups/a-freed-device-wakes-who-could-use-it"),
    ),
    Rule("nobody else is woken", polling, ("wakeups/nothing-polls", "wakeups/a-freed-device-wakes-who-could-use-it")),
    Rule(
        "the starved are marked",
        method(Starvation, "_mark", none),
        ("starvation/who-waits-too-long-is-starved", "starvation/a-starved-claim-holds-and-is-served"),
    ),
    Rule(
        "what is held is left alone",
        no_holds,
        (
            "starvation/a-hold-at-work",
            "starvation/an-eight-device-claim-behind-a-stream",
            "gangs/a-starved-gang-holds-its-nodes",
            "gangs/what-is-freed-for-a-gang-is-kept-for-it",
            "preemption/nobody-takes-what-waits-for-the-victim-to-leave",
        ),
    ),
    Rule(
        "who comes first or ends in time may use what is held",
        method(Holds, "before", every_hold),
        ("starvation/a-higher-priority-may-use-what-is-held", "starvation/what-ends-in-time-may-use-what-is-held"),
    ),
    Rule("the soonest node is held", by_name, ("starvation/the-node-that-frees-soonest-is-held",)),
    Rule(
        "one of those that compete holds",
        method(Candidates, "overlaps", no),
        ("starvation/only-the-first-of-competitors-holds",),
    ),
    Rule(
        "those that do not compete hold each",
        method(Candidates, "overlaps", yes),
        ("starvation/those-who-do-not-compete-hold-each",),
    ),
    Rule("holds outlive the operator", method(Starvation, "_restore", none), ("starvation/a-hold-survives-a-restart",)),
    Rule(
        "a hold ends with its reason",
        ignoring_the_end,
        (
            "starvation/a-hold-ends-with-its-claim",
            "preemption/the-preemptor-disappears",
            "preemption/another-of-the-same-name-starts-anew",
            "preemption/the-preemptor-fits-elsewhere",
        ),
    ),
    Rule("Strict is a policy's own", one_policy, ("order/strict-binds-its-own-policy-only",)),
    Rule("hold off means off", always_holding, ("starvation/without-a-hold-the-stream-wins",)),
    Rule("a freed claim waits anew", since_it_was_made, ("starvation/a-freed-claim-waits-anew",)),
    Rule(
        "a hold is where its pod could run",
        method(Starvation, "_can_use", yes),
        ("starvation/a-cordoned-node-is-held-no-longer",),
    ),
)
