"""What policies, quotas and reservations say, and what is told in which phase."""

from __future__ import annotations

from dra_operator.engine import starvation
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.intake import Intake
from dra_operator.engine.judging import Judge
from dra_operator.engine.policystatus import PolicyReporter
from dra_operator.queue.budgets import Budget
from dra_operator.queue.policies import PolicyBook
from tests.scenarios.breaks import deaf_to_edits, method, no_quotas, no_reservations, none, other_gates, same_phase
from tests.scenarios.rules.rule import Rule

POLICIES = (
    Rule(
        "who is over a quota does not starve",
        lambda patch: patch.setattr(starvation, "NOT_STARVING", frozenset()),
        ("quota/who-is-over-blocks-and-starves-nobody",),
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
            "quota/a-lowered-quota-takes-nothing-away",
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
            "preemption/the-policys-priority-falls-while-the-victim-stops",
            "policies/preemption-allowed-while-it-waits",
            "policies/preemptible-taken-back-while-it-waits",
            "policies/strict-taken-back-while-they-wait",
            "quota/an-edited-quota-takes-effect-at-once",
            "quota/a-lowered-quota-takes-nothing-away",
        ),
    ),
    Rule(
        "PriorityClasses that change are heard",
        method(Intake, "_priority_changed", none),
        (
            "preemption/the-priority-class-changes-while-the-victim-stops",
            "preemption/a-priority-class-that-comes-later-counts",
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
    Rule("other gates are heeded", other_gates, ("phases/held-by-another-gate",)),
)
