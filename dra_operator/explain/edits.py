"""A draft as edits of objects, for programs: what differs between the claims and classes as they are and as they were tried."""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.api.claims import ClaimSpec, DeviceConstraint, RequestDetail
from dra_operator.explain.drafts import Draft
from dra_operator.explain.explanation import Edit
from dra_operator.explain.situation import Situation


def edits_of(situation: Situation, draft: Draft) -> tuple[Edit, ...]:
    """Claims first, then classes, then everything else."""
    found: list[Edit] = []
    for number, (old, new) in enumerate(zip(situation.problem.claims, draft.problem.claims, strict=True)):
        if old.spec != new.spec:
            origin = situation.origin(number)
            prefix = "spec.spec.devices" if origin.startswith("ResourceClaimTemplate") else "spec.devices"
            found += _of_spec(origin, prefix, old.spec, new.spec)
    classes = situation.snapshot.classes
    for name, device_class in draft.classes.items():
        known = classes.get(name)
        for index, expression in enumerate(device_class.selectors):
            if known is not None and known.selectors[index] != expression:
                found.append(Edit(f"DeviceClass {name}", f"spec.selectors[{index}].cel.expression", expression))
    # Claims made from one template share its edits.
    distinct: list[Edit] = []
    for edit in (*found, *draft.edits):
        if edit not in distinct:
            distinct.append(edit)
    return tuple(distinct)


def _of_spec(origin: str, prefix: str, old: ClaimSpec, new: ClaimSpec) -> Iterator[Edit]:
    for index, (before, after) in enumerate(zip(old.requests, new.requests, strict=True)):
        path = f"{prefix}.requests[{index}]"
        for sub, (was, now) in enumerate(zip(before.details, after.details, strict=True)):
            at = f"{path}.exactly" if before.exactly is not None else f"{path}.firstAvailable[{sub}]"
            for name, value in _of_detail(was, now):
                yield Edit(origin, f"{at}.{name}", value)
    if old.constraints != new.constraints:
        yield Edit(origin, f"{prefix}.constraints", [_constraint(item) for item in new.constraints])


def _of_detail(old: RequestDetail, new: RequestDetail) -> Iterator[tuple[str, object]]:
    if old.device_class_name != new.device_class_name:
        yield "deviceClassName", new.device_class_name
    if old.selectors != new.selectors:
        if len(old.selectors) == len(new.selectors):
            for index, (was, now) in enumerate(zip(old.selectors, new.selectors, strict=True)):
                if was != now:
                    yield f"selectors[{index}].cel.expression", now
        else:
            yield "selectors", [{"cel": {"expression": text}} for text in new.selectors]
    if old.allocation_mode != new.allocation_mode:
        yield "allocationMode", new.allocation_mode
    if old.count != new.count or old.allocation_mode != new.allocation_mode:
        yield "count", new.count
    if old.tolerations != new.tolerations:
        yield "tolerations", [item.to_dict() for item in new.tolerations]
    if old.capacity != new.capacity:
        yield "capacity.requests", {name: str(amount) for name, amount in new.capacity.items()}


def _constraint(item: DeviceConstraint) -> dict[str, object]:
    result: dict[str, object] = {}
    if item.requests:
        result["requests"] = list(item.requests)
    if item.match_attribute is not None:
        result["matchAttribute"] = item.match_attribute
    if item.distinct_attribute is not None:
        result["distinctAttribute"] = item.distinct_attribute
    return result
