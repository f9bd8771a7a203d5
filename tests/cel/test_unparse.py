"""Trees to text and back: the same tree, with as few parentheses as it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cel.ast import Call, Expr, Literal
from dra_operator.cel.errors import CompileError
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import quoted, unparse

CORPUS = Path(__file__).parents[3] / "shared/conformance/cel"


def shape(value: Any) -> Any:
    """A tree without places."""
    if isinstance(value, Expr):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        fixed = {"depth", "end", "offset", "overloads", "start", "type"}
        return type(value).__name__, [(name, shape(getattr(value, name))) for name in sorted(set(names) - fixed)]
    if isinstance(value, list | tuple):
        return [shape(item) for item in value]
    if hasattr(value, "__slots__") and not isinstance(value, str | int | float | bytes):
        return [(name, shape(getattr(value, name))) for name in value.__slots__]
    return type(value).__name__, repr(value)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('device.driver=="a"&&true', "device.driver == 'a' && true"),
        ("(a && b) || c", "a && b || c"),
        ("a && (b || c)", "a && (b || c)"),
        ("!(a == b)", "!(a == b)"),
        ("!a.b", "!a.b"),
        ("(a - b) - c", "a - b - c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a + b) * c % d", "(a + b) * c % d"),
        ("(a ? b : c) ? d : e ? f : g", "(a ? b : c) ? d : e ? f : g"),
        ("-1 < -x", "-1 < -x"),
        ("-(1)", "-(1)"),
        ("(-1).f()", "(-1).f()"),
        ("(1 < 2) == true", "1 < 2 == true"),
        ("1 < (2 == 3)", "1 < (2 == 3)"),
        ("a in [1, 2u, 3.5, 1e30]", "a in [1, 2u, 3.5, 1e+30]"),
        ("{'a': 1, ?b: c}.x", "{'a': 1, ?b: c}.x"),
        ("[1, ?a]", "[1, ?a]"),
        ("device.attributes['d'].?x.orValue(1)", "device.attributes['d'].?x.orValue(1)"),
        ("a[?'x']", "a[?'x']"),
        ("has(a.b.c) || has(a.`b-c`)", "has(a.b.c) || has(a.`b-c`)"),
        ("x.all(v, v > 0) && x.exists(i, v, i < v)", "x.all(v, v > 0) && x.exists(i, v, i < v)"),
        ("x.exists_one(v, v > 0)", "x.exists_one(v, v > 0)"),
        ("x.map(v, v > 0, v + 1).filter(v, v > 1)", "x.map(v, v > 0, v + 1).filter(v, v > 1)"),
        ("x.transformMap(k, v, v > 0, v)", "x.transformMap(k, v, v > 0, v)"),
        ("cel.bind(d, device.driver, d == 'x')", "cel.bind(d, device.driver, d == 'x')"),
        ("x.sortBy(v, -v)", "x.sortBy(v, -v)"),
        (".device.driver", ".device.driver"),
        (r"'it\'s' + "
         r'"\n\t\"" + r"\d"', '"it\'s" + \'\\n\\t"\' + \'\\\\d\''),
        ("b'a' == null", "b'\\x61' == null"),
    ],
)  # fmt: skip
def test_text(source: str, text: str) -> None:
    assert unparse(parse(source)) == text
    assert shape(parse(text)) == shape(parse(source))


def test_built_trees_keep_their_meaning() -> None:
    one = Literal(0, 1)
    assert unparse(Call(0, "-_", [Call(0, "-_", [one])])) == "-(-(1))"
    assert unparse(Call(0, "!_", [Call(0, "!_", [Literal(0, True)])])) == "!(!true)"


def test_long_junctions_get_a_line_a_term() -> None:
    tree = parse("aaaaaaaa == 1 && (bbbbbbbb == 2 || c) && d")
    assert unparse(tree, width=20) == "aaaaaaaa == 1 &&\n(bbbbbbbb == 2 || c) &&\nd"
    assert unparse(tree, width=200) == "aaaaaaaa == 1 && (bbbbbbbb == 2 || c) && d"


@pytest.mark.parametrize("text", ["plain", "it's", '"it\'s"', "a\\b\n", "é", "\x00\x7f"])
def test_quoted(text: str) -> None:
    tree = parse(quoted(text))
    assert isinstance(tree, Literal)
    assert tree.value == text


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no shared data")
def test_corpus() -> None:
    seen = 0
    for file in sorted(CORPUS.glob("*.json")):
        source = json.loads(file.read_text())["expression"]
        try:
            tree = parse(source)
        except CompileError:
            continue
        assert shape(parse(unparse(tree))) == shape(tree), source
        seen += 1
    assert seen > 20
