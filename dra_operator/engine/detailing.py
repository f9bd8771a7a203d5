"""The details of explanations in ClaimReports: worked out when a report is about to be written, seldom, and once for all of a kind.

Waiting pods of one ReplicaSet differ in nothing but their names, so they share what was found for the first of them. Nothing here is
done in the course of an allocation.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from dra_operator.api.core import Pod
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.explaining import Explainer
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.explain.bench import BRIEF
from dra_operator.explain.explaining import explain
from dra_operator.explain.explanation import REPORT, Explanation, explanation_dict
from dra_operator.explain.situation import Situation
from dra_operator.explain.summary import Blocker
from dra_operator.queue.units import Unit

#: Explanations kept to be shared.
_KEPT = 256
#: Stand for the names of claims and pods in a shared explanation; from Unicode's private use area, so in no name.
_CLAIM, _POD = "\ue000{}\ue001", "\ue002"
#: Changes tried for a gang, however large it is.
_DRAFTS = 4
#: Causes that say more than the counts in a report's summary.
_TELLING = frozenset({"rolling update", "idle", "constraint"})


class NotYet(Exception):
    """Another explanation was worked out a moment ago: ask again at `at`."""

    def __init__(self, at: float) -> None:
        super().__init__(at)
        self.at = at


@dataclass(frozen=True, slots=True)
class _Known:
    """`told`: what the reports of the unit's claims say, names left out."""

    moment: tuple[int, ...]
    at: float
    told: tuple[dict[str, Any], ...]


class Details:
    """Of units that wait."""

    def __init__(self, state: State, explainer: Explainer) -> None:
        self._state, self._explainer = state, explainer
        self._known: dict[Hashable, _Known] = {}
        #: When the next one may be worked out: ahead of the present by at most a burst.
        self._free = float("-inf")

    def of(self, seen: SeenClaim, unit: Unit, summary: str, now: float, *, quiet: bool) -> dict[str, Any]:
        """`status.explanation` of the claim's report. `quiet`: nothing is being placed just now. Raises NotYet."""
        names = [key for key in unit.claims if not self._state.view.claims[key].allocated]
        if seen.key not in names or unit.reason == "BehindInQueue":
            # Of its turn nothing else need be told.
            return {"summary": summary}
        known = self._found(unit, names, now, quiet)
        told = _named(known.told[names.index(seen.key)], [key.name for key in names], unit.key.subject.name)
        first = told["causes"][0] if told.get("causes") else None
        if first is not None and first["kind"] in _TELLING:
            summary = f"{first['text']}; {summary}"
        return {**told, "summary": summary, "at": format_time(known.at)}

    def _found(self, unit: Unit, names: list[Key], now: float, quiet: bool) -> _Known:
        key = self._signature(unit, names, now)
        known = self._known.get(key)
        settings = self._state.settings
        moment = (*self._state.moment, self._state.usage.taken_total)
        if known is not None and (known.moment == moment or now < known.at + settings.explanation_age):
            return known
        spacing = settings.explanation_spacing if quiet else settings.explanation_spacing_busy
        burst = spacing * (settings.explanation_burst - 1) if quiet else 0.0
        if now < self._free - burst:
            raise NotYet(self._free - burst)
        self._free = max(self._free, now) + spacing
        if len(self._known) >= _KEPT:
            self._known.clear()
        blocker = Blocker(unit.reason, unit.message) if unit.key.kind == "group" else None
        situation = self._explainer.situations.of(unit, now, blocker)
        if situation.gang is None:
            explanation = explain(_anonymous(situation), BRIEF)
            told = tuple(_of_claim(explanation, number) for number in range(len(names)))
        else:
            # Its members are told the same; each draft is solved for all of them.
            drafts = max(_DRAFTS, BRIEF.drafts // len(situation.gang.members))
            whole = explanation_dict(explain(situation, replace(BRIEF, drafts=drafts)), REPORT)
            told = (whole,) * len(names)
        known = self._known[key] = _Known(moment, now, told)
        return known

    def _signature(self, unit: Unit, names: list[Key], now: float) -> Hashable:
        """Equal for units of which the same is to be told, but for names."""
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [state.view.claims[key] for key in unit.claims]
        return (
            unit.key.kind,
            # What is told of members, or of ties to devices allocated already, names them.
            unit.key.subject if self._explainer.situations.ties(unit, pod) else unit.key.subject.namespace,
            unit.priority,
            state.terms(unit)[0],
            tuple(state.view.claims[key].spec_key for key in names),
            tuple(item.claim.allocation.node_selector for item in seen if item.claim.allocation is not None),
            tuple(self._template(state.view.claims[key]) for key in names) if pod is not None else None,
            None if pod is None else self._pod_signature(pod, now),
        )

    def _template(self, seen: SeenClaim) -> str:
        origin = self._explainer.situations.origin(seen)
        return "" if origin.startswith("ResourceClaim ") else origin

    def _pod_signature(self, pod: Pod, now: float) -> Hashable:
        controller = pod.meta.controller
        return (
            None if controller is None else (controller.kind, controller.name),
            pod.node_name,
            tuple(sorted(pod.node_selector.items())),
            pod.node_affinity,
            pod.tolerations,
            tuple(sorted(pod.requests.items())),
            pod.host_ports,
            pod.preemption_policy,
            tuple(sorted(self._state.avoided_nodes(pod, now))),
        )


def _anonymous(situation: Situation) -> Situation:
    """With stand-ins for the names that differ between units of one kind."""
    claims = tuple(
        replace(claim, meta=claim.meta.renamed(_CLAIM.format(number)))
        for number, claim in enumerate(situation.problem.claims)
    )
    origins = tuple(
        f"ResourceClaim {claim.key}" if origin.startswith("ResourceClaim ") else origin
        for claim, origin in zip(claims, situation.origins, strict=True)
    )
    pod = situation.pod
    if pod is not None:
        pod = replace(pod, meta=pod.meta.renamed(_POD))
    return replace(situation, problem=replace(situation.problem, claims=claims), origins=origins, pod=pod)


def _of_claim(explanation: Explanation, number: int) -> dict[str, Any]:
    """What concerns one claim: its own requests, and everything that is of the unit."""
    name = _CLAIM.format(number)
    requests = tuple(item for item in explanation.requests if item.claim.rpartition("/")[2] == name)
    return explanation_dict(replace(explanation, requests=requests), REPORT)


def _named(value: Any, claims: list[str], pod: str) -> Any:
    """With the names of one unit."""
    match value:
        case str():
            if _POD not in value and "\ue000" not in value:
                return value
            for number, name in enumerate(claims):
                value = value.replace(_CLAIM.format(number), name)
            return value.replace(_POD, pod)
        case dict():
            return {name: _named(item, claims, pod) for name, item in value.items()}
        case list():
            return [_named(item, claims, pod) for item in value]
    return value
