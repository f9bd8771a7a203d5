"""Rules on what claims ask for, beyond what the API server checks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dra_operator.api.claims import ADMIN_ACCESS_LABEL, MAX_RESULTS, quantity
from dra_operator.api.errors import InvalidField
from dra_operator.api.fieldpath import FieldPath
from dra_operator.lint.findings import Found, rule
from dra_operator.lint.scope import Scope
from dra_operator.lint.subjects import Object, Subject, claim_devices, details, mapping, mappings, selectors, texts

_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
_DRIVER = re.compile(r"device\.driver\s*==\s*(['\"])([a-z0-9.-]+)\1")


@rule(
    "too-many-devices",
    *_CLAIMS,
    what="A claim that needs more devices than one claim can have.",
    outcome="no allocation is possible: the claim waits for ever",
    repair=f"Ask for at most {MAX_RESULTS} devices in a claim; spread the others over more claims.",
)
def too_many_devices(subject: Subject, scope: Scope) -> Iterator[Found]:
    if not subject.current:
        return
    path, _ = claim_devices(subject)
    fewest: dict[str, int] = {}
    for detail in details(subject):
        name = detail.reference.partition("/")[0]
        wanted = 1 if detail.value.get("allocationMode") == "All" else detail.count
        fewest[name] = min(wanted, fewest.get(name, wanted))
    if (total := sum(fewest.values())) > MAX_RESULTS:
        yield Found(
            (*path, "requests"), f"the claim asks for at least {total} devices, the most a claim has is {MAX_RESULTS}"
        )


@rule(
    "foreign-config",
    "DeviceClass",
    *_CLAIMS,
    what="A config for a driver whose devices the class, or the claim's classes, exclude.",
    outcome="no driver ever sees these parameters",
    repair="Name the driver of the devices, or remove the config.",
    level="warning",
)
def foreign_config(subject: Subject, scope: Scope) -> Iterator[Found]:
    if subject.kind == "DeviceClass":
        spec = mapping(subject.value.get("spec"))
        for at, config in mappings(spec.get("config"), ("spec", "config")):
            yield from _foreign(at, config, [subject.name], scope)
        return
    path, devices = claim_devices(subject)
    for at, config in mappings(devices.get("config"), (*path, "config")):
        concerned = {name.partition("/")[0] for _, name in texts(config.get("requests"), ())}
        asked = [item for item in details(subject) if not concerned or item.reference.partition("/")[0] in concerned]
        yield from _foreign(at, config, [item.device_class for item in asked], scope)


def _foreign(at: FieldPath, config: Object, classes: list[str], scope: Scope) -> Iterator[Found]:
    driver = mapping(config.get("opaque")).get("driver")
    drivers = [_drivers(name, scope) for name in classes]
    known = {name for found in drivers if found is not None for name in found}
    if not isinstance(driver, str) or not drivers or None in drivers or driver in known:
        return
    names = ", ".join(sorted(set(classes)))
    problem = f"the config is for {driver}, but class {names} has devices of {', '.join(sorted(known))} only"
    yield Found((*at, "opaque", "driver"), problem)


def _drivers(device_class: str, scope: Scope) -> set[str] | None:
    """The drivers that a class is limited to by a term `device.driver == '…'`; None where that is not known."""
    subject = scope.classes.get(device_class)
    if subject is None:
        return None
    for place in selectors(mapping(subject.value.get("spec")), ("spec",)):
        selector = scope.compiled(place.expression)
        for conjunct in getattr(selector, "conjuncts", ()):
            comparison = conjunct.comparison
            if comparison is not None and comparison.read == ("driver",) and comparison.operator == "==":
                return {str(comparison.bound)}
            found = {match[2] for match in _DRIVER.finditer(conjunct.text)}
            if found and _only_drivers(conjunct.text):
                return found
    return None


def _only_drivers(text: str) -> bool:
    """Whether a term is nothing but a choice of drivers."""
    return not re.sub(r"[\s|()]", "", _DRIVER.sub("", text))


@rule(
    "negative-amount",
    *_CLAIMS,
    what="A request for a negative amount of a capacity.",
    outcome="allocating the claim fails with an error",
    repair="Ask for an amount above 0.",
)
def negative_amount(subject: Subject, scope: Scope) -> Iterator[Found]:
    for detail in details(subject):
        for name, amount in mapping(mapping(detail.value.get("capacity")).get("requests")).items():
            try:
                negative = quantity(amount).nano < 0
            except InvalidField:
                continue
            if negative:
                yield Found((*detail.path, "capacity", "requests", str(name)), f"{name}: {amount} is negative")


@rule(
    "toleration-without-effect",
    *_CLAIMS,
    what="A toleration of device taints that names no effect.",
    outcome="it lets devices with NoExecute taints be allocated, and does not keep the pod from being evicted from them",
    repair="Name the effect: NoExecute to run on such devices, NoSchedule to leave them out.",
    level="warning",
)
def toleration_without_effect(subject: Subject, scope: Scope) -> Iterator[Found]:
    """kube-scheduler takes an empty effect for all of them; what evicts pods in kube-controller-manager (1.37) takes it for none."""
    for detail in details(subject):
        for at, toleration in mappings(detail.value.get("tolerations"), (*detail.path, "tolerations")):
            if not toleration.get("effect"):
                yield Found(
                    at, "the toleration has no effect field, and counts for allocation only, not against eviction"
                )


@rule(
    "admin-access-namespace",
    *_CLAIMS,
    what="Admin access in a namespace that is not labelled for it.",
    outcome="the API server refuses the claim",
    repair=f'Label the namespace {ADMIN_ACCESS_LABEL}: "true".',
)
def admin_access(subject: Subject, scope: Scope) -> Iterator[Found]:
    for detail in details(subject):
        if detail.value.get("adminAccess") is not True:
            continue
        for other in scope.subjects:
            if other.kind == "Namespace" and other.name == subject.namespace:
                labels = mapping(mapping(other.value.get("metadata")).get("labels"))
                if labels.get(ADMIN_ACCESS_LABEL) != "true":
                    yield Found(
                        (*detail.path, "adminAccess"), f"namespace {other.name} has no label {ADMIN_ACCESS_LABEL}=true"
                    )
