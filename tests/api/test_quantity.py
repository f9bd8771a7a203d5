"""Quantities: what is read, how it is written again, order and sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import Format, Quantity

# text: (canonical text, format, value in nano)
READ = {
    "0": ("0", Format.DecimalSI, 0),
    "0.0": ("0", Format.DecimalSI, 0),
    "00": ("0", Format.DecimalSI, 0),
    "1": ("1", Format.DecimalSI, 10**9),
    "+5": ("+5", Format.DecimalSI, 5 * 10**9),
    "-5": ("-5", Format.DecimalSI, -5 * 10**9),
    ".5": ("500m", Format.DecimalSI, 5 * 10**8),
    "1.": ("1.", Format.DecimalSI, 10**9),
    # No digits at all count as 0, as in apimachinery.
    "e3": ("0", Format.DecimalExponent, 0),
    "Ki": ("0", Format.BinarySI, 0),
    "0.5": ("500m", Format.DecimalSI, 5 * 10**8),
    "500m": ("500m", Format.DecimalSI, 5 * 10**8),
    "1000m": ("1", Format.DecimalSI, 10**9),
    "1.500": ("1.500", Format.DecimalSI, 15 * 10**8),
    "100u": ("100u", Format.DecimalSI, 10**5),
    "3n": ("3n", Format.DecimalSI, 3),
    "1k": ("1k", Format.DecimalSI, 10**12),
    "1000": ("1k", Format.DecimalSI, 10**12),
    "1M": ("1M", Format.DecimalSI, 10**15),
    "1G": ("1G", Format.DecimalSI, 10**18),
    "1T": ("1T", Format.DecimalSI, 10**21),
    "1P": ("1P", Format.DecimalSI, 10**24),
    "1E": ("1E", Format.DecimalSI, 10**27),
    "1e3": ("1e3", Format.DecimalExponent, 10**12),
    "1E3": ("1E3", Format.DecimalExponent, 10**12),
    "12e6": ("12e6", Format.DecimalExponent, 12 * 10**15),
    "1e+3": ("1e+3", Format.DecimalExponent, 10**12),
    "1e4": ("10e3", Format.DecimalExponent, 10**13),
    "5e-3": ("5e-3", Format.DecimalExponent, 5 * 10**6),
    "1023Ki": ("1023Ki", Format.BinarySI, 1023 * 1024 * 10**9),
    "1024Ki": ("1Mi", Format.BinarySI, 2**20 * 10**9),
    "80Gi": ("80Gi", Format.BinarySI, 80 * 2**30 * 10**9),
    "1.5Gi": ("1536Mi", Format.BinarySI, 3 * 2**29 * 10**9),
    "-1.5Gi": ("-1536Mi", Format.BinarySI, -3 * 2**29 * 10**9),
    "0.1Ki": ("102400m", Format.BinarySI, 102_400_000_000),
    "0.0001Ki": ("102400u", Format.DecimalSI, 102_400_000),
    "9223372036854775807Ei": ("9223372036854775807", Format.BinarySI, (2**63 - 1) * 10**9),
    # Beyond 10^-9 it is rounded away from zero.
    "1.1n": ("2n", Format.DecimalSI, 2),
    "-1.1n": ("-2n", Format.DecimalSI, -2),
    "1e-20": ("1e-9", Format.DecimalExponent, 1),
    "1e-999999999": ("1e-9", Format.DecimalExponent, 1),
    "1500000000000000000000": ("1500E", Format.DecimalSI, 15 * 10**29),
}


@pytest.mark.parametrize("text", READ)
def test_read_and_write(text: str) -> None:
    canonical, shape, nano = READ[text]
    quantity = Quantity.parse(text)
    assert (str(quantity), quantity.format, quantity.nano) == (canonical, shape, nano)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 ", " 1", "1Kii", "1ki", "1mi", "Ki1", "1e", "1e3k", "--1", "1.1.1", "1e1001", "1e99999999999", "٣"],
)
def test_what_is_no_quantity_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|exponent"):
        Quantity.parse(text)


def test_absurd_lengths_are_refused_quickly() -> None:
    with pytest.raises(ValueError, match="too many digits"):
        Quantity.parse("9" * 1_000_000)


@pytest.mark.parametrize(
    ("text", "whole", "stored", "milli", "value"),
    [
        ("5", 5, 5, 5000, 5),
        ("1.5", None, None, 1500, 2),
        ("-1.5", None, None, -1500, -2),
        ("1n", None, None, None, 1),
        ("1000m", 1, None, 1000, 1),
        ("1.5Gi", 3 * 2**29, None, 3 * 2**29 * 1000, 3 * 2**29),
        ("8Ei", None, None, None, 2**63 - 1),
        ("9223372036854775807", 2**63 - 1, None, None, 2**63 - 1),
        ("10E", None, None, None, 10**19),
    ],
)
def test_whole_and_milli(text: str, whole: int | None, stored: int | None, milli: int | None, value: int) -> None:
    quantity = Quantity.parse(text)
    if text == "8Ei":  # capped at the largest int64 on reading
        whole = 2**63 - 1
    assert (quantity.as_int64(), quantity.stored_int64(), quantity.milli(), quantity.value()) == (
        whole,
        stored,
        milli,
        value,
    )


def test_equal_by_value_whatever_the_text() -> None:
    assert Quantity.parse("1024Ki") == Quantity.parse("1Mi") == Quantity.from_int(2**20)
    assert len({Quantity.parse("1k"), Quantity.parse("1000"), Quantity.parse("1e3"), Quantity.from_milli(10**6)}) == 1
    assert Quantity.parse("1Gi") > Quantity.parse("1G") >= Quantity.parse("1000M")
    assert Quantity.parse("1") != 1


def test_sums_keep_the_format_of_the_first_that_is_not_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1M")) == "1074741824"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("2Gi") - Quantity.parse("1Gi")) == "1Gi"
    assert str(-Quantity.parse("1Gi")) == "-1Gi"
    assert str(Quantity.parse("1") - Quantity.parse("100m")) == "900m"
    assert str(Quantity.from_int(80 * 2**30, Format.BinarySI)) == "80Gi"
    assert str(Quantity.from_int(1000, Format.BinarySI)) == "1k"


def test_immutable() -> None:
    with pytest.raises(AttributeError):
        Quantity.parse("1").nano = 5  # type: ignore[misc]


@given(
    st.integers(-(2**70), 2**70),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Ti", "e2", "e-5"]),
)
def test_what_is_written_reads_back_as_the_same_value(number: int, suffix: str) -> None:
    quantity = Quantity.parse(f"{number}{suffix}")
    assert Quantity.parse(str(quantity)) == quantity
    assert str(Quantity.parse(str(quantity))) == str(quantity)


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_sums_are_exact(left: int, right: int) -> None:
    a, b = Quantity(left), Quantity(right)
    assert (a + b).nano == left + right
    assert (a - b) + b == a
    assert (a < b) == (left < right)
