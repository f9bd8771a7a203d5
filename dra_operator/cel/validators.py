"""Checks beyond types: literals that could only fail, lists and maps of mixed types, format strings.

They run on a typed tree. Source: the validators of the API server's CEL environment since 1.29.
"""

from __future__ import annotations

from collections.abc import Callable

from dra_operator.cel.ast import Call, Comprehension, Expr, ListExpr, Literal, MapExpr
from dra_operator.cel.errors import EvaluationError, Issue
from dra_operator.cel.library.formatting import FormatError, check_clause, clauses
from dra_operator.cel.library.regex import compiled
from dra_operator.cel.library.times import parse_duration, parse_timestamp
from dra_operator.cel.types import Type

__all__ = ["validate"]

_LITERAL_CHECKS: dict[str, Callable[[str], object]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compiled,
}
_FORMATTED = {
    "d": (("int", "uint"), "decimal clause can only be used on integers, was given {}"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles, was given {}"),
    "e": (("double", "string"), "scientific clause can only be used on doubles, was given {}"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary, was given {}"),
    "x": (
        ("int", "uint", "string", "bytes"),
        "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    ),
    "o": (("int", "uint"), "octal clause can only be used on integers, was given {}"),
}
_FORMATTED["X"] = _FORMATTED["x"]
_AS_STRING = (
    *("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"),
    "dyn",
)
_STRING_PROBLEM = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given {}"
)


def validate(root: Expr) -> list[Issue]:
    """What is wrong with a tree whose types are right."""
    issues: list[Issue] = []
    seen: set[int] = set()
    pending: list[tuple[Expr, bool]] = [(root, False)]
    while pending:
        node, in_format = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call):
            issues += _call(node)
            in_format = in_format or node.function == "format"
        elif not in_format and isinstance(node, ListExpr | MapExpr):
            issues += _homogeneous(node)
        # The steps of a fold hold nothing that is not its macro's own.
        below = node.children() if not isinstance(node, Comprehension) else iter(_pieces(node))
        pending.extend((child, in_format) for child in below)
    return issues


def _pieces(node: Comprehension) -> list[Expr]:
    if node.kind == "bind":
        return [node.init, node.result]
    pieces = [node.range, node.body]
    return [*pieces, node.filter] if node.filter is not None else pieces


def _call(node: Call) -> list[Issue]:
    if node.function in _LITERAL_CHECKS and node.args and isinstance(node.args[0], Literal):
        return _literal(node, node.args[0])
    if node.function == "format" and node.target is not None and node.overloads == ("string_format",):
        return _format(node)
    return []


def _literal(node: Call, arg: Literal) -> list[Issue]:
    try:
        if isinstance(arg.value, str):
            _LITERAL_CHECKS[node.function](arg.value)
        elif node.function == "timestamp" and isinstance(arg.value, int):
            if not -62135596800 <= arg.value <= 253402300799:
                raise EvaluationError("timestamp overflow")
    except EvaluationError:
        return [Issue(arg.offset, f"invalid {node.function} argument")]
    return []


def _homogeneous(node: ListExpr | MapExpr) -> list[Issue]:
    if isinstance(node, ListExpr):
        types = [_inner(element, index in node.optional) for index, element in enumerate(node.elements)]
        return _mixed(node.elements, types, first_only=True)
    keys = [entry.key for entry in node.entries]
    values = [entry.value for entry in node.entries]
    value_types = [_inner(entry.value, entry.optional) for entry in node.entries]
    return _mixed(keys, [key.type for key in keys]) + _mixed(values, value_types)


def _inner(node: Expr, optional: bool) -> Type:
    return node.type.params[0] if optional and node.type.params else node.type


def _mixed(nodes: list[Expr], types: list[Type], *, first_only: bool = False) -> list[Issue]:
    issues = [
        Issue(max(node.offset, 0), f"expected type '{types[0]}' but found '{type_}'")
        for node, type_ in zip(nodes, types, strict=True)
        if type_ != types[0]
    ]
    return issues[:1] if first_only else issues


def _format(node: Call) -> list[Issue]:
    """A literal format string against a literal list of arguments."""
    target, args = node.target, node.args[0]
    if not isinstance(target, Literal) or not isinstance(target.value, str) or not isinstance(args, ListExpr):
        return []
    wanted = clauses(target.value)[:-1]
    for index, (_, precision, letter) in enumerate(wanted):
        if index >= len(args.elements):
            return [Issue(node.offset, f"index {index} out of range")]
        try:
            check_clause(precision, letter)
        except FormatError as error:
            return [Issue(node.offset, str(error.args[0]))]
        bad = _unformattable(args.elements[index], letter)
        if bad:
            return [Issue(max(bad[0].offset, 0), f"error during formatting: {bad[1]}")]
    if len(args.elements) > len(wanted):
        counts = f"(expected {len(wanted)}, got {len(args.elements)})"
        return [Issue(node.offset, f"too many arguments supplied to string.format {counts}")]
    return []


def _unformattable(node: Expr, letter: str) -> tuple[Expr, str] | None:
    """The part of an argument that its clause does not take, with the reason."""
    if letter != "s":
        kinds, problem = _FORMATTED[letter]
        return None if node.type.kind in (*kinds, "dyn") else (node, problem.format(node.type.name))
    if node.type.kind not in _AS_STRING:
        return node, _STRING_PROBLEM.format(node.type.name)
    if isinstance(node, ListExpr | MapExpr):
        return next(filter(None, (_unformattable(child, "s") for child in node.children())), None)
    return None
