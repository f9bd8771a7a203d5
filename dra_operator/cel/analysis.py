"""What an expression reads of a device, and its parts that must all hold.

Both come from the tree alone. `reads` may name more than an evaluation touches, never less. Conjuncts are for explanations:
each has its text and, where it compares one device value with a literal, says which and with what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from typing import Literal as Choice

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, Select

__all__ = ["Comparison", "Read", "comparison", "conjuncts", "reads", "text_of"]

# ("driver",), ("allowMultipleAllocations",), or (kind, domain, name): name None reads all of the domain, domain None all.
Read = tuple[str, ...] | tuple[str, str | None, str | None]
Kind = Choice["attributes", "capacity"]

_KINDS = {"attributes": "attribute", "capacity": "capacity"}
_EVERYTHING: tuple[Read, ...] = (
    ("driver",),
    ("allowMultipleAllocations",),
    ("attribute", None, None),
    ("capacity", None, None),
)


def reads(root: Expr) -> frozenset[Read]:
    """Which parts of the device the value of the expression depends on."""
    found: set[Read] = set()
    _Reader(found).read(root)
    return frozenset(found)


class _Reader:
    """Follows the device's maps through access and `cel.bind`; whatever else happens to a map reads all of it."""

    def __init__(self, found: set[Read]) -> None:
        self.found = found
        self.scopes: list[dict[str, tuple[str | None, ...] | None]] = []

    def read(self, node: Expr) -> None:
        """Note what a node reads when its value is used as such."""
        origin = self.origin(node)
        if origin is not None:
            self.use(origin)

    def use(self, origin: tuple[str | None, ...]) -> None:
        match origin:
            case ("device",):
                self.found.update(_EVERYTHING)
            case (str() as kind,):
                self.found.add((_KINDS[kind], None, None))
            case (str() as kind, domain):
                self.found.add((_KINDS[kind], domain, None))

    def origin(self, node: Expr) -> tuple[str | None, ...] | None:
        """Which map of the device a node is, if any: (device), (kind) or (kind, domain). Notes what else it reads."""
        match node:
            case Ident():
                return self.name(node)
            case Select():
                return self.access(node.operand, node.field)
            case Call(function="_[_]" | "_[?_]"):
                key = node.args[1]
                if isinstance(key, Literal) and isinstance(key.value, str):
                    return self.access(node.args[0], key.value)
            case Call(function="@in") if (item := node.args[0]) and isinstance(item, Literal):
                if isinstance(item.value, str):
                    self.membership(node.args[1], item.value)
                    return None
            case Comprehension(kind="bind"):
                self.scopes.append({node.accu: self.origin(node.init)})
                origin = self.origin(node.result)
                self.scopes.pop()
                return origin
            case Comprehension():
                self.macro(node)
                return None
        for child in node.children():
            self.read(child)
        return None

    def name(self, node: Ident) -> tuple[str | None, ...] | None:
        if not node.leading_dot:
            for scope in reversed(self.scopes):
                if node.name in scope:
                    return scope[node.name]
        return ("device",) if node.name == "device" else None

    def access(self, operand: Expr, key: str) -> tuple[str | None, ...] | None:
        origin = self.origin(operand)
        if origin is None:
            return None
        if origin == ("device",):
            if key in _KINDS:
                return (key,)
            self.found.add((key,))
            return None
        if len(origin) == 1:
            return origin[0], key
        self.found.add((_KINDS[str(origin[0])], origin[1], key))
        return None

    def membership(self, container: Expr, item: str) -> None:
        origin = self.origin(container)
        if origin is not None and len(origin) == 2:
            self.found.add((_KINDS[str(origin[0])], origin[1], item))
        elif origin is not None and origin != ("device",):
            # Whether a domain exists depends on every name in it.
            self.found.add((_KINDS[str(origin[0])], item, None))
        elif origin is not None:
            self.use(origin)

    def macro(self, node: Comprehension) -> None:
        self.read(node.range)
        names: dict[str, tuple[str | None, ...] | None] = {node.var: None}
        if node.var2 is not None:
            names[node.var2] = None
        self.scopes.append(names)
        self.read(node.body)
        if node.filter is not None:
            self.read(node.filter)
        self.scopes.pop()


