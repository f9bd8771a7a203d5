"""For `validate`: consumed capacity and constraint values, as the API documentation words them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dra_operator.allocator.validating_devices import Published
from dra_operator.api.claims import DeviceConstraint, RequestDetail
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.api.slices import AttributeValue, Device, RequestPolicy
from dra_operator.cel import CompileError, EvaluationError, bind_device, compile_derived
from dra_operator.inventory import Features


def capacity_fault(
    detail: RequestDetail, device: Device, consumed: Mapping[str, Quantity] | None, features: Features
) -> str | None:
    """What is wrong between what was asked of a device's capacities and what is consumed (None: nothing is recorded).

    CapacityRequirements: a device must have every capacity requested, at least in the amount requested.
    """
    for name, amount in detail.capacity.items():
        if name not in device.capacity:
            return f"has no capacity {name}"
        if amount > device.capacity[name]:
            return f"has {device.capacity[name]} of {name}, {amount} are asked for"
    if consumed is None:
        return next(
            (
                f"cannot serve {detail.capacity.get(name)} of {name}"
                for name, value in device.capacity.items()
                if not _servable(detail.capacity.get(name), value, device.policies.get(name))
            ),
            None,
        )
    if set(consumed) != set(device.capacity):
        return "consumedCapacity does not list the device's capacities"
    for name, amount in consumed.items():
        fault = _amount_fault(
            detail.capacity.get(name), amount, device.capacity[name], device.policies.get(name), features
        )
        if fault is not None:
            return f"consumes {amount} of {name}: {fault}"
    return None


def _servable(requested: Quantity | None, value: Quantity, policy: RequestPolicy | None) -> bool:
    """Is there an amount at or above the request that the policy and the device allow?"""
    if policy is None or requested is None:
        return True
    if policy.minimum is not None:
        least = policy.minimum.nano
        if requested.nano > least:
            step = policy.step.nano if policy.step is not None else 0
            least = requested.nano if not step else least + -(-(requested.nano - least) // step) * step
        most = value.nano if policy.maximum is None else min(value.nano, policy.maximum.nano)
        return least <= most
    if policy.valid_values is not None:
        return any(requested <= valid <= value for valid in policy.valid_values)
    return True


def _amount_fault(
    requested: Quantity | None, amount: Quantity, value: Quantity, policy: RequestPolicy | None, features: Features
) -> str | None:
    """CapacityRequestPolicy: the default where nothing is requested (without one, all of it), else the smallest valid amount that is
    not below the request."""
    if requested is None:
        expected = policy.default if policy is not None and policy.default is not None else value
        return None if amount == expected else f"the default is {expected}"
    if amount < requested:
        return f"{requested} are asked for"
    if policy is None:
        return None if amount == requested else f"{requested} are asked for"
    if policy.minimum is not None:
        return _range_fault(requested, amount, policy, features)
    if policy.valid_values is not None:
        valid = [item for item in policy.valid_values if item >= requested]
        return None if valid and amount == min(valid) else "not the smallest valid value"
    return None if amount == requested else f"{requested} are asked for"


def _range_fault(requested: Quantity, amount: Quantity, policy: RequestPolicy, features: Features) -> str | None:
    minimum, step = policy.minimum, policy.step
    assert minimum is not None
    if amount < minimum or (policy.maximum is not None and amount > policy.maximum):
        return "outside the valid range"
    if step is None:
        return None if amount == max(requested, minimum) else "more than asked for"
    bounds = [item for item in (minimum, step, policy.maximum) if item is not None]
    exact = all(item.as_int64() is not None for item in (*bounds, requested)) or (
        features.fractional_capacity_range and all(item.milli() is not None for item in bounds)
    )
    if not exact:
        # Other fractions are rounded to whole numbers first; only the bounds above are certain then.
        return None
    if (amount.nano - minimum.nano) % step.nano:
        return f"not a multiple of {step} from {minimum}"
    return None if amount == minimum or amount.nano - step.nano < requested.nano else "more steps than needed"


def constraint_fault(
    constraint: DeviceConstraint, covered: Sequence[tuple[Published, RequestDetail]], features: Features
) -> str | None:
    """DeviceConstraint: matchAttribute, all devices have the attribute with the same value (lists: a value in common);
    distinctAttribute, pairwise different values (lists: none in common)."""
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    values: list[frozenset[object]] = []
    lists = 0
    for device, detail in covered:
        value = _value(device, detail, name)
        if value is None or value == ():
            return f"device {device.id} has no attribute {name}"
        if isinstance(value, tuple) and not features.list_type_attributes:
            # Without the feature a list is a value of its own that cannot be compared.
            lists += 1
            if lists > 1 or (constraint.match_attribute is not None and len(covered) > 1):
                return f"device {device.id} has a list as {name}, which is not supported"
            continue
        items = value if isinstance(value, tuple) else (value,)
        values.append(frozenset(map(_comparable, items)))
    if constraint.match_attribute is not None:
        return None if not values or frozenset.intersection(*values) else f"the devices do not agree in {name}"
    seen: set[object] = set()
    for items_of_one in values:
        if seen & items_of_one:
            return f"two devices have the same {name}"
        seen |= items_of_one
    return None


def _value(device: Published, detail: RequestDetail, name: str) -> AttributeValue:
    for derived in detail.derived_attributes:
        if derived.name == name:
            bound = bind_device(
                device.id.driver, device.device.attributes, device.device.capacity, device.device.allow_multiple
            )
            try:
                return compile_derived(derived.expression).evaluate(bound)[0]
            except (CompileError, EvaluationError):
                return None
    attributes = device.device.attributes
    domain, _, identifier = name.partition("/")
    if name in attributes:
        return attributes[name]
    return attributes.get(identifier) if domain == device.id.driver else None


def _comparable(value: object) -> tuple[str, object]:
    return type(value).__name__, str(value) if isinstance(value, Semver) else value
