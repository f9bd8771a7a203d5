"""The parsed form of an expression.

Nodes are plain slotted objects that later passes write on (`type`, `overloads`); nothing here evaluates.
A macro becomes a `Comprehension`, which keeps both the general fold that CEL defines it by (what the checker and the cost
estimate look at) and its own pieces (what the compiler turns into a loop).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_operator.cel.types import DYN, Type

__all__ = ["Call", "Comprehension", "Expr", "Ident", "ListExpr", "Literal", "MapEntry", "MapExpr", "Select"]


class Expr:
    """A node. `offset` is where errors point, `start` and `end` delimit its source text, `depth` counts nested operators."""

    __slots__ = ("depth", "end", "offset", "overloads", "start", "type")

    def __init__(self, offset: int, start: int = -1, end: int = -1) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        self.depth = 0
        self.type: Type = DYN
        self.overloads: tuple[str, ...] = ()

    def children(self) -> Iterator[Expr]:
        """The nodes directly below, each once, in source order."""
        return iter(())


class Literal(Expr):
    """A constant of the source: bool, int, Uint, float, str, bytes or None."""

    __slots__ = ("value",)

    def __init__(self, offset: int, value: Any, start: int = -1, end: int = -1) -> None:
        super().__init__(offset, start, end)
        self.value = value


class Ident(Expr):
    """A name. `leading_dot` asks for the outermost scope."""

    __slots__ = ("leading_dot", "name")

    def __init__(self, offset: int, name: str, leading_dot: bool = False, start: int = -1, end: int = -1) -> None:
        super().__init__(offset, start, end)
        self.name = name
        self.leading_dot = leading_dot


class Select(Expr):
    """`operand.field`, `operand.?field` (optional) or, from `has`, the test for it."""

    __slots__ = ("field", "operand", "optional", "test")

    def __init__(self, offset: int, operand: Expr, field: str, *, optional: bool = False, test: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.optional = optional
        self.test = test

    def children(self) -> Iterator[Expr]:
        yield self.operand


class Call(Expr):
    """A function, operator or method call. Operators carry cel-go's names (`_+_`); `_&&_` and `_||_` take any number."""

    __slots__ = ("args", "function", "target")

    def __init__(self, offset: int, function: str, args: list[Expr], target: Expr | None = None) -> None:
        super().__init__(offset)
        self.function = function
        self.args = args
        self.target = target

    def children(self) -> Iterator[Expr]:
        if self.target is not None:
            yield self.target
        yield from self.args


class ListExpr(Expr):
    """`[a, ?b]`; `optional` holds the indices of optional elements."""

    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Expr], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.elements = elements
        self.optional = optional

    def children(self) -> Iterator[Expr]:
        return iter(self.elements)


class MapEntry:
    """`key: value` or `?key: value`."""

    __slots__ = ("key", "optional", "value")

    def __init__(self, key: Expr, value: Expr, optional: bool) -> None:
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Expr):
    """`{key: value, …}`."""

    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[MapEntry]) -> None:
        super().__init__(offset)
        self.entries = entries

    def children(self) -> Iterator[Expr]:
        for entry in self.entries:
            yield entry.key
            yield entry.value


class Comprehension(Expr):
    """A fold over `range`: `accu` starts as `init` and becomes `step` while `condition` holds; then `result`.

    `kind` names the macro; `filter` and `body` find the macro's own pieces in the step it was given.
    """

    __slots__ = ("accu", "condition", "init", "kind", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        offset: int,
        kind: str,
        *,
        range_: Expr,
        var: str,
        var2: str | None,
        accu: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(offset)
        self.kind = kind
        self.range = range_
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result

    def children(self) -> Iterator[Expr]:
        yield self.range
        yield self.init
        yield self.condition
        yield self.step
        yield self.result

    @property
    def filter(self) -> Expr | None:
        """The condition under which an element is collected, where the macro has one."""
        step = self.step
        if self.kind in _COLLECTING and isinstance(step, Call) and step.function == "_?_:_":
            return step.args[0]
        return None

    @property
    def body(self) -> Expr:
        """What is evaluated for each element."""
        step = self.step
        assert isinstance(step, Call)
        if self.kind == "existsOne":
            return step.args[0]
        if self.kind in _COLLECTING:
            if step.function == "_?_:_":
                collected = step.args[1]
                assert isinstance(collected, Call)
                step = collected
            last = step.args[-1]
            return last.elements[0] if step.function == "_+_" and isinstance(last, ListExpr) else last
        return step.args[1]


_COLLECTING = ("map", "filter", "transformList", "transformMap", "transformMapEntry")