def conjuncts(root: Expr) -> Iterator[Expr]:
    """The terms of the outermost `&&`, however it is nested."""
    if isinstance(root, Call) and root.function == "_&&_":
        for term in root.args:
            yield from conjuncts(term)
    else:
        yield root


def text_of(node: Expr, source: str) -> str:
    """The source of a node on one line, its parentheses balanced."""
    text = source[node.start : node.end] if node.start >= 0 else source
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One device value against a literal: `read` names it, `subject` reads short ("memory"), `operator` is a symbol."""

    read: Read
    subject: str
    operator: str
    bound: Any


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_METHODS = {"isGreaterThan": ">", "isLessThan": "<"}
_NAMED = ("startsWith", "endsWith", "contains", "matches", "includes")


def comparison(node: Expr) -> Comparison | None:
    """The conjunct as a comparison of one device value with a literal, if it is one."""
    if isinstance(node, Call) and node.function == "!_":
        inner = _value(node.args[0])
        return Comparison(*inner, "==", False) if inner else None
    if not isinstance(node, Call):
        inner = _value(node)
        return Comparison(*inner, "==", True) if inner else None
    if node.target is not None and len(node.args) == 1:
        return _method(node)
    if node.function == "_[_]":
        inner = _value(node)
        return Comparison(*inner, "==", True) if inner else None
    symbol = node.function.strip("_")
    if symbol == "@in":
        inner, bound = _value(node.args[0]), _literal(node.args[1])
        return Comparison(*inner, "in", bound) if inner and bound is not _NO else None
    return _binary(node, symbol) if symbol in _MIRRORED else None


def _method(node: Call) -> Comparison | None:
    assert node.target is not None
    inner, bound = _value(node.target), _literal(node.args[0])
    operator = _METHODS.get(node.function) or (node.function if node.function in _NAMED else None)
    if operator is None:
        return None
    if inner and bound is not _NO:
        return Comparison(*inner, operator, bound)
    # The literal may stand in front: quantity("1Gi").isLessThan(memory).
    argument, front = _value(node.args[0]), _literal(node.target)
    if argument and front is not _NO and operator in _MIRRORED:
        return Comparison(*argument, _MIRRORED[operator], front)
    return None


def _binary(node: Call, symbol: str) -> Comparison | None:
    left, right = node.args
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, right, symbol = right, left, _MIRRORED[symbol]
    if isinstance(left, Call) and left.function == "compareTo" and left.target is not None:
        # a.compareTo(b) >= 0 says a >= b.
        inner, bound = _value(left.target), _literal(left.args[0])
        zero = isinstance(right, Literal) and right.value == 0 and type(right.value) is int
        return Comparison(*inner, symbol, bound) if inner and bound is not _NO and zero else None
    inner, bound = _value(left), _literal(right)
    return Comparison(*inner, symbol, bound) if inner and bound is not _NO else None


def _value(node: Expr) -> tuple[Read, str] | None:
    """(what it reads, its short name) if a node is one device value, also with a default for a missing one."""
    if isinstance(node, Call) and node.function == "orValue" and node.target is not None:
        return _value(node.target)
    found: set[Read] = set()
    origin = _Reader(found).origin(node)
    if origin is not None or len(found) != 1 or not isinstance(node, Select | Call):
        return None
    if isinstance(node, Select) and node.test:
        return None
    if isinstance(node, Call) and node.function not in ("_[_]", "_[?_]"):
        return None
    read = next(iter(found))
    return read, str(read[-1])


_NO: Any = object()


def _literal(node: Expr) -> Any:
    """The value of a literal, a list of them, or a quantity or version of literal text."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, ListExpr) and not node.optional:
        values = tuple(map(_literal, node.elements))
        return _NO if any(value is _NO for value in values) else values
    if isinstance(node, Call) and node.function in ("quantity", "semver") and node.target is None:
        values = tuple(map(_literal, node.args))
        parse: Any = Quantity.parse if node.function == "quantity" else Semver.parse
        try:
            return parse(*values) if all(isinstance(value, str | bool) for value in values) else _NO
        except ValueError:
            return _NO
    return _NO
