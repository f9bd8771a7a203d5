"""Core CEL against cel-python, which knows neither the extensions nor the device: where it has an answer, it is ours.

It is a second opinion in tests only: too slow and too small for evaluation at run time (hundreds of microseconds each, and about
half of the dialect missing).
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

celpy = pytest.importorskip("celpy")
logging.getLogger("celpy").setLevel(logging.CRITICAL)

# What cel-python answers differently from Go and from the specification.
DIFFERENT = {
    "0.0/0.0 == 0.0/0.0": "division of zeros is an error there",
    "0.0/0.0 != 0.0/0.0": "division of zeros is an error there",
    "1.0/-0.0 < 0.0": "the sign of zero is lost",
    "string(1.0)": "doubles print as Python prints them",
    "string(123456789.0)": "doubles print as Python prints them",
    "string(1000000.0)": "doubles print as Python prints them",
    "string(100000.0)": "doubles print as Python prints them",
    "string(0.0/0.0)": "doubles print as Python prints them",
    "string(1.0/0.0)": "doubles print as Python prints them",
    "string(-1.0/0.0)": "doubles print as Python prints them",
    "string(true)": "prints True",
    'string(duration("1.5s"))': "fractions of a second are lost",
    'string(duration("1ns"))': "fractions of a second are lost",
    'string(timestamp("2020-01-01T00:00:00.5Z"))': "fractions of a second are lost",
    'string(timestamp("9999-12-31T23:59:59.000000001Z"))': "fractions of a second are lost",
    "string(-0.0)": "doubles print as Python prints them",
    'int(timestamp("1969-12-31T23:59:59.5Z"))': "rounds towards zero",
    'has(optional.of({"a":1}).a)': "has no optionals",
}


def test_core_expressions() -> None:
    table = Path(__file__).with_name("dialect.txt").read_text().splitlines()
    environment = celpy.Environment()
    agreed, different = 0, []
    for line in table:
        if line[:2] not in ("T ", "F ") or "device" in line:
            continue
        try:
            answer = bool(environment.program(environment.compile(line[2:])).evaluate({}))
        except Exception:
            continue  # an extension it does not have, or an error of its own
        if answer is (line[0] == "T"):
            agreed += 1
        elif not line[2:].startswith(tuple(DIFFERENT)):
            different.append(line)
    assert not different
    assert agreed > 150
