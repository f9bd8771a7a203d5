"""Core CEL against cel-python and cel-expr-python (cel-cpp): where they have an answer, it is ours.

They are second opinions in tests only. Neither knows the Kubernetes libraries, the cost limit or the types of a device, and where
they differ from the code that the API server runs (listed below, with the reasons) that code is right for a selector.
What an evaluation costs beside them is what `python -m bench.cel` prints.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

#: Start of an expression -> why another answer is no reason to doubt ours.
Exceptions = dict[str, str]

_PYTHON_DOUBLES = "doubles print as Python prints them"
CEL_PYTHON: Exceptions = {
    "0.0/0.0 == 0.0/0.0": "division of zeros is an error there",
    "0.0/0.0 != 0.0/0.0": "division of zeros is an error there",
    "1.0/-0.0 < 0.0": "the sign of zero is lost",
    "string(1.0)": _PYTHON_DOUBLES,
    "string(123456789.0)": _PYTHON_DOUBLES,
    "string(1000000.0)": _PYTHON_DOUBLES,
    "string(100000.0)": _PYTHON_DOUBLES,
    "string(0.0/0.0)": _PYTHON_DOUBLES,
    "string(1.0/0.0)": _PYTHON_DOUBLES,
    "string(-1.0/0.0)": _PYTHON_DOUBLES,
    "string(-0.0)": _PYTHON_DOUBLES,
    "string(true)": "prints True",
    'string(duration("1.5s"))': "fractions of a second are lost",
    'string(duration("1ns"))': "fractions of a second are lost",
    'string(timestamp("2020-01-01T00:00:00.5Z"))': "fractions of a second are lost",
    'string(timestamp("9999-12-31T23:59:59.000000001Z"))': "fractions of a second are lost",
    'int(timestamp("1969-12-31T23:59:59.5Z"))': "rounds towards zero",
    'has(optional.of({"a":1}).a)': "has no optionals",
    'has(optional.of(dyn({"a":1})).a)': "has no optionals",
    "9223372036854775808.0 > 9223372036854775807": "compares exactly; Go rounds the integer to a double first",
    "18446744073709551615u < 18446744073709551616.0": "compares exactly; Go rounds the integer to a double first",
    "18446744073709551615u >= 18446744073709551616.0": "compares exactly; Go rounds the integer to a double first",
    r'"\`': "keeps the backslash",
}

_LOCALE = "strings v2 prints %f and %e with the separators of a locale, cel-cpp without"
_QUOTED = "strings v2 prints the elements of lists and maps as literals, cel-cpp as text"
CEL_CPP: Exceptions = {
    "string(0.0/0.0)": "prints -nan",
    "string(1.0/0.0)": "prints inf",
    "string(-1.0/0.0)": "prints -inf",
    'string(duration("1.5s"))': "pads the fraction to three digits",
    'string(timestamp("2020-01-01T00:00:00.5Z"))': "pads the fraction to three digits",
    'string(timestamp("2020-01-01T00:00:00+02:00"))': "prints UTC; Go keeps the offset",
    'string(timestamp("0000-12-31T23:30:00-01:00"))': "prints UTC; Go keeps the offset",
    'duration("1500ms").getMilliseconds() == 1500': "the milliseconds within the second; in Go all of them",
    "dyn(9007199254740993) in [9007199254740992.0]": "rounds to a double; in Go a set of constants is exact",
    "optional.ofNonZeroValue(timestamp(0))": "takes 1970 for no value; in Go the year 1 is",
    '"".split("") == []': "one empty part; in Go none",
    '"%.2f".format(': _LOCALE,
    '"%f".format([1.0/0.0])': _LOCALE,
    '"%f".format([-1.0/0.0])': _LOCALE,
    '"%f".format(["Infinity"])': _LOCALE,
    '"%e".format(': _LOCALE,
    '"%s".format([[': _QUOTED,
    '"%s".format([{': _QUOTED,
}


def cel_python() -> Callable[[str], object]:
    celpy = pytest.importorskip("celpy")
    logging.getLogger("celpy").setLevel(logging.CRITICAL)
    environment = celpy.Environment()
    return lambda text: bool(environment.program(environment.compile(text)).evaluate({}))


def cel_cpp() -> Callable[[str], object]:
    cel = pytest.importorskip("cel_expr_python.cel")
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(extensions=extensions)
    return lambda text: environment.compile(text).eval().value()


@pytest.mark.parametrize(
    ("opinion", "exceptions", "at_least"),
    [pytest.param(cel_python, CEL_PYTHON, 150, id="cel-python"), pytest.param(cel_cpp, CEL_CPP, 350, id="cel-cpp")],
)
def test_core_expressions(
    opinion: Callable[[], Callable[[str], object]], exceptions: Exceptions, at_least: int
) -> None:
    evaluate = opinion()
    agreed, different = 0, []
    for line in Path(__file__).with_name("dialect.txt").read_text().splitlines():
        verdict, text = line[:2], line[2:]
        if verdict not in ("T ", "F ") or "device" in text:
            continue
        try:
            answer = evaluate(text)
        except Exception:
            continue  # an extension it does not have, or an error of its own
        if answer is (verdict == "T "):
            agreed += 1
        elif isinstance(answer, bool):
            different.append(text)
    assert [text for text in different if not text.startswith(tuple(exceptions))] == []
    assert [start for start in exceptions if not any(text.startswith(start) for text in different)] == []
    assert agreed >= at_least
