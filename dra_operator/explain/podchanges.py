"""Changes worth trying where devices are to be had, but not on a node that the pod can run on: of the pod, or of the node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dra_operator.allocator import Trial
from dra_operator.api.core import MOST_CONDITIONS, Node, Pod
from dra_operator.api.taints import untolerated
from dra_operator.explain.changes import Change
from dra_operator.explain.devicechanges import toleration_of
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import Edit
from dra_operator.explain.looking import Look
from dra_operator.explain.nearest import by_distance
from dra_operator.queue.nodefit import UNSCHEDULABLE, Misfit, amount_text

#: Nodes for which changes are proposed.
_NODES = 6


def pod_changes(look: Look, trial: Trial) -> list[Change]:
    """For the nodes that lack nothing but the pod's fit, cheapest first."""
    pod = look.situation.pod
    if pod is None:
        return []
    found: dict[str, Change] = {}
    anew = look.situation.anew
    if anew is not None:
        found["anew"] = _made_anew(pod, anew)
    nodes = 0
    for place in by_distance(look):
        if place.misfit is None or place.record.node is None or not trial.fits(place.record):
            continue
        for change in _changes(pod, place.record.node, place.misfit):
            known = found.get(change.family)
            if known is None or change.size < known.size:
                found[change.family] = change
        nodes += 1
        if nodes == _NODES:
            break
    return sorted(found.values(), key=lambda change: change.cost)


def _changes(pod: Pod, node: Node, misfit: Misfit) -> Iterator[Change]:
    name = node.name
    if pod.conditions > MOST_CONDITIONS:
        return  # the misfit says what to do, and nothing else is looked at
    if misfit.resource:
        yield _smaller(pod, name, misfit)
    elif node.unschedulable and not any(item.tolerates(UNSCHEDULABLE) for item in pod.tolerations):
        yield Change("node", f"uncordon node {name}", partial(_uncordoned, node=name), f"uncordon/{name}/open")
    elif (taint := untolerated(node.taints, pod.tolerations)) is not None:
        added = toleration_of(taint)
        yield Change(
            "pod",
            f"let the pod tolerate the taint {taint} of node {name}",
            lambda draft: _with_pod(draft, tolerations=(*_pod(draft).tolerations, added)),
            f"toleration/{taint}",
        )
    elif not pod.fits_affinity(node):
        yield _elsewhere(pod, node)
    elif "host port" in misfit.reason:
        yield Change(
            "node", f"free the pod's host port on node {name}", lambda draft: _with_pod(draft, host_ports=()), "port"
        )


def _made_anew(pod: Pod, anew: Pod) -> Change:
    """Bound without its devices: it can neither start nor go elsewhere."""
    text = f"delete pod {pod.key}, which is bound to node {pod.node_name} and has not started"
    maker = pod.meta.controller
    return Change(
        "pod",
        f"{text}, and create it again" if maker is None else f"{text}: its {maker.kind} makes another",
        lambda draft: replace(
            draft,
            pod=anew,
            problem=replace(draft.problem, nodes=None),
            edits=(*draft.edits, Edit(f"Pod {pod.key}")),
        ),
        "anew",
    )


def _smaller(pod: Pod, node: str, misfit: Misfit) -> Change:
    resource, needs, free = misfit.resource, misfit.needs, misfit.free
    missing = f"{amount_text(resource, needs - free)} {resource}"
    text = f"free {missing} on node {node}"
    edits: tuple[Edit, ...] = ()
    if free:
        amount = amount_text(resource, free)
        text = f"let the pod request {amount} {resource} instead of {amount_text(resource, needs)}, or {text}"
        edits = (Edit(f"Pod {pod.key}", f"spec.resources.requests.{resource}", amount),)
    return Change(
        "pod",
        text,
        lambda draft: _with_pod(draft, *edits, requests={**_pod(draft).requests, resource: free}),
        f"resource/{resource}",
        (needs - free) / needs,
    )


def _uncordoned(draft: Draft, node: str) -> Draft:
    edit = Edit(f"Node {node}", "spec.unschedulable", False)
    return replace(draft, uncordoned=draft.uncordoned | {node}, edits=(*draft.edits, edit))


def _elsewhere(pod: Pod, node: Node) -> Change:
    """Not bound to labels that the node lacks."""
    wrong = [key for key, value in pod.node_selector.items() if node.labels.get(key) != value]
    if wrong and (pod.node_affinity is None or pod.node_affinity.matches(node.name, node.labels)):
        names = ", ".join(f"{key}={pod.node_selector[key]}" for key in wrong)
        kept = {key: value for key, value in pod.node_selector.items() if key not in wrong}
        return Change(
            "pod",
            f"drop {names} from the pod's node selector",
            lambda draft: _with_pod(draft, Edit(f"Pod {pod.key}", "spec.nodeSelector", kept), node_selector=kept),
            f"selector/{names}",
        )
    edits = (Edit(f"Pod {pod.key}", "spec.affinity.nodeAffinity", {}), Edit(f"Pod {pod.key}", "spec.nodeSelector", {}))
    return Change(
        "pod",
        "drop the pod's required node affinity" + (" and node selector" if pod.node_selector else ""),
        lambda draft: _with_pod(draft, *edits[: 1 + bool(pod.node_selector)], node_selector={}, node_affinity=None),
        "affinity",
        1.0,
    )


def _pod(draft: Draft) -> Pod:
    assert draft.pod is not None
    return draft.pod


def _with_pod(draft: Draft, *edits: Edit, **fields: object) -> Draft:
    return replace(draft, pod=replace(_pod(draft), **fields), edits=(*draft.edits, *edits))  # type: ignore[arg-type]
