"""Workloads that ask a device plugin (`nvidia.com/gpu: 2`) as pods with claims on the devices of the DRA driver.

Each container with devices gets a request of its own in one claim of the pod: a device plugin gives a container devices that no other
container has. Labels that choose GPUs by choosing nodes become selectors, see `gpulabels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.fieldpath import FieldPath
from dra_operator.cel.unparse import quoted
from dra_operator.convert import gpulabels
from dra_operator.convert.gpulabels import Requirement, condition
from dra_operator.convert.names import is_label, label
from dra_operator.convert.plan import Notes, Plan
from dra_operator.convert.podspecs import pod_specs, template, template_name
from dra_operator.convert.remarks import Untranslatable
from dra_operator.convert.values import Object, changed, dig, items, mapping, replaced, with_field

#: The most devices one claim can have.
MAX_DEVICES = 32
_MIG = "nvidia.com/mig-"
_MIG_CLASS = "mig.nvidia.com"
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERRED = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True, slots=True)
class Plugin:
    """`device_class`: as the DRA driver's installation makes it. `noun` names requests and claims. `selector`: what else is asked."""

    device_class: str
    noun: str
    selector: str = ""


_PLUGINS: Mapping[str, Plugin] = {
    "nvidia.com/gpu": Plugin("gpu.nvidia.com", "gpu"),
    "amd.com/gpu": Plugin("gpu.amd.com", "gpu"),
    "gpu.intel.com/i915": Plugin("gpu.intel.com", "gpu"),
    "gpu.intel.com/xe": Plugin("gpu.intel.com", "gpu"),
    "habana.ai/gaudi": Plugin("gaudi.intel.com", "gaudi"),
    "google.com/tpu": Plugin("tpu.google.com", "tpu"),
}


def plugin(resource: str, plan: Plan) -> Plugin | None:
    """What the DRA counterpart of a plugin's resource is; None where there is none to be known."""
    known = _PLUGINS.get(resource)
    if resource.startswith(_MIG):
        # Resource names have no +: mig-1g.10gb.me is profile 1g.10gb+me.
        profile = resource.removeprefix(_MIG).replace(".me", "+me")
        selector = f"has(device.attributes['gpu.nvidia.com'].profile) && device.attributes['gpu.nvidia.com'].profile == {quoted(profile)}"
        known = Plugin(_MIG_CLASS, "mig", selector)
    served = plan.classes_for.get(resource)
    if served is not None:
        return Plugin(served, known.noun if known else "device")
    return known


@dataclass(frozen=True, slots=True)
class _Ask:
    """Devices that one container asks for. `initial`: an init container, which has ended when the others begin."""

    initial: bool
    field: str
    index: int
    container: str
    resource: str
    plugin: Plugin
    count: int
    path: FieldPath


def convert_plugins(value: Object, plan: Plan, notes: Notes) -> tuple[Object, list[Object]]:
    """The object with claims in place of plugin resources, and the claim templates for them. Raises Untranslatable."""
    made: list[Object] = []
    for path, spec in list(pod_specs(value)):
        asks = [ask for ask in _asks(spec, path, plan) if ask.count]
        if asks:
            value = replaced(value, path, _pod(value, spec, path, asks, plan, notes, made))
    return value, made


def _asks(spec: Object, path: FieldPath, plan: Plan) -> Iterator[_Ask]:
    for field in ("containers", "initContainers"):
        for index, item in enumerate(items(spec.get(field), (*path, field))):
            where = (*path, field, index)
            container = mapping(item, where)
            resources = mapping(container.get("resources"), (*where, "resources"))
            limits = mapping(resources.get("limits"), (*where, "resources", "limits"))
            requests = mapping(resources.get("requests"), (*where, "resources", "requests"))
            for resource in dict.fromkeys([*limits, *requests]):
                at = (*where, "resources", "limits" if resource in limits else "requests", resource)
                _refuse_shared(str(resource), at)
                known = plugin(str(resource), plan)
                if known is None:
                    continue
                counts = {_count(amounts[resource], at) for amounts in (limits, requests) if resource in amounts}
                if len(counts) > 1:
                    raise Untranslatable(
                        at, f"limit and request of {resource} differ, which the API server refuses; make them equal"
                    )
                initial = field == "initContainers" and container.get("restartPolicy") != "Always"
                yield _Ask(
                    initial, field, index, str(container.get("name") or ""), str(resource), known, counts.pop(), at
                )


def _refuse_shared(resource: str, path: FieldPath) -> None:
    if resource.startswith(gpulabels.PREFIX) and resource.endswith(".shared"):
        raise Untranslatable(
            path,
            f"{resource} is a share of a GPU that unrelated pods use; name a claim that these pods share, or a class whose "
            "devices allow multiple allocations",
        )


