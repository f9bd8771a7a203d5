"""How much of a device's capacity one allocation takes (KEP-5075), as the API documentation of CapacityRequestPolicy defines it.

Pure arithmetic on published values. What others have taken already is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_operator.api.quantity import Quantity
from dra_operator.api.slices import Device, RequestPolicy

_INT64_MAX = 2**63 - 1


class CapacityError(ValueError):
    """A request or published value with which nothing can be computed; it is no device's fault that it does not fit."""


def consumption(requests: Mapping[str, Quantity], device: Device, fractional: bool) -> dict[str, Quantity] | None:
    """What an allocation takes of each of the device's capacities, by name; None if the device cannot serve the request at all.

    `fractional`: ranges may be in thousandths (gate DRAFractionalCapacityRange). Raises CapacityError.
    """
    if any(name not in device.capacity for name in requests):
        return None
    if not requests and not device.policies and all(amount.sign >= 0 for amount in device.capacity.values()):
        # All there is: what most devices without shares are asked for.
        return dict(sorted(device.capacity.items()))
    taken: dict[str, Quantity] = {}
    for name in sorted(device.capacity):
        try:
            amount = _amount(requests.get(name), device.capacity[name], device.policies.get(name), fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.sign < 0:
            raise CapacityError(
                f'capacity "{name}": capacity value is negative ({amount}); request or publish 0 or more'
            )
        taken[name] = amount
    for name, amount in taken.items():
        policy = device.policies.get(name)
        if amount > device.capacity[name] or (policy is not None and not _allowed(amount, policy, fractional)):
            return None
    return taken


def shortfall(requests: Mapping[str, Quantity], device: Device, fractional: bool) -> str:
    """What a device that cannot serve the request at all lacks, in a few words: there `consumption` is None."""
    for name in sorted(requests.keys() - device.capacity.keys()):
        return f"no capacity {name}" + (f", only {', '.join(sorted(device.capacity))}" if device.capacity else "")
    for name, value in sorted(device.capacity.items()):
        policy = device.policies.get(name)
        amount = _amount(requests.get(name), value, policy, fractional)
        if amount > value:
            return f"{name}: {amount} needed, {value} in all"
        if policy is not None and not _allowed(amount, policy, fractional):
            above = policy.maximum is not None and amount > policy.maximum
            return f"{name}: {amount} needed, {f'at most {policy.maximum} in one claim' if above else 'not a value it allows'}"
    raise AssertionError("the device can serve the request")


def _amount(requested: Quantity | None, value: Quantity, policy: RequestPolicy | None, fractional: bool) -> Quantity:
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else value
    if policy is None:
        return requested
    if policy.minimum is not None:
        return _round_up(requested, policy, fractional)
    if policy.valid_values is not None:
        return min((valid for valid in policy.valid_values if requested <= valid), default=requested)
    return requested


def _round_up(requested: Quantity, policy: RequestPolicy, fractional: bool) -> Quantity:
    """To the next step above the minimum."""
    minimum, step = policy.minimum, policy.step
    assert minimum is not None
    if requested < minimum:
        return minimum
    if step is None:
        return requested
    if _in_thousandths(policy, fractional):
        milli = requested.milli()
        if milli is None:
            raise CapacityError(
                "capacity request cannot be represented in the device's range arithmetic: "
                f"request {requested} is not a representable milli value"
            )
        rounded = _next_step(milli, minimum.milli() or 0, step.milli() or 0)
        if rounded > _INT64_MAX:
            raise CapacityError(_too_large(requested, "passes the milli-value range"))
        if rounded % 1000 == 0:
            return Quantity.from_int(rounded // 1000, step.format)
        return Quantity.from_milli(rounded, step.format)
    if requested > Quantity.from_int(_INT64_MAX):
        raise CapacityError(
            f"capacity request cannot be represented in the device's range arithmetic: request {requested} exceeds MaxInt64"
        )
    if step.value() <= 0:
        raise CapacityError(f"the step {step} of the published validRange is not positive")
    rounded = _next_step(requested.value(), minimum.value(), step.value())
    if rounded > _INT64_MAX:
        raise CapacityError(_too_large(requested, "passes MaxInt64"))
    return Quantity.from_int(rounded, step.format)


def _too_large(requested: Quantity, what: str) -> str:
    return (
        "capacity request cannot be represented in the device's range arithmetic: "
        f"rounding request {requested} up to the next step {what}"
    )


def _next_step(requested: int, minimum: int, step: int) -> int:
    return minimum + -(-(requested - minimum) // step) * step


def _in_thousandths(policy: RequestPolicy, fractional: bool) -> bool:
    """Are minimum, maximum and step all exact in thousandths, and the step at least one?"""
    if not fractional:
        return False
    bounds = (policy.minimum, policy.maximum, policy.step)
    if any(bound is not None and bound.milli() is None for bound in bounds):
        return False
    return policy.step is None or (policy.step.milli() or 0) >= 1


def _allowed(amount: Quantity, policy: RequestPolicy, fractional: bool) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.minimum is not None or policy.maximum is not None or policy.step is not None:
        return _in_range(amount, policy, fractional)
    return not policy.valid_values or amount in policy.valid_values


def _in_range(amount: Quantity, policy: RequestPolicy, fractional: bool) -> bool:
    if policy.maximum is not None and amount > policy.maximum:
        return False
    if policy.step is None:
        return True
    minimum = policy.minimum or Quantity.from_int(0)
    if _in_thousandths(policy, fractional):
        milli = amount.milli()
        return milli is not None and (milli - (minimum.milli() or 0)) % (policy.step.milli() or 1) == 0
    step = policy.step.value()
    return step > 0 and (amount.value() - minimum.value()) % step == 0
