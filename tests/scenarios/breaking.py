"""Rules of the engine, each broken on purpose: what a scenario shows is worth something only if it fails without its rule.

`RULES` says how each is broken and which scenarios must fail then. `test_broken_rules` plays them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dra_operator.allocator.candidates import Candidates
from dra_operator.engine import pods, starvation, ties
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.choosing import Choosing
from dra_operator.engine.gangproblems import GangProblems
from dra_operator.engine.gangs import Gangs
from dra_operator.engine.groups import Roll
from dra_operator.engine.holding import Holding
from dra_operator.engine.judging import Judge
from dra_operator.engine.policystatus import PolicyReporter
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.queueing import Queue
from dra_operator.engine.reporting import Reporter
from dra_operator.engine.starvation import Starvation
from dra_operator.engine.state import State
from dra_operator.engine.usage import Usage
from dra_operator.preemption import search as searching
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.holders import HolderIndex
from dra_operator.preemption.holds import Holds
from dra_operator.preemption.search import Search
from dra_operator.queue import fairness, priority, units
from dra_operator.queue.budgets import Budget
from dra_operator.queue.groups import GroupBook
from dra_operator.queue.policies import PolicyBook
from tests.scenarios.breaks import (
    all_or_nobody,
    alone,
    always_holding,
    asked,
    blind_to_counters,
    by_name,
    deaf_to_edits,
    dearer,
    empty,
    every_hold,
    fair,
    first_member,
    function,
    ignoring_the_end,
    lowest_user,
    method,
    must,
    no,
    no_holds,
    no_quotas,
    no_reservations,
    none,
    nothing,
    one_by_one,
    one_policy,
    only_pods,
    only_rank,
    patient,
    polling,
    same_phase,
    since_it_was_made,
    strict_for_all,
    ungraceful,
    yes,
)


@dataclass(frozen=True)
class Rule:
    """`without` breaks it."""

    name: str
    without: Callable[[pytest.MonkeyPatch], None]
    scenarios: tuple[str, ...]


RULES = (
    Rule(
        "effective priority orders the queue",
        function(units.order, lambda unit: (0, unit.share, unit.created, unit.uid)),
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
        function(units.order, lambda unit: (-unit.effective, unit.share, -unit.created, unit.uid)),
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
    Rule("Strict keeps back", method(Queue, "_has_turn", yes), ("order/strict-keeps-the-small-behind",)),
    Rule(
        "Strict looks at devices", method(Queue, "_overlap", yes), ("order/strict-lets-pass-who-wants-something-else",)
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
        ("preemption/two-preemptors-choose-different-victims",),
    ),
    Rule(
        "the mode decides",
        method(Preempting, "_wants", yes),
        (
            "preemption/never-means-never",
            "preemption/preemption-policy-never-of-the-class",
            "preemption/when-starved-by-default",
            "preemption/the-seed-story-with-never",
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
        "the reports tell",
        method(Reporter, "_preemption", lambda self, seen, unit: {}),
        ("preemption/victims-and-preemptor-are-told", "preemption/reports-name-victims-and-preemptor"),
    ),
    Rule(
        "all or none",
        method(Roll, "needed", property(lambda self: 1)),  # type: ignore[arg-type]
        (
            "gangs/all-or-none",
            "gangs/a-quota-counts-the-whole-gang",
            "gangs/members-wait-for-each-other",
            "gangs/a-gang-that-shrinks-stops-it",
        ),
    ),
    Rule("a group is waited for", method(GroupBook, "apply", no), ("gangs/a-label-that-names-no-group",)),
    Rule("Strict is a policy's own", one_policy, ("order/strict-binds-its-own-policy-only",)),
    Rule("hold off means off", always_holding, ("starvation/without-a-hold-the-stream-wins",)),
    Rule("a freed claim waits anew", since_it_was_made, ("starvation/a-freed-claim-waits-anew",)),
    Rule(
        "who is over a quota does not starve",
        lambda patch: patch.setattr(starvation, "NOT_STARVING", frozenset()),
        ("quota/who-is-over-blocks-and-starves-nobody",),
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
    Rule("Prefer is no must", must, ("gangs/same-where-possible",)),
    Rule(
        "constraints across members",
        method(GangProblems, "_group_link", none),
        ("gangs/a-constraint-across-members",),
    ),
    Rule("room for all members or for none", first_member, ("gangs/nobody-goes-for-half-a-gang",)),
    Rule(
        "gangs give way by their rules",
        function(ties.groups_of, lambda state, tied: ()),
        ("gangs/a-gang-goes-whole-or-not-at-all",),
    ),
    Rule(
        "quotas hold",
        no_quotas,
        (
            "quota/over-quota-is-told-with-used-and-limit",
            "quota/each-namespace-has-its-own",
            "quota/per-policy-counts-all-namespaces",
            "quota/in-capacity",
            "quota/quotas-of-all-policies-apply",
            "quota/freeing-wakes-who-was-over",
            "gangs/a-quota-counts-the-whole-gang",
        ),
    ),
    Rule(
        "namespaces are counted apart",
        method(Budget, "scope", lambda self, namespace: (self.key, "")),
        ("quota/each-namespace-has-its-own",),
    ),
    Rule(
        "a policy's use is counted together",
        method(Budget, "scope", lambda self, namespace: (self.key, namespace)),
        ("quota/per-policy-counts-all-namespaces",),
    ),
    Rule("freed quota wakes", method(Budgeting, "wakes", lambda self: set()), ("quota/freeing-wakes-who-was-over",)),
    Rule("the last are kept", no_reservations, ("quota/a-reservation-keeps-the-last",)),
    Rule(
        "what its claims use is not kept again",
        method(Accounts, "kept", lambda self, number: next(iter(self.reserves[number].limits.values()))),
        ("quota/a-reservation-shrinks-with-its-use",),
    ),
    Rule(
        "holds leave what is kept",
        method(Judge, "coverable", lambda self, ask, devices: devices),
        ("quota/what-is-reserved-is-not-held",),
    ),
    Rule(
        "edited policies are heard",
        deaf_to_edits,
        (
            "policies/an-edited-policy-takes-effect-at-once",
            "policies/preemption-allowed-while-it-waits",
            "policies/preemptible-taken-back-while-it-waits",
            "policies/strict-taken-back-while-they-wait",
            "quota/an-edited-quota-takes-effect-at-once",
        ),
    ),
    Rule(
        "a policy applies",
        method(PolicyBook, "for_claim", lambda self, claim, labels: ("", self._default)),
        ("policies/the-most-selectors-win", "policies/ties-go-by-name", "policies/a-namespace-selector-selects"),
    ),
    Rule(
        "what means nothing is told",
        method(PolicyReporter, "_verdict", lambda self, name: ("Accepted", "")),
        (
            "policies/an-unknown-class-is-said",
            "policies/a-selector-that-does-not-compile-is-said",
            "policies/a-reservation-larger-than-the-inventory-is-said",
        ),
    ),
    Rule(
        "each phase has its claims",
        same_phase,
        (
            "phases/allocated",
            "phases/reserved",
            "phases/lost",
            "phases/queued",
            "phases/unsatisfiable",
            "phases/a-selector-that-fails-is-unsatisfiable",
            "phases/preempting-comes-before-starved",
        ),
    ),
)
