"""`explain`: from a unit's situation to its explanation, without the search for fixes or with it.

The first is cheap and goes with every report; the second tries changed problems and is for units that have waited, and for whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dra_operator.allocator import Failed, trial
from dra_operator.explain.bench import Bench, Effort
from dra_operator.explain.causes import by_constraints, by_releases, causes_of
from dra_operator.explain.changes import Asked, Change
from dra_operator.explain.conjuncts import kinds_of, terms_of
from dra_operator.explain.constraintchanges import constraint_changes
from dra_operator.explain.devicechanges import device_changes
from dra_operator.explain.drafts import Draft
from dra_operator.explain.edits import edits_of
from dra_operator.explain.explanation import Cause, Explanation, Fix, counted, on_nodes
from dra_operator.explain.fixes import Found, find_fixes, outranking, relaxing
from dra_operator.explain.gangs import look_at_gang
from dra_operator.explain.looking import Look
from dra_operator.explain.nearest import nearest
from dra_operator.explain.podchanges import pod_changes
from dra_operator.explain.releases import releases, within_quota
from dra_operator.explain.requests import requests_of
from dra_operator.explain.selectorchanges import class_names, selector_changes
from dra_operator.explain.situation import Situation
from dra_operator.explain.summary import blocker_of_failure

_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Proof:
    """A fix and the changed problem that was solved to prove it."""

    fix: Fix
    draft: Draft


def explain(situation: Situation, effort: Effort | None = None) -> Explanation:
    """Why the unit is not placed. With an `effort`, also what would fix it. The snapshot is left as it was."""
    return explain_with_proofs(situation, effort)[0]


def explain_with_proofs(situation: Situation, effort: Effort | None) -> tuple[Explanation, tuple[Proof, ...]]:
    """As `explain`, with the drafts that were solved for the fixes, in their order."""
    if situation.gang is not None:
        return _of_gang(situation, effort)
    asked = trial(situation.problem, situation.snapshot)
    if isinstance(asked, Failed):
        return _unplanned(situation, asked, effort)
    look = Look(situation, asked)
    kinds = kinds_of(look.inventory)
    terms = [terms_of(way, kinds) for way in look.plan.ways]
    requests = requests_of(look, terms)
    nodes, more = nearest(look, _NEAREST)
    plain = tuple(causes_of(look, requests, asked))
    special: list[Cause] = []
    found: list[Found] = []
    if effort is not None:
        bench = Bench(situation, look, effort)
        fits = bench.fits(bench.start)
        reason = "" if situation.blocker is None else situation.blocker.reason
        if reason == "BehindInQueue":
            if fits is not None:
                plain, nodes, more = (), (), 0
        elif reason in _NOT_ASKED and fits is None:
            pass  # whatever is changed, nothing would be allocated
        elif fits is None and situation.wrong is None:
            placed = bench.without_budgets()
            if placed is not None and not bench.reserved:
                plain, nodes, more = (), (), 0  # a budget is all that is in the way
            if situation.blocker is not None and situation.blocker.reason == "WouldBeAllocated":
                situation = replace(situation, blocker=None)  # holds that its attempt knew nothing of
            special += by_constraints(look, bench)
            ground = Asked(look, terms, kinds, learn=effort.learn)
            changes = [
                *selector_changes(ground),
                *device_changes(ground),
                *constraint_changes(ground),
                *pod_changes(look, asked),
                *outranking(look),
            ]
            freed = releases(look, bench)
            if situation.blocker is not None and situation.blocker.reason == "QuotaExceeded":
                freed += within_quota(bench, situation.quota_users())
            larger = [release.change(situation) for release in freed]
            found = find_fixes(bench, look, changes, larger)
            if placed is not None:
                found = sorted([*found, *relaxing(bench, placed)], key=lambda item: item.cost)
            special += by_releases(look, freed, {item.fix.kind for item in found})
        elif fits is not None and situation.wrong is not None:
            # What its annotation asks for cannot be understood; without it nothing is in the way.
            draft = replace(bench.start, edits=(situation.wrong.edit,))
            found = [
                Found.of(situation, Change("constraint", situation.wrong.text, lambda _: draft, "wrong"), draft, fits)
            ]
            plain, nodes, more = (), (), 0
        elif fits is not None:
            where = on_nodes(fits.nodes) if fits.nodes else "any node"
            plain, nodes, more = (Cause("fits", f"nothing keeps its devices from it: it fits {where}"),), (), 0
    causes = tuple(_ordered(situation, [*special, *plain]))
    explanation = Explanation(
        summary=_summary(situation, causes),
        requests=requests,
        causes=causes,
        nodes=nodes,
        more_nodes=more,
        fixes=tuple(item.fix for item in found),
        warnings=tuple(_warnings(look)),
    )
    return explanation, tuple(Proof(item.fix, item.draft) for item in found)


def _of_gang(situation: Situation, effort: Effort | None) -> tuple[Explanation, tuple[Proof, ...]]:
    findings = look_at_gang(situation, effort)
    if isinstance(findings, Failed):
        return _unplanned(situation, findings, effort)
    gang, blocker = situation.gang, situation.blocker
    if gang is not None and blocker is not None and blocker.reason == "GroupIncomplete":
        text = f"ClaimGroup {gang.group} waits until it has enough members: {blocker.message}"
        situation = replace(situation, blocker=replace(blocker, message=text))
    causes = tuple(_ordered(situation, list(findings.causes)))
    explanation = Explanation(
        summary=_summary(situation, causes),
        requests=findings.requests,
        causes=causes,
        nodes=findings.nodes,
        more_nodes=findings.more_nodes,
        fixes=tuple(item.fix for item in findings.found),
        warnings=tuple(dict.fromkeys(text for look in findings.looks for text in _warnings(look))),
    )
    return explanation, tuple(Proof(item.fix, item.draft) for item in findings.found)


def _unplanned(situation: Situation, failed: Failed, effort: Effort | None) -> tuple[Explanation, tuple[Proof, ...]]:
    """The claim or its class is wrong: nothing can be counted, but a class of a similar name may be meant."""
    blocker = blocker_of_failure(failed, situation.unmade)
    causes = (Cause("error", blocker.message),)
    if effort is None or failed.kind != "class":
        return Explanation(blocker.message, causes=causes), ()
    bench = Bench(situation, None, effort)
    changes = list(class_names(situation.snapshot.inventory, situation.problem.claims))
    found = find_fixes(bench, None, changes, ())
    proofs = tuple(Proof(item.fix, item.draft) for item in found if item.fix.kind == "class name")
    if not proofs and situation.gang is None:
        proofs = _with_another_class(situation, changes, effort)
    return Explanation(blocker.message, causes=causes, fixes=tuple(proof.fix for proof in proofs)), proofs


def _with_another_class(situation: Situation, changes: list[Change], effort: Effort) -> tuple[Proof, ...]:
    """With the class that is meant the unit does not fit either: what else it takes."""
    for change in changes:
        draft = change.apply(Draft(situation.problem, situation.pod))
        if draft is None:
            continue
        _, proofs = explain_with_proofs(replace(situation, problem=draft.problem), effort)
        if proofs:
            return tuple(
                Proof(
                    replace(
                        proof.fix, text=f"{change.text}, and {proof.fix.text}", edits=edits_of(situation, proof.draft)
                    ),
                    proof.draft,
                )
                for proof in proofs
            )
    return ()


#: Nobody asks for the devices now: another gate, no pod, or a pod that is not the operator's.
_NOT_ASKED = frozenset({"NotInUse", "PodGated", "PodIncomplete", "NotPlaced"})
#: What the unit says of itself goes first where it is for none of the reasons that are worked out here.
_WORKED_OUT = frozenset(
    {"", "NoDevices", "NoFittingNode", "Waiting", "SelectorError", "Held", "GroupDoesNotFit", "NodeUnsuitable"}
)


def _ordered(situation: Situation, causes: list[Cause]) -> list[Cause]:
    blocker = situation.blocker
    if blocker is not None and blocker.reason not in _WORKED_OUT:
        return [Cause(blocker.reason, blocker.message), *causes]
    rank = {"rolling update": 0, "idle": 1, "constraint": 2, "pod": 3, "error": 4}
    return sorted(causes, key=lambda cause: rank.get(cause.kind, 5))


def _summary(situation: Situation, causes: tuple[Cause, ...]) -> str:
    if causes:
        return causes[0].text
    blocker = situation.blocker
    return "" if blocker is None else blocker.message


def _warnings(look: Look) -> list[str]:
    """Selectors that fail on devices, which are left out for it."""
    texts: dict[str, None] = {}
    for way, row in zip(look.plan.ways, look.rows, strict=True):
        for (why, _), details in row.details.items():
            if why == "error":
                for text, devices in details.most_common():
                    texts[f"request {way.name}: {text} (on {counted(devices, 'device')})"] = None
    return list(texts)
