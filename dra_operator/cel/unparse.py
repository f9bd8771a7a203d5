"""Syntax trees back to expression text, for tools that rewrite selectors.

The text parses to the same tree. White space, comments, the kind of quotes and superfluous parentheses of the original are not
kept: a tree does not have them. Macros are printed as they were written, from their own pieces.
"""

from __future__ import annotations

import re

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from dra_operator.cel.macros import ACCUMULATOR
from dra_operator.cel.values import Uint

__all__ = ["quoted", "unparse"]

_TERNARY, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(1, 9)
_BINARY = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), _RELATION),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
_JUNCTIONS = {"_||_": ("||", _OR), "_&&_": ("&&", _AND)}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_SORT_INPUT = "@__sortBy_input__"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unparse(expr: Expr, width: int | None = None) -> str:
    """The text of a tree. Where it is longer than `width`, each term of the outermost `&&` or `||` gets its own line."""
    text = _text(expr, _TERNARY)
    if width is None or len(text) <= width or not isinstance(expr, Call) or expr.function not in _JUNCTIONS:
        return text
    symbol, level = _JUNCTIONS[expr.function]
    return f" {symbol}\n".join(_text(term, level + 1) for term in expr.args)


def quoted(text: str) -> str:
    """A string literal; single quotes, as manifests like them, unless the text has some."""
    quote = '"' if "'" in text and '"' not in text else "'"
    body = "".join(_escaped(char, quote) for char in text)
    return f"{quote}{body}{quote}"


def _escaped(char: str, quote: str) -> str:
    if char == quote:
        return "\\" + char
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _text(expr: Expr, lowest: int) -> str:
    """The text, in parentheses where it binds weaker than its place asks for."""
    text, level = _print(expr)
    return f"({text})" if level < lowest else text


def _print(expr: Expr) -> tuple[str, int]:
    """The text and how strongly it binds."""
    match expr:
        case Literal():
            return _literal(expr.value)
        case Ident():
            return ("." if expr.leading_dot else "") + expr.name, _MEMBER
        case Select():
            return _select(expr), _MEMBER
        case Call():
            return _call(expr)
        case ListExpr():
            items = [
                ("?" if i in expr.optional else "") + _text(item, _TERNARY) for i, item in enumerate(expr.elements)
            ]
            return f"[{', '.join(items)}]", _MEMBER
        case MapExpr():
            entries = (
                f"{'?' if entry.optional else ''}{_text(entry.key, _TERNARY)}: {_text(entry.value, _TERNARY)}"
                for entry in expr.entries
            )
            return f"{{{', '.join(entries)}}}", _MEMBER
        case Comprehension():
            return _macro(expr), _MEMBER
    raise AssertionError(f"no text for {type(expr).__name__}")


def _literal(value: object) -> tuple[str, int]:
    match value:
        case None:
            return "null", _MEMBER
        case bool():
            return str(value).lower(), _MEMBER
        case Uint():
            return f"{int(value)}u", _MEMBER
        case int():
            return str(value), _MEMBER if value >= 0 else _UNARY
        case float():
            return repr(value), _MEMBER if value >= 0 and not repr(value).startswith("-") else _UNARY
        case str():
            return quoted(value), _MEMBER
        case bytes():
            return "b'" + "".join(f"\\x{byte:02x}" for byte in value) + "'", _MEMBER
    raise AssertionError(f"no literal for {type(value).__name__}")


def _select(expr: Select) -> str:
    operand = _text(expr.operand, _MEMBER)
    field = expr.field if _IDENTIFIER.match(expr.field) else f"`{expr.field}`"
    if expr.test:
        return f"has({operand}.{field})"
    return f"{operand}{'.?' if expr.optional else '.'}{field}"


def _call(expr: Call) -> tuple[str, int]:
    name, args = expr.function, expr.args
    if name in _JUNCTIONS:
        symbol, level = _JUNCTIONS[name]
        return f" {symbol} ".join(_text(term, level + 1) for term in args), level
    if name == "_?_:_":
        condition, truthy, falsy = _text(args[0], _OR), _text(args[1], _OR), _text(args[2], _TERNARY)
        return f"{condition} ? {truthy} : {falsy}", _TERNARY
    if name in ("!_", "-_"):
        # A sign before a number would become part of the number.
        operand = (
            f"({_text(args[0], _TERNARY)})"
            if isinstance(args[0], Literal) and name == "-_"
            else _text(args[0], _MEMBER)
        )
        return name[0] + operand, _UNARY
    if name in ("_[_]", "_[?_]"):
        return f"{_text(args[0], _MEMBER)}[{'?' if '?' in name else ''}{_text(args[1], _TERNARY)}]", _MEMBER
    symbol = "in" if name == "@in" else name.strip("_")
    if symbol in _BINARY and len(args) == 2 and expr.target is None:
        level = _BINARY[symbol]
        return f"{_text(args[0], level)} {symbol} {_text(args[1], level + 1)}", level
    call = f"{name}({', '.join(_text(arg, _TERNARY) for arg in args)})"
    return (f"{_text(expr.target, _MEMBER)}.{call}" if expr.target is not None else call), _MEMBER


def _macro(expr: Comprehension) -> str:
    if expr.kind == "bind":
        keys = expr.result.args[0] if isinstance(expr.result, Call) and expr.accu == _SORT_INPUT else None
        if isinstance(keys, Comprehension):
            return f"{_text(expr.init, _MEMBER)}.sortBy({keys.var}, {_text(keys.body, _TERNARY)})"
        return f"cel.bind({expr.accu}, {_text(expr.init, _TERNARY)}, {_text(expr.result, _TERNARY)})"
    assert expr.accu == ACCUMULATOR
    parts = [name for name in (expr.var, expr.var2) if name is not None]
    if expr.filter is not None:
        parts.append(_text(expr.filter, _TERNARY))
    if expr.kind != "filter":
        parts.append(_text(expr.body, _TERNARY))
    name = "exists_one" if expr.kind == "existsOne" else expr.kind
    return f"{_text(expr.range, _MEMBER)}.{name}({', '.join(parts)})"
