"""Quantities and semantic versions in expressions.

The values are `api.quantity` and `api.semver`; this module only gives them functions.
Source: k8s.io/apiserver `pkg/cel/library/quantity`, `semverlib` (version 1). `sign` is a plain function there, not a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_operator.api.quantity import Format, Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.values import INT64_MAX


def declare(functions: Registry) -> None:
    """Add the quantity and version functions."""
    plain, member = functions.plain, functions.member
    plain("quantity", "string_to_quantity", "string -> kubernetes.Quantity", _reading(Quantity.parse))
    plain("isQuantity", "is_quantity_string", "string -> bool", _reads(Quantity.parse))
    plain("sign", "quantity_sign", "kubernetes.Quantity -> int", lambda quantity: quantity.sign)
    member("asInteger", "quantity_get_int", "kubernetes.Quantity -> int", _integer)
    member(
        "isInteger",
        "quantity_is_integer",
        "kubernetes.Quantity -> bool",
        lambda value: value.stored_int64() is not None,
    )
    member(
        "asApproximateFloat",
        "quantity_get_float",
        "kubernetes.Quantity -> double",
        lambda value: value.approximate_float(),
    )
    for kind, name in (("quantity", "kubernetes.Quantity"), ("semver", "kubernetes.Semver")):
        pair = f"{name}, {name}"
        member("isGreaterThan", f"{kind}_is_greater_than", f"{pair} -> bool", lambda left, right: left > right)
        member("isLessThan", f"{kind}_is_less_than", f"{pair} -> bool", lambda left, right: left < right)
        member("compareTo", f"{kind}_compare_to", f"{pair} -> int", lambda left, right: (left > right) - (left < right))
    both = "kubernetes.Quantity, kubernetes.Quantity -> kubernetes.Quantity"
    whole = "kubernetes.Quantity, int -> kubernetes.Quantity"
    member("add", "quantity_add", both, lambda left, right: left + right)
    member("add", "quantity_add_int", whole, lambda left, right: left + _whole(right))
    member("sub", "quantity_sub", both, lambda left, right: left - right)
    member("sub", "quantity_sub_int", whole, lambda left, right: left - _whole(right))
    plain("semver", "string_to_semver", "string -> kubernetes.Semver", _reading(Semver.parse))
    plain("semver", "string_bool_to_semver", "string, bool -> kubernetes.Semver", _reading(Semver.parse))
    plain("isSemver", "is_semver_string", "string -> bool", _reads(Semver.parse))
    plain("isSemver", "is_semver_string_bool", "string, bool -> bool", _reads(Semver.parse))
    for part in ("major", "minor", "patch"):
        member(part, f"semver_{part}", "kubernetes.Semver -> int", _part(part))


def _whole(value: int) -> Quantity:
    return Quantity.from_int(value, Format.DecimalExponent)


def _reading(parse: Callable[..., Any]) -> Callable[..., Any]:
    def read(*args: Any) -> Any:
        try:
            return parse(*args)
        except ValueError as error:
            raise EvaluationError(str(error)) from None

    return read


def _reads(parse: Callable[..., Any]) -> Callable[..., bool]:
    def reads(*args: Any) -> bool:
        try:
            parse(*args)
        except ValueError:
            return False
        return True

    return reads


def _integer(value: Quantity) -> int:
    whole = value.stored_int64()
    if whole is None:
        raise EvaluationError("cannot convert value to integer")
    return whole


def _part(name: str) -> Callable[[Semver], int]:
    def part(version: Semver) -> int:
        number: int = getattr(version, name)
        # Go stores it unsigned and hands it out signed.
        return number if number <= INT64_MAX else number - 2**64

    return part
