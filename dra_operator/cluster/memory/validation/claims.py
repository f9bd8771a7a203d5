"""ResourceClaim, ResourceClaimTemplate and DeviceClass: spec on creation, immutability, and the status of claims.

After `pkg/apis/resource/validation` of Kubernetes 1.37. It checks as little of an allocation as the real server does: devices that
do not exist, doubles and wrong counts pass.
"""

from __future__ import annotations

from typing import Any

from dra_operator.api.claims import ADMIN_ACCESS_LABEL
from dra_operator.cluster.memory.refusals import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from dra_operator.cluster.memory.validation.metadata import device_attribute_name, dns_label, dns_subdomain
from dra_operator.cluster.memory.values import Object, dig

MAX_REQUESTS = MAX_CONSTRAINTS = MAX_CONFIGS = MAX_SELECTORS = MAX_RESULTS = 32
MAX_ALTERNATIVES = 8
MAX_TOLERATIONS = 16
MAX_CONSUMERS = 256
MAX_EXPRESSION = 10 * 1024


def claim_created(item: Object) -> list[Cause]:
    return _spec(item.get("spec") or {}, "spec")


def template_created(item: Object) -> list[Cause]:
    return _spec(dig(item, "spec", "spec") or {}, "spec.spec")


def admin_access(item: Object, old: Object | None, namespace: Object) -> list[Cause]:
    """Admin access (KEP-5018) is asked for, and given, only in namespaces with the label; who was given it keeps it. `old`: where the
    status is written."""
    if (namespace["metadata"].get("labels") or {}).get(ADMIN_ACCESS_LABEL) == "true":
        return []
    if old is None:
        spec = dig(item, "spec", "spec") or item.get("spec")
        asked, at = (
            [request.get("exactly") or {} for request in dig(spec, "devices", "requests") or ()],
            "spec.devices.requests",
        )
    else:
        asked, at = dig(item, "status", "allocation", "devices", "results") or [], "status.allocation.devices.results"
        if any(result.get("adminAccess") for result in dig(old, "status", "allocation", "devices", "results") or ()):
            return []
    index = next((number for number, entry in enumerate(asked) if entry.get("adminAccess")), None)
    why = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    return [] if index is None else [forbidden_field(f"{at}[{index}].adminAccess", why)]


def spec_unchanged(new: Object, old: Object) -> list[Cause]:
    """The specs of claims and templates are immutable."""
    if new.get("spec") != old.get("spec"):
        return [invalid("spec", "the changed spec", "field is immutable")]
    return []


def class_valid(item: Object) -> list[Cause]:
    spec = item.get("spec") or {}
    causes = _selectors(spec.get("selectors"), "spec.selectors")
    causes += _limit("spec.config", spec.get("config"), MAX_CONFIGS)
    return causes


def _spec(spec: dict[str, Any], path: str) -> list[Cause]:
    devices = spec.get("devices") or {}
    here = f"{path}.devices"
    requests = devices.get("requests") or []
    causes = _limit(f"{here}.requests", requests, MAX_REQUESTS)
    seen: set[str] = set()
    for index, request in enumerate(requests):
        at = f"{here}.requests[{index}]"
        causes += _request(request, at)
        name = request.get("name")
        if name in seen:
            causes.append(duplicate(at, name))
        seen.add(name)
    known = request_names(spec)
    constraints = devices.get("constraints") or []
    causes += _limit(f"{here}.constraints", constraints, MAX_CONSTRAINTS)
    for index, constraint in enumerate(constraints):
        causes += _constraint(constraint, known, f"{here}.constraints[{index}]")
    configs = devices.get("config") or []
    causes += _limit(f"{here}.config", configs, MAX_CONFIGS)
    for index, config in enumerate(configs):
        causes += _config(config, known, f"{here}.config[{index}]")
    return causes


def request_names(spec: dict[str, Any] | None) -> set[str]:
    """The names a constraint or config may use: requests, and "request/subrequest"."""
    names: set[str] = set()
    for request in dig(spec, "devices", "requests") or ():
        names.add(request.get("name"))
        names |= {f"{request.get('name')}/{sub.get('name')}" for sub in request.get("firstAvailable") or ()}
    return names


def result_names(spec: dict[str, Any] | None) -> set[str]:
    """The names an allocation result may use: a request, or one of its subrequests where it has some."""
    names: set[str] = set()
    for request in dig(spec, "devices", "requests") or ():
        alternatives = request.get("firstAvailable") or ()
        names |= {f"{request.get('name')}/{sub.get('name')}" for sub in alternatives} or {request.get("name")}
    return names


