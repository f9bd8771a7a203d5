"""Who goes for whom."""

from __future__ import annotations

from dra_operator.engine import ties
from dra_operator.engine.choosing import Choosing
from dra_operator.engine.holding import Holding
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.reportcontent import Content
from dra_operator.engine.reporting import Reporter
from dra_operator.preemption import search as searching
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.holders import HolderIndex
from dra_operator.preemption.holds import Holds
from dra_operator.preemption.search import Search
from tests.scenarios.breaks import (
    all_or_nobody,
    alone,
    always_preempting,
    asked,
    blind_to_counters,
    dearer,
    empty,
    function,
    lowest_user,
    method,
    no,
    none,
    nothing,
    one_by_one,
    only_for_pods,
    only_pods,
    only_rank,
    patient,
    ungraceful,
    yes,
)
from tests.scenarios.rules.rule import Rule

PREEMPTING = (
    Rule(
        "victims are of lower priority",
        asked(priority=10**6),
        ("preemption/nobody-of-equal-priority", "preemption/aging-evicts-nobody", "preemption/no-thrash"),
    ),
    Rule("the priority delta counts", asked(min_delta=1), ("preemption/the-priority-delta-counts",)),
    Rule("maxVictims counts", asked(max_victims=100), ("preemption/no-more-than-the-policy-allows",)),
    Rule(
        "the pod must fit",
        asked(fits=yes),
        ("preemption/no-eviction-where-the-pod-would-not-fit-anyway",),
    ),
    Rule("the lowest priority goes", dearer(priority=0), ("preemption/the-lowest-priority-goes",)),
    Rule("the youngest goes", dearer(since=0.0), ("preemption/the-youngest-goes",)),
    Rule("the smallest goes", dearer(since=0.0, devices=0), ("preemption/the-smallest-sufficient-goes",)),
    Rule("all who share can go", one_by_one, ("preemption/who-shares-a-claim-goes-together",)),
    Rule("all who share go, or nobody", alone, ("preemption/who-shares-a-claim-with-the-protected-stays",)),
    Rule("the highest user counts", lowest_user, ("preemption/a-shared-claim-is-as-high-as-its-highest-user",)),
    Rule(
        "preemptible is heeded",
        function(ties._may_go, yes),
        ("preemption/not-preemptible-stays", "policies/preemptible-taken-back-while-it-waits"),
    ),
    Rule(
        "budgets are counted",
        function(searching.charges_of, lambda holder, budgets: {}),
        ("preemption/budget-forbids-the-cheapest-victim", "preemption/a-budget-counts-over-all-victims"),
    ),
    Rule("a budget that is gone is forgotten", method(Budgets, "remove", no), ("preemption/a-lifted-budget-lets-go",)),
    Rule(
        "what leaves anyway counts",
        method(Holding, "leaving", lambda self: (frozenset(), frozenset())),
        ("preemption/nobody-goes-for-what-comes-free-anyway",),
    ),
    Rule(
        "what one preemptor waits for another does not count on",
        method(Choosing, "_spoken_for", nothing),
        (
            "preemption/two-preemptors-choose-different-victims",
            "preemption/two-preemptors-count-nothing-twice",
        ),
    ),
    Rule(
        "the mode decides",
        always_preempting,
        (
            "preemption/never-means-never",
            "preemption/preemption-policy-never-of-the-class",
            "preemption/when-starved-by-default",
            "preemption/the-seed-story-with-never",
            "preemption/the-policy-goes-while-the-victim-stops",
        ),
    ),
    Rule(
        "victims are chosen",
        method(Preempting, "_wants", no),
        (
            "preemption/the-seed-story",
            "preemption/the-seed-story-with-a-broader-class",
            "preemption/the-fewest-go",
            "preemption/freed-devices-are-for-the-preemptor",
            "phases/preempting-comes-before-starved",
            "policies/preemption-allowed-while-it-waits",
            "gangs/a-gang-that-grows-while-victims-leave",
        ),
    ),
    Rule("Always means at once", patient, ("preemption/always-means-at-once",)),
    Rule("the policy's grace period", ungraceful, ("preemption/the-grace-period-of-the-policy",)),
    Rule(
        "what is freed is the preemptor's by name",
        method(Holds, "before", only_rank),
        ("preemption/an-aged-claim-does-not-take-what-was-freed",),
    ),
    Rule(
        "idle claims are victims too",
        only_pods,
        ("preemption/a-bare-victim-is-freed-without-eviction", "preemption/an-idle-claim-goes-before-a-pod"),
    ),
    Rule(
        "network-attached devices have holders",
        method(HolderIndex, "anywhere", empty),
        ("preemption/network-attached-devices",),
    ),
    Rule(
        "counters in the way have holders",
        blind_to_counters,
        ("preemption/the-holder-of-the-counters-goes",),
    ),
    Rule(
        "no more go than it takes",
        method(Search, "_suffices", all_or_nobody),
        ("preemption/enough-shares-are-evicted",),
    ),
    Rule(
        "whom a victim made room for outlives the operator",
        method(Reporter, "_restore_preemptor", none),
        ("preemption/who-made-it-go-outlives-a-restart",),
    ),
    Rule(
        "the reports tell",
        method(Content, "_preemption", lambda self, seen, unit: {}),
        ("preemption/victims-and-preemptor-are-told", "preemption/reports-name-victims-and-preemptor"),
    ),
    Rule("bare claims preempt too", only_for_pods, ("preemption/a-bare-claim-makes-room-for-itself",)),
    Rule(
        "who waits in vain looks again",
        method(Preempting, "_still_leaving", yes),
        ("preemption/the-node-is-cordoned-while-the-victim-stops",),
    ),
)
