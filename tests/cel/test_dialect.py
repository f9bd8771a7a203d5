"""The dialect, function by function: the table in dialect.txt, and what a line of it cannot say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import CelFeatures, CompileError, EvaluationError, Position, bind_device, compile_selector
from tests.cel.selecting import outcome

DEVICE = bind_device(
    "dra.example.com",
    {
        "bool": True,
        "int": 1,
        "string": "fish",
        "version": Semver.parse("1.0.0"),
        "ints": (1, 2, 3),
        "strings": ("fish", "bird"),
        "versions": (Semver.parse("1.0.0"), Semver.parse("2.0.0")),
        "other.example.com/model": "x",
    },
    {"memory": Quantity.parse("80Gi"), "cores": Quantity.parse("1500m")},
    True,
)


def table() -> list[Any]:
    lines = (Path(__file__).with_name("dialect.txt")).read_text().splitlines()
    return [pytest.param(line[0], line[2:], id=line[2:70]) for line in lines if line[:2] in ("T ", "F ", "E ", "C ")]


@pytest.mark.parametrize(("want", "expression"), table())
def test_answer(want: str, expression: str) -> None:
    try:
        selector = compile_selector(expression)
    except CompileError:
        assert want == "C"
        return
    try:
        got = "T" if selector.matches(DEVICE) else "F"
    except EvaluationError:
        got = "E"
    assert got == want
    try:
        metered = "T" if selector.measure(DEVICE)[0] else "F"
    except EvaluationError:
        metered = "E"
    assert metered == want, "with the cost charged"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["x"].y == 1', "no such key: y. consider using CEL optional chaining"),
        ("[1][5] == 1", "index out of bounds: 5"),
        ("dyn(1) + dyn('a') == 1", "no such overload"),
        ("dyn('abc').all(x, true)", "got 'types.String', expected iterable type"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ("1 % 0 == 0", "modulus by zero"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("'abc'.charAt(9) == ''", "index out of range: 9"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1"),
        ("[].max() == 1", "max called on empty list"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("['a', 'b'].transformMapEntry(i, v, {'k': v}) == {}", "insert failed: key k already exists"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ('device.attributes["gpu.example.com"].index', "CEL result of type int could not be converted to bool"),
    ],
)
def test_message(expression: str, message: str) -> None:
    assert message in str(outcome(expression))


@pytest.mark.parametrize(
    ("expression", "position", "message"),
    [
        ("?!", Position(1, 1), "Syntax error"),
        ("true &&\n  x", Position(2, 3), "undeclared reference to 'x' (in container '')"),
        ("1 + 'a' == 2", Position(1, 3), "found no matching overload for '_+_' applied to '(int, string)'"),
        ("'a'.foo()", Position(1, 8), "undeclared reference to 'foo'"),
        ("device.name == 'x'", Position(1, 7), "undefined field 'name'"),
        ("'x'.size() == 'a'", Position(1, 12), "applied to '(int, string)'"),
        ("[1, 'a'].size() == 2", Position(1, 5), "expected type 'int' but found 'string'"),
        ("'a'.matches('[')", Position(1, 13), "invalid matches argument"),
        ("duration('x') == duration('1s')", Position(1, 10), "invalid duration argument"),
        ("has(device)", Position(1, 5), "invalid argument to has() macro"),
        ("'%d'.format(['a']) == ''", Position(1, 14), "decimal clause can only be used on integers, was given string"),
        ("for == 1", Position(1, 1), "reserved identifier: for"),
        ("9223372036854775808 == 1", Position(1, 1), "invalid int literal"),
    ],
)
def test_compile_error_says_where(expression: str, position: Position, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_selector(expression)
    assert caught.value.position == position
    assert message in caught.value.message
    assert f"ERROR: <input>:{position}" in caught.value.message


def test_several_mistakes_are_all_reported_in_order() -> None:
    with pytest.raises(CompileError) as caught:
        compile_selector("y == x || z")
    assert [line.split()[-4] for line in caught.value.message.splitlines() if "ERROR" in line] == ["'y'", "'x'", "'z'"]


def test_multi_line_strings_and_comments() -> None:
    assert outcome('"""a\nb""" == "a\\nb" && // a note\n\'\'\'c"d\'\'\' == "c\\"d"') is True


@pytest.mark.parametrize(
    ("features", "env", "expression", "compiles"),
    [
        (CelFeatures(), "StoredExpressions", 'device.attributes["x"].y.exists(i, i == 1)', True),
        (CelFeatures(), "NewExpressions", 'device.attributes["x"].y.exists(i, i == 1)', False),
        (CelFeatures(list_type_attributes=True), "NewExpressions", 'device.attributes["x"].y.exists(i, i == 1)', True),
        (CelFeatures(), "StoredExpressions", 'device.attributes["x"].y.includes(1)', True),
        (CelFeatures(), "NewExpressions", 'device.attributes["x"].y.includes(1)', False),
        (CelFeatures(consumable_capacity=False), "StoredExpressions", "device.allowMultipleAllocations", True),
        (CelFeatures(consumable_capacity=False), "NewExpressions", "device.allowMultipleAllocations", False),
        (CelFeatures(), "NewExpressions", "device.allowMultipleAllocations", True),
        (CelFeatures(), "NewExpressions", 'device.attributes["x"].y', True),
        (CelFeatures(), "NewExpressions", "dyn(true)", False),
        (CelFeatures(), "StoredExpressions", "dyn(true)", True),
    ],
)
def test_features_and_environment(features: CelFeatures, env: Any, expression: str, compiles: bool) -> None:
    try:
        compile_selector(expression, features, env)
    except CompileError:
        assert not compiles
    else:
        assert compiles


def test_names_default_to_the_domain_of_the_driver() -> None:
    own = bind_device("a.example.com", {"x": 1, "b.example.com/y": 2}, {})
    written_out = bind_device("b.example.com", {"a.example.com/x": 1, "y": 2}, {})
    for expression in (
        'device.attributes["a.example.com"].x == 1',
        'device.attributes["b.example.com"].y == 2',
        'device.attributes["b.example.com"]["y"] == 2',
        '!has(device.attributes["b.example.com"].x)',
        'device.attributes["c.example.com"] == {}',
        'cel.bind(a, device.attributes["a.example.com"], "x" in a && a.x == 1)',
        'device.attributes.exists(d, v, d == "b.example.com" && v.y == 2)',
        'device.attributes["a.example.com"].?x.orValue(0) == 1',
    ):
        selector = compile_selector(expression)
        assert selector.matches(own), expression
        assert selector.matches(written_out), expression


def test_an_attribute_of_an_unknown_type_fails_the_device_as_in_the_scheduler() -> None:
    device = bind_device("x", {"new": None}, {})
    with pytest.raises(EvaluationError, match="attribute new: unsupported attribute value"):
        compile_selector("true").matches(device)
