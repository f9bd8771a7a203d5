"""Durations as Go reads them."""

from __future__ import annotations

import pytest

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("1.s", 1.0),
        (".5s", 0.5),
        ("1m1m", 120.0),
        ("250us", 0.00025),
        ("1ns", 1e-9),
        ("0.1s0.2s", 0.3),
        ("8760h", 31_536_000.0),
    ],
)
def test_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "-1s",
        "+1s",
        "1d",
        "1 s",
        "s",
        ".s",
        "1s ",
        "1s\n",
        "1e3s",
        "٣s",
        "8761h",
        "1" * 33,
        30,
        1.5,
        None,
        True,
    ],
)
def test_not_a_duration(text: object) -> None:
    with pytest.raises(InvalidField):
        parse_duration(text)