def _request(request: dict[str, Any], at: str) -> list[Cause]:
    causes = dns_label(f"{at}.name", request.get("name"))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        causes.append(
            invalid(at, "both", "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
        )
    elif exactly is None and not alternatives:
        causes.append(required(at, "exactly one of `exactly` or `firstAvailable` is required"))
    elif exactly is not None:
        causes += _detail(exactly, f"{at}.exactly")
    else:
        causes += _limit(f"{at}.firstAvailable", alternatives, MAX_ALTERNATIVES)
        seen: set[str] = set()
        for index, sub in enumerate(alternatives):
            here = f"{at}.firstAvailable[{index}]"
            causes += dns_label(f"{here}.name", sub.get("name"))
            if sub.get("name") in seen:
                causes.append(duplicate(f"{here}.name", sub.get("name")))
            seen.add(sub.get("name") or "")
            causes += _detail(sub, here)
    return causes


def _detail(detail: dict[str, Any], at: str) -> list[Cause]:
    name = detail.get("deviceClassName")
    causes = dns_subdomain(f"{at}.deviceClassName", name) if name else [required(f"{at}.deviceClassName")]
    causes += _selectors(detail.get("selectors"), f"{at}.selectors")
    mode, count = detail.get("allocationMode"), detail.get("count") or 0
    match mode:
        case "ExactCount":
            if count <= 0:
                causes.append(invalid(f"{at}.count", count, "must be greater than zero"))
        case "All":
            if count:
                causes.append(invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'"))
        case other:
            causes.append(unsupported(f"{at}.allocationMode", other, ("All", "ExactCount")))
    tolerations = detail.get("tolerations") or []
    causes += _limit(f"{at}.tolerations", tolerations, MAX_TOLERATIONS)
    for index, toleration in enumerate(tolerations):
        causes += _toleration(toleration, f"{at}.tolerations[{index}]")
    return causes


def _toleration(toleration: dict[str, Any], at: str) -> list[Cause]:
    operator = toleration.get("operator")
    if operator not in ("Exists", "Equal"):
        return [unsupported(f"{at}.operator", operator, ("Equal", "Exists"))]
    if operator == "Exists" and toleration.get("value"):
        return [invalid(f"{at}.value", toleration["value"], "must be empty for operator `Exists`")]
    if operator == "Equal" and not toleration.get("key"):
        return [required(f"{at}.key")]
    effect = toleration.get("effect")
    if effect and effect not in ("NoExecute", "NoSchedule", "None"):
        return [unsupported(f"{at}.effect", effect, ("NoExecute", "NoSchedule", "None"))]
    return []


def _selectors(selectors: list[Any] | None, at: str) -> list[Cause]:
    causes = _limit(at, selectors, MAX_SELECTORS)
    for index, selector in enumerate(selectors or ()):
        here = f"{at}[{index}]"
        if selector.get("cel") is None:
            causes.append(required(f"{here}.cel"))
        elif not selector["cel"].get("expression"):
            causes.append(required(f"{here}.cel.expression"))
        elif len(selector["cel"]["expression"].encode()) > MAX_EXPRESSION:
            causes.append(too_long(f"{here}.cel.expression", MAX_EXPRESSION))
    return causes


def _constraint(constraint: dict[str, Any], known: set[str], at: str) -> list[Cause]:
    causes = _references(constraint.get("requests"), known, at)
    match_attribute, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match_attribute is not None and distinct is not None:
        causes.append(invalid(at, "both", 'exactly one of "matchAttribute" or "distinctAttribute" is required'))
    elif match_attribute is not None:
        causes += device_attribute_name(f"{at}.matchAttribute", match_attribute, domain_required=True)
    elif distinct is not None:
        causes += device_attribute_name(f"{at}.distinctAttribute", distinct, domain_required=True)
    else:
        causes.append(required(at, 'exactly one of "matchAttribute" or "distinctAttribute" is required'))
    return causes


def _config(config: dict[str, Any], known: set[str], at: str) -> list[Cause]:
    causes = _references(config.get("requests"), known, at)
    if config.get("opaque") is None:
        causes.append(required(f"{at}.opaque"))
    else:
        causes += dns_subdomain(f"{at}.opaque.driver", config["opaque"].get("driver"), 63)
        if config["opaque"].get("parameters") is None:
            causes.append(required(f"{at}.opaque.parameters"))
    return causes


def _references(names: list[str] | None, known: set[str], at: str) -> list[Cause]:
    causes = _limit(f"{at}.requests", names, MAX_REQUESTS)
    return causes + [
        invalid(
            f"{at}.requests[{index}]",
            name,
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
        )
        for index, name in enumerate(names or ())
        if name not in known
    ]


def _limit(at: str, items: list[Any] | None, most: int) -> list[Cause]:
    return [too_many(at, len(items), most)] if items and len(items) > most else []


def claim_status_updated(new: Object, old: Object) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, was = status.get("allocation"), before.get("allocation")
    causes: list[Cause] = []
    if allocation is not None and was is not None and allocation != was:
        causes.append(invalid("status.allocation", "the changed allocation", "field is immutable"))
    elif allocation is not None and was is None:
        causes += _allocation(allocation, new.get("spec"))
    causes += _consumers(status, before, deleting=bool(old["metadata"].get("deletionTimestamp")))
    causes += _device_status(status)
    return causes


def _allocation(allocation: dict[str, Any], spec: dict[str, Any] | None) -> list[Cause]:
    at = "status.allocation.devices"
    results = dig(allocation, "devices", "results") or []
    causes = _limit(f"{at}.results", results, MAX_RESULTS)
    allowed = result_names(spec)
    for index, result in enumerate(results):
        here = f"{at}.results[{index}]"
        name = result.get("request")
        if name not in allowed:
            causes.append(
                invalid(
                    f"{here}.request",
                    name,
                    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                )
            )
        causes += dns_subdomain(f"{here}.driver", result.get("driver"), 63)
        pool = str(result.get("pool") or "")
        if not pool:
            causes.append(required(f"{here}.pool"))
        else:
            for part in pool.split("/"):
                causes += dns_subdomain(f"{here}.pool", part)
        causes += dns_label(f"{here}.device", result.get("device"))
    selector = allocation.get("nodeSelector")
    if selector is not None:
        terms = selector.get("nodeSelectorTerms") or []
        if not terms:
            causes.append(
                required(
                    "status.allocation.nodeSelector.nodeSelectorTerms", "must have at least one node selector term"
                )
            )
        for index, term in enumerate(terms):
            causes += _term(term, f"status.allocation.nodeSelector.nodeSelectorTerms[{index}]")
    return causes


def _term(term: dict[str, Any], at: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, requirement in enumerate(term.get("matchFields") or ()):
        here = f"{at}.matchFields[{index}]"
        if requirement.get("key") != "metadata.name":
            causes.append(invalid(f"{here}.key", requirement.get("key"), "not a valid field selector key"))
        if len(requirement.get("values") or ()) != 1:
            causes.append(
                required(
                    f"{here}.values",
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                )
            )
    return causes


def _consumers(status: dict[str, Any], before: dict[str, Any], *, deleting: bool) -> list[Cause]:
    consumers = status.get("reservedFor") or []
    causes = _limit("status.reservedFor", consumers, MAX_CONSUMERS)
    known = {consumer.get("uid") for consumer in before.get("reservedFor") or ()}
    seen: set[str] = set()
    for index, consumer in enumerate(consumers):
        at = f"status.reservedFor[{index}]"
        causes += [required(f"{at}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]
        if consumer.get("uid") in seen:
            causes.append(duplicate(at, consumer))
        seen.add(consumer.get("uid") or "")
    if consumers and status.get("allocation") is None:
        causes.append(forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set"))
    if deleting and seen - known:
        causes.append(
            forbidden_field(
                "status.reservedFor",
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            )
        )
    return causes


def _device_status(status: dict[str, Any]) -> list[Cause]:
    allocated = {_device(result) for result in dig(status, "allocation", "devices", "results") or ()}
    return [
        invalid(f"status.devices[{index}]", device.get("device"), "must be an allocated device in the claim")
        for index, device in enumerate(status.get("devices") or ())
        if _device(device) not in allocated
    ]


def forget_devices(new: Object, old: Object) -> None:
    """Driver status of devices that are no longer allocated goes with the allocation, whoever writes it."""
    status = new.get("status") or {}
    before, now = _allocated(old), _allocated(new)
    kept = [device for device in status.get("devices") or () if _device(device) in now or _device(device) not in before]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)


def _allocated(claim: Object) -> set[tuple[Any, ...]]:
    return {_device(result) for result in dig(claim, "status", "allocation", "devices", "results") or ()}


def _device(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry.get("driver"), entry.get("pool"), entry.get("device"), entry.get("shareID")