def _count(value: Any, path: FieldPath) -> int:
    try:
        count = int(str(value))
    except ValueError:
        raise Untranslatable(path, f"{value!r} is no number of devices; write a whole number") from None
    if not 0 <= count <= MAX_DEVICES:
        raise Untranslatable(path, f"{count} devices: a claim has at most {MAX_DEVICES}; spread them over pods")
    return count


def _pod(
    value: Object, spec: Object, path: FieldPath, asks: list[_Ask], plan: Plan, notes: Notes, made: list[Object]
) -> Object:
    if any(ask.resource.startswith(gpulabels.PREFIX) for ask in asks):
        spec, selectors, mig = _labels(spec, path, asks, notes)
    else:
        selectors, mig = [], False
    claim = _claim_name(spec, asks)
    names = _request_names([ask for ask in asks if not ask.initial])
    names |= _initial_names([ask for ask in asks if ask.initial], names, notes)
    requests = [
        {"name": name, "exactly": _exactly(ask, selectors, mig)} for ask, name in names.items() if not ask.initial
    ]
    if sum(ask.count for ask in asks if not ask.initial) > MAX_DEVICES:
        raise Untranslatable(
            path, f"the pod asks for more than {MAX_DEVICES} devices, the most a claim has; spread them over pods"
        )
    for device_class, resources in _by_class(asks, mig).items():
        if device_class not in plan.classes:
            notes.assume(asks[0].path, f"class {device_class} stands for {resources}; it comes with the DRA driver")
    name = template_name(value, path, claim, plan)
    made.append(template(value, name, {"devices": {"requests": requests}}))
    entry = {"name": claim, "resourceClaimTemplateName": name}
    entries = [*items(spec.get("resourceClaims"), (*path, "resourceClaims")), entry]
    spec = (
        {**spec, "resourceClaims": entries}
        if "resourceClaims" in spec
        else with_field(spec, "resourceClaims", entries, "containers")
    )
    return _with_claims(spec, claim, names, single=len(requests) == 1)


def _by_class(asks: list[_Ask], mig: bool) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for ask in asks:
        found.setdefault(_MIG_CLASS if mig else ask.plugin.device_class, []).append(ask.resource)
    return {device_class: ", ".join(dict.fromkeys(resources)) for device_class, resources in found.items()}


