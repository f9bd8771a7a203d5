"""What keeps the unit from being placed, beyond the counts of single requests: one sentence for each cause that applies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dra_operator.allocator import Trial
from dra_operator.allocator.plan import Requirement, Rule
from dra_operator.api.claims import MAX_RESULTS
from dra_operator.explain.bench import Bench
from dra_operator.explain.constraintchanges import without_unit_constraint
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import Cause, RequestExplanation, Step, counted, listed, on_nodes
from dra_operator.explain.looking import Look
from dra_operator.explain.nearest import results_of
from dra_operator.explain.releases import Release
from dra_operator.explain.workloads import update_of
from dra_operator.queue.nodefit import Misfit, describe_misfits


def causes_of(look: Look, requests: tuple[RequestExplanation, ...], trial: Trial) -> Iterator[Cause]:
    """The causes that the look alone shows, most telling first."""
    yield from _pod_fit(look, trial)
    missing = False
    for requirement in look.plan.requirements:
        ways = [requests[way.index] for way in requirement.ways]
        if all(item.short for item in ways):
            missing = True
            for item in ways:
                short = _shortage(item)
                if short is not None:
                    yield short
    if not missing:
        yield from _scattered(look)


def _pod_fit(look: Look, trial: Trial) -> Iterator[Cause]:
    """Devices are free, but only where the pod does not fit."""
    unfit = [place for place in look.places if place.misfit is not None]
    if look.situation.pod is None or not unfit:
        return
    there = {id(place.spot): trial.fits(place.record) for place in unfit}
    close = [place for place in unfit if there[id(place.spot)]]
    if close:
        misfits = [place.misfit for place in close if place.misfit is not None]
        yield Cause(
            "pod",
            f"the devices are free on {counted(len(close), 'node')}, but the pod does not fit there: {_why_not(misfits)}",
        )


def _why_not(misfits: list[Misfit]) -> str:
    """Without the number of nodes where all have one reason."""
    text = describe_misfits(misfits)
    return text.partition(": ")[2] if len({misfit.reason for misfit in misfits}) == 1 else text


def _shortage(item: RequestExplanation) -> Cause | None:
    """One request in a sentence."""
    if not item.short:
        return None
    wanted = "all matching devices" if item.wanted is None else counted(item.wanted, "device")
    together = " on one node" if item.wanted != 1 else ""
    head = f"request {item.request} of claim {item.claim} needs {wanted} of class {item.device_class}{together}"
    if not item.devices:
        return Cause("no devices", f"{head}, and no devices are published at all")
    parts = [f"{step.devices} {step.text}{_detail(item, step)}" for step in item.steps]
    if item.usable:
        parts.append(f"{item.usable} free, at most {item.most_on_a_node} on one node")
    kind = "scattered" if item.usable or not item.steps else item.steps[-1].why
    return Cause(kind, f"{head}; of {counted(item.devices, 'device')}: {', '.join(parts)}")


def _detail(item: RequestExplanation, step: Step) -> str:
    """What tells most about a step: the term of a selector that rejects most, or the largest detail."""
    if step.why in ("class", "request"):
        telling = [
            each
            for each in item.conjuncts
            if each.selector == step.index and (each.source == "request") == (step.why == "request") and each.rejects
        ]
        if not telling:
            return ""
        most = max(telling, key=lambda each: each.rejects)
        if step.why == "class" and most.best is None:
            return ""  # devices of other drivers; nobody is surprised
        return f" ({most.text}: {counted(most.rejects, 'device')}{most.best_text})"
    if not step.details:
        return ""
    return f" ({step.details[0][0]})" if len(step.details) == 1 else f" (most: {step.details[0][0]})"


def _scattered(look: Look) -> Iterator[Cause]:
    """Each request has a node, all of them together have none."""
    where: list[tuple[str, set[str]]] = []
    for requirement in look.plan.requirements:
        names = {
            place.record.name
            for place in look.places
            if place.misfit is None
            and any(
                place.spot.usable[way.index].bit_count() >= (1 if way.all else way.count) for way in requirement.ways
            )
        }
        where.append((_named(look, requirement), names))
    everywhere = set.intersection(*(names for _, names in where)) if where else set()
    if len(where) > 1 and not everywhere:
        parts = ", ".join(f"{name} on {counted(len(names), 'node')}" for name, names in where)
        yield Cause("scattered", f"no node has the devices for all requests: {parts}")
    elif everywhere:
        spots = {id(place.spot): place.spot for place in look.places if place.record.name in everywhere}
        most = [min(counts) for counts in zip(*(results_of(look, spot) for spot in spots.values()), strict=True)]
        for claim, count in enumerate(most):
            if count > MAX_RESULTS:
                name = look.situation.problem.claims[claim].meta.name
                yield Cause(
                    "limit",
                    f"claim {name} would have {counted(count, 'device')} or more, and a claim can have {MAX_RESULTS} at most: "
                    "ask for a number of them, or for fewer by a selector",
                )
                return
        count = counted(len(everywhere), "node")
        have = "has" if len(everywhere) == 1 else "have"
        yield Cause("together", f"{count} {have} devices for each request, but not for all of them together")


def by_constraints(look: Look, bench: Bench) -> Iterator[Cause]:
    """Constraints without which the unit would fit: on how many nodes the devices are, if not as the constraint wants them."""
    for rule in look.plan.rules:
        draft = _without(bench.start, rule)
        if bench.fits(draft) is None:
            continue
        count = bench.places_fitting(draft)
        names = listed([_named(look, each) for each in look.plan.requirements if _under(look, rule, each)])
        attribute = rule.attributes[0].rpartition("/")[2]
        full = "" if attribute == rule.attributes[0] else f" ({rule.attributes[0]})"
        have = "has them" if count == 1 else "have them"
        if rule.distinct:
            text = f"no node has devices for {names} with different {attribute}{full}: {counted(count, 'node')} {have}, but not so"
        else:
            text = f"no node has devices for {names} on one {attribute}{full}: {counted(count, 'node')} {have}, on different ones"
        yield Cause("constraint", text)


def _named(look: Look, requirement: Requirement) -> str:
    """With its claim where there are several."""
    claims = look.situation.problem.claims
    claim = requirement.ways[0].claim
    return requirement.name if len(claims) == 1 else f"{requirement.name} of claim {claims[claim].meta.name}"


def _under(look: Look, rule: Rule, requirement: Requirement) -> bool:
    number = look.plan.rules.index(rule)
    return any(number in way.constraints for way in requirement.ways)


def _without(start: Draft, rule: Rule) -> Draft:
    if rule.claim is not None:
        spec = start.spec(rule.claim)
        rest = tuple(item for index, item in enumerate(spec.constraints) if index != rule.index)
        return start.with_spec(rule.claim, replace(spec, constraints=rest))
    required = [item for item in start.problem.constraints if item.required]
    return without_unit_constraint(start, required[rule.index])


def by_releases(look: Look, found: list[Release], kinds: set[str]) -> Iterator[Cause]:
    """Devices that stay with those who have no use for them, or with the pods that the unit's own is to replace."""
    for release in found:
        if release.kind not in kinds:
            continue
        names = listed([holder.name for holder in release.holders])
        if release.kind == "strategy" and look.situation.pod is not None:
            update = update_of(look.situation.pod)
            yield Cause(
                "rolling update",
                f"the devices on {on_nodes(release.nodes)} are kept by {names}, an older pod of its own {update}: the update starts new "
                "pods before old ones end, so neither can go on",
            )
        elif release.kind == "idle":
            why = "; ".join(dict.fromkeys(holder.idle for holder in release.holders))
            yield Cause(
                "idle", f"the devices on {on_nodes(release.nodes)} are kept by {names}, and nobody needs them: {why}"
            )
