"""Parts of an expression whose value is always the same, evaluated once.

cel-go folds literals and conversions of them when it builds the program, so one that cannot be converted is an error already
then. Texts that are parsed (`quantity("1Gi")`) are folded here as well, except where every call is to be charged.
"""

from __future__ import annotations

from typing import Any

from dra_operator.cel.ast import Call, Expr, ListExpr, Literal, MapExpr
from dra_operator.cel.calls import implementation
from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import CompileError, EvaluationError
from dra_operator.cel.operators import MISSING
from dra_operator.cel.values import map_key

__all__ = ["Constants"]

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
# What fails of these is left to fail when it is reached.
_PARSERS = frozenset(("quantity", "semver", "ip", "cidr", "url"))


class Constants:
    """Finds constant parts. `value` raises CompileError where a constant part can only fail."""

    def __init__(self, functions: Registry, *, with_parsers: bool) -> None:
        self._functions = functions
        self._folded = _CONVERSIONS | _PARSERS if with_parsers else _CONVERSIONS

    def value(self, node: Expr) -> Any:
        """The value of a node that is always the same, or MISSING."""
        match node:
            case Literal():
                return node.value
            case ListExpr() if not node.optional:
                values = tuple(map(self.value, node.elements))
                return MISSING if any(value is MISSING for value in values) else values
            case MapExpr() if not any(entry.optional for entry in node.entries):
                return self._map(node)
            case Call(function=function) if function in self._folded:
                return self._call(node)
        return MISSING

    def _map(self, node: MapExpr) -> Any:
        values: dict[Any, Any] = {}
        for entry in node.entries:
            key, value = self.value(entry.key), self.value(entry.value)
            if key is MISSING or value is MISSING:
                return MISSING
            values[map_key(key)] = value
        return values

    def _call(self, node: Call) -> Any:
        args = [node.target, *node.args] if node.target is not None else node.args
        values = tuple(map(self.value, args))
        if not values or any(value is MISSING for value in values):
            return MISSING
        function = self._functions.get(node.function)
        assert function is not None
        try:
            return implementation(node, function)(*values)
        except EvaluationError as error:
            if len(values) == 1 and _is_constant(node):
                raise CompileError(f"program instantiation failed: {error}") from None
            return MISSING


def _is_constant(node: Expr) -> bool:
    """Whether cel-go knows the value of a node when it builds the program."""
    if isinstance(node, Call):
        conversion = node.function in _CONVERSIONS and node.target is None and len(node.args) == 1
        return conversion and _is_constant(node.args[0])
    return isinstance(node, Literal) or (
        isinstance(node, ListExpr | MapExpr) and all(map(_is_constant, node.children()))
    )
