"""Hostile expressions: an answer or an error, soon, and without using much memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import (
    MAX_BYTES,
    CompileError,
    CostLimitError,
    EvaluationError,
    bind_device,
    compile_selector,
)
from tests.cel.selecting import DEVICE, outcome

TOO_EXPENSIVE = "error: operation cancelled: actual cost limit exceeded"


def nested(opening: str, inner: str, closing: str, times: int) -> str:
    return opening * times + inner + closing * times


def doubled(first: str, times: int) -> str:
    """A value added to itself over and over."""
    bindings = f"cel.bind(v0, {first}, " + "".join(f"cel.bind(v{i + 1}, v{i} + v{i}, " for i in range(times))
    return f"{bindings}v{times}.size() > 0" + ")" * (times + 1)


# What the in-tree parser takes and refuses, at its very limits.
DEEP = {
    "250 parentheses": (nested("(", "true", ")", 249), True),
    "1,000 parentheses": (nested("(", "true", ")", 1000), "expression recursion limit exceeded: 250"),
    "251 parentheses": (nested("(", "true", ")", 250), "expression recursion limit exceeded: 250"),
    "lists in lists": (nested("[", "1", "]", 248) + " == []", False),
    "251 terms": ("+".join(["1"] * 250) + " > 0", True),
    "252 terms": ("+".join(["1"] * 252) + " > 0", "max recursion depth exceeded"),
    "sums in sums": (nested("(1+", "1", ")", 124) + " > 0", True),
    "one sum more": (nested("(1+", "1", ")", 125) + " > 0", "recursion"),
    "249 fields": ("dyn({})" + ".a" * 249 + " == 1", "no such key: a"),
    "252 fields": ("dyn({})" + ".a" * 252 + " == 1", "max recursion depth exceeded"),
    "conditionals": ("true ? true : " * 240 + "true", True),
    "1,200 terms of and": (" && ".join(["true"] * 1200), True),
    "5,000 negations": ("!" * 5000 + "true", True),
    "calls in calls": (nested("dyn(", "true", ")", 247), True),
    "macros in macros": (nested("[1].all(a, ", "true", ")", 249), True),
    "one macro more": (nested("[1].all(a, ", "true", ")", 250), "recursion limit"),
    "maps in lists": ("[{" * 80 + "}]" * 80 + " == []", "Syntax error"),
    "opened, not closed": ("[{(" * 2000, "recursion limit"),
}

# Each would take long or much memory if it were just done.
GREEDY = {
    "seven loops": "".join(f"[1,2,3,4,5,6,7,8,9,10].all({name}," for name in "abcdefg") + "true" + ")" * 7,
    "a million times a million": "lists.range(1000000).all(x, lists.range(1000000).all(y, true))",
    "errors absorbed in a loop": "lists.range(900000).exists(x, 1 / 0 > x)",
    "a million lists": "lists.range(1000).map(x, lists.range(1000)).size() == 1000",
    "list doubled 60 times": doubled("[1, 2]", 60),
    "text doubled 60 times": doubled("'ab'", 60),
    "replacement by the longer": f"'{'a' * 3000}'.replace('a', '{'b' * 3000}').replace('b', '{'c' * 3000}') == ''",
    "every pair compared": "lists.range(100000).distinct().size() > 0",
    "every pair of two lists": "sets.equivalent(lists.range(100000), lists.range(100000))",
    "a long sort": "lists.range(100000).sortBy(x, -x).size() > 0",
}


@pytest.mark.parametrize("name", DEEP)
def test_depth(name: str) -> None:
    expression, want = DEEP[name]
    got = outcome(expression)
    assert got is want if isinstance(want, bool) else want in str(got)


@pytest.mark.parametrize("name", GREEDY)
def test_cost_limit_bounds_time_and_memory(name: str) -> None:
    selector = compile_selector(GREEDY[name])
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(CostLimitError, match="actual cost limit exceeded"):
        selector.matches(DEVICE)
    seconds = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 20
    assert peak < 200 * 2**20


def test_the_limit_is_not_absorbed_by_or() -> None:
    assert outcome(f"({GREEDY['a million times a million']}) || true") == TOO_EXPENSIVE


def test_a_lower_limit_can_be_asked_for() -> None:
    selector = compile_selector('device.attributes["gpu.example.com"].model == "a100"', cost_limit=4)
    with pytest.raises(CostLimitError):
        selector.matches(DEVICE)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f"'{'a' * 2000}'.matches('(a*)*(a*)*b')", False),
        (f"'{'a' * 4000}'.matches('{'(a?){50}' * 40}b')", False),
        ("'a'.matches('((a{100}){100}){100}')", "invalid matches argument"),
        (f"'{'a' * 4000}'.findAll('').size() > 0", True),
    ],
)
def test_catastrophic_patterns(expression: str, answer: object) -> None:
    started = time.perf_counter()
    got = outcome(expression)
    assert time.perf_counter() - started < 5
    assert got is answer if isinstance(answer, bool) else str(answer) in str(got)


def test_the_longest_expression() -> None:
    filler = MAX_BYTES - len("true")
    assert compile_selector("true" + " " * filler).matches(DEVICE)
    with pytest.raises(CompileError, match="10241 bytes long; at most 10240"):
        compile_selector("true" + " " * (filler + 1))
    with pytest.raises(CompileError, match="bytes long"):
        compile_selector("'" + "é" * 5120 + "' == ''")


@pytest.mark.parametrize(
    "expression", ["", " ", "//", "'" * 9999, '"' * 9999, "`" * 5000, "(" * 9000, "\x00", "\u2028", "1" * 9000]
)
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_selector(expression)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("9223372036854775807 + 1 > 0", "error: integer overflow"),
        ("-9223372036854775808 - 1 < 0", "error: integer overflow"),
        ("-9223372036854775808 / -1 > 0", "error: integer overflow"),
        ("9223372036854775807 * 9223372036854775807 > 0", "error: integer overflow"),
        ("18446744073709551615u + 1u > 0u", "error: unsigned integer overflow"),
        ("int(9223372036854775807.0) > 0", "compile: program instantiation failed: integer overflow"),
        ("0.0 / 0.0 == 0.0 / 0.0", False),
        ("[0.0 / 0.0].sort().size() == 1", True),
        ("{}.size() == 0 && [].size() == 0", True),
        ("'\ud800' == ''", False),
        ("'\ud800'.matches('a')", "error: text is not valid Unicode"),
        ("quantity('1e999999999') == quantity('1')", "error: the exponent of quantity '1e999999999' is above 1000"),
    ],
)
def test_edges(expression: str, answer: object) -> None:
    assert outcome(expression) == answer


def test_a_device_beyond_the_limits_of_the_api_is_metered() -> None:
    huge = bind_device("x", {f"a{index}": "y" * 5000 for index in range(3000)}, {})
    selector = compile_selector('device.attributes["x"].all(k, v, v.replace("y", "z").size() > 0)')
    with pytest.raises(CostLimitError):
        selector.matches(huge)
    assert compile_selector('device.attributes["x"].a1.size() == 5000').matches(huge)


@given(st.text(alphabet="()[]{}.,?:!=<>&|+-*/%'\"`ab1 ue\\\n", max_size=60))
def test_any_text_compiles_or_says_why(text: str) -> None:
    try:
        compile_selector(text).matches(DEVICE)
    except (CompileError, EvaluationError):
        return
