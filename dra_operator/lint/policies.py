"""Rules on this operator's own objects, beyond their schemas."""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.lint.findings import Edit, Found, rule
from dra_operator.lint.scope import Scope, misspelt, same_but_for_case
from dra_operator.lint.subjects import Place, Subject, mapping, mappings, selectors, texts

GROUP_LABEL = "dra-operator.dev/claim-group"


@rule(
    "policy-unknown-class",
    "AllocationPolicy",
    what="A policy names a class that the input has under a slightly different name.",
    outcome="quota, reservation or policy never apply to anything",
    repair="Name the class as it is called.",
    level="warning",
)
def policy_unknown_class(subject: Subject, scope: Scope) -> Iterator[Found]:
    spec = mapping(subject.value.get("spec"))
    named = list(texts(spec.get("deviceClassNames"), ("spec", "deviceClassNames")))
    for field in ("quota", "reserve"):
        for path, item in mappings(spec.get(field), ("spec", field)):
            name = item.get("deviceClassName")
            if isinstance(name, str):
                named.append(((*path, "deviceClassName"), name))
    for path, name in named:
        near = misspelt(name, scope.class_names)
        if name not in scope.class_names and near is not None:
            edits = (Edit(path, "set", near),) if same_but_for_case(near, name) else ()
            yield Found(path, f"there is no class {name}", f"Write {near}.", edits)


@rule(
    "reservation-exceeds-inventory",
    "AllocationPolicy",
    what="A reservation of more devices than the inventory has.",
    outcome="nobody but the policy's own claims ever gets such a device",
    repair="Reserve fewer devices.",
    level="warning",
    inventory=True,
)
def reservation_exceeds_inventory(subject: Subject, scope: Scope) -> Iterator[Found]:
    spec = mapping(subject.value.get("spec"))
    for path, item in mappings(spec.get("reserve"), ("spec", "reserve")):
        of_class = scope.class_places(str(item.get("deviceClassName")))
        count = item.get("devices")
        if of_class is None or not isinstance(count, int):
            continue
        places: list[Place] = [*of_class, *selectors(item, path)]
        found = scope.candidates(places)
        if found is not None and found.devices and count > len(found.devices):
            yield Found((*path, "devices"), f"{count} devices are reserved, the inventory has {len(found.devices)}")


@rule(
    "unknown-group",
    what="A pod or claim joins a group that the input has under a slightly different name.",
    outcome="it is placed alone, and the group never completes",
    repair="Name the group as it is called.",
)
def unknown_group(subject: Subject, scope: Scope) -> Iterator[Found]:
    templates = {
        "Pod": ("metadata",),
        "ResourceClaim": ("metadata",),
        "CronJob": ("spec", "jobTemplate", "spec", "template", "metadata"),
    }
    path = templates.get(subject.kind, ("spec", "template", "metadata"))
    value = subject.value
    for step in path:
        value = mapping(value.get(step))
    name = mapping(value.get("labels")).get(GROUP_LABEL)
    if isinstance(name, str) and name not in (groups := scope.groups(subject.namespace)):
        near = misspelt(name, groups)
        if near is not None:
            at = (*path, "labels", GROUP_LABEL)
            edits = (Edit(at, "set", near),) if same_but_for_case(near, name) else ()
            yield Found(at, f"namespace {subject.namespace} has no ClaimGroup {name}", f"Write {near}.", edits)