def _exactly(ask: _Ask, selectors: list[str], mig: bool) -> dict[str, Any]:
    expressions = [ask.plugin.selector] if ask.plugin.selector else []
    if ask.resource.startswith(gpulabels.PREFIX):
        expressions += selectors
    result: dict[str, Any] = {"deviceClassName": _MIG_CLASS if mig else ask.plugin.device_class}
    if expressions:
        result["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if ask.count > 1:
        result["count"] = ask.count
    return result


def _claim_name(spec: Object, asks: list[_Ask]) -> str:
    taken = [dig(entry, "name") for entry in spec.get("resourceClaims") or ()]
    noun = asks[0].plugin.noun
    return next(name for name in (noun, f"{noun}-claim", *(f"{noun}-{i}" for i in range(2, 100))) if name not in taken)


def _request_names(asks: list[_Ask]) -> dict[_Ask, str]:
    """A request for each container and resource, named after what tells them apart."""
    containers, nouns = {ask.container for ask in asks}, {ask.plugin.noun for ask in asks}
    names: dict[_Ask, str] = {}
    for ask in asks:
        parts = ([ask.container] if len(containers) > 1 else []) + (
            [ask.plugin.noun] if len(nouns) > 1 or len(containers) == 1 else []
        )
        name = "-".join(parts) or "gpu"
        name = name if is_label(name) else label(name)
        while name in names.values():
            name = label(f"{name}-{ask.resource.rpartition('/')[2]}")
        names[ask] = name
    return names


def _initial_names(asks: list[_Ask], names: dict[_Ask, str], notes: Notes) -> dict[_Ask, str]:
    """An init container ends before the others begin, so its devices are some of theirs."""
    found: dict[_Ask, str] = {}
    for ask in asks:
        # A sidecar that starts before it runs beside it.
        later = [other for other in names if other.field == "containers" or other.index > ask.index]
        same = [other for other in later if other.resource == ask.resource and other.count >= ask.count]
        if not same:
            raise Untranslatable(
                ask.path,
                f"init container {ask.container} asks for {ask.count} {ask.resource}, more than any other container; give it to a pod "
                "of its own, or let another container ask for as many",
            )
        other = min(same, key=lambda item: item.count)
        found[ask] = names[other]
        if other.count > ask.count:
            notes.assume(
                ask.path,
                f"init container {ask.container} sees all {other.count} devices of container {other.container}",
            )
    return found


def _with_claims(spec: Object, claim: str, names: dict[_Ask, str], *, single: bool) -> Object:
    result = dict(spec)
    for field in ("containers", "initContainers"):
        if not spec.get(field):
            continue
        containers: list[Any] = []
        for index, container in enumerate(spec[field]):
            own = {ask: name for ask, name in names.items() if (ask.field, ask.index) == (field, index)}
            containers.append(_container(container, claim, own, single=single) if own else container)
        result[field] = containers
    return result


def _container(container: Object, claim: str, own: dict[_Ask, str], *, single: bool) -> Object:
    resources = dict(container["resources"])
    gone = {ask.resource for ask in own}
    for field in ("limits", "requests"):
        if resources.get(field):
            left = {name: amount for name, amount in resources[field].items() if name not in gone}
            resources[field] = left or None
    # Naming the request matters only where the claim has several.
    used = [{"name": claim} if single else {"name": claim, "request": name} for name in own.values()]
    resources["claims"] = [*items(resources.get("claims"), ("resources", "claims")), *used]
    return {**container, "resources": changed({}, **resources)}


# --- labels


def _labels(spec: Object, path: FieldPath, asks: list[_Ask], notes: Notes) -> tuple[Object, list[str], bool]:
    """(the spec without the labels that became selectors, the selectors, whether they ask for MIG slices)."""
    whole = any(ask.resource == "nvidia.com/gpu" for ask in asks)
    taken: list[Requirement] = []
    where = (*path, "nodeSelector")
    chosen = mapping(spec.get("nodeSelector"), where)
    left: dict[str, Any] = {}
    for key, value in chosen.items():
        if _moves(key, whole):
            taken.append(Requirement(key, "In", (str(value),), (*where, key)))
        else:
            left[key] = value
            _keep(key, (*where, key), notes)
    if len(left) < len(chosen):
        spec = changed(spec, nodeSelector=left or None)
    spec, more = _affinity(spec, path, whole, notes)
    found = [(requirement, condition(requirement)) for requirement in taken + more]
    for requirement, item in found:
        if item.assumption:
            notes.assume(requirement.path, item.assumption)
    expressions = [item.expression for _, item in found if item.expression]
    return spec, list(dict.fromkeys(expressions)), any(item.mig for _, item in found)


def _moves(key: str, whole: bool) -> bool:
    # A MIG slice has less memory than its GPU, which is what the label tells.
    return gpulabels.knows(key) and (whole or key != "nvidia.com/gpu.memory")


def _keep(key: str, path: FieldPath, notes: Notes) -> None:
    if key.startswith(gpulabels.PREFIX):
        notes.assume(path, f"{key} goes on choosing nodes by label: devices have no such attribute")


def _affinity(spec: Object, path: FieldPath, whole: bool, notes: Notes) -> tuple[Object, list[Requirement]]:
    """Required node affinity on GPU labels. Terms are alternatives: only those of a single term can move into a claim."""
    for index, preference in enumerate(items(dig(spec, *_PREFERRED), (*path, *_PREFERRED))):
        at = (*path, *_PREFERRED, index)
        for expression in items(dig(preference, "preference", "matchExpressions"), at):
            _keep(str(dig(expression, "key")), at, notes)
    where = (*path, *_AFFINITY)
    terms = items(dig(spec, *_AFFINITY), where)
    ours = [_requirements(term, (*where, index, "matchExpressions")) for index, term in enumerate(terms)]
    moving = [[item for item in requirements if _moves(item.key, whole)] for requirements in ours]
    for requirement in (item for requirements in ours for item in requirements if not _moves(item.key, whole)):
        _keep(requirement.key, requirement.path, notes)
    if not any(moving):
        return spec, []
    if len(terms) > 1:
        raise Untranslatable(
            where,
            f"alternatives ({len(terms)} terms) that choose GPUs cannot become one selector; write one term with `In`, or a claim "
            "with firstAvailable",
        )
    expressions = [item for item in terms[0]["matchExpressions"] if not _moves(str(dig(item, "key")), whole)]
    term = changed(terms[0], matchExpressions=expressions or None)
    return (replaced(spec, (*_AFFINITY, 0), term) if term else _without_affinity(spec)), moving[0]


def _requirements(term: Any, path: FieldPath) -> list[Requirement]:
    """The conditions on labels in one term."""
    found: list[Requirement] = []
    for index, expression in enumerate(items(dig(term, "matchExpressions"), path)):
        at = (*path, index)
        values = tuple(str(value) for value in items(dig(expression, "values"), (*at, "values")))
        found.append(Requirement(str(dig(expression, "key")), str(dig(expression, "operator")), values, at))
    return found


def _without_affinity(spec: Object) -> Object:
    """Without the required node affinity, of which nothing is left."""
    node = changed(spec["affinity"]["nodeAffinity"], requiredDuringSchedulingIgnoredDuringExecution=None)
    affinity = changed(spec["affinity"], nodeAffinity=node or None)
    return changed(spec, affinity=affinity or None)
