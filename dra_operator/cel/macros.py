"""Macros: calls that the parser replaces by folds over a list or map.

Each entry builds the fold the CEL definition gives (checked and costed as such) and notes the macro's own pieces for the
compiler. Evaluation is not here. Source: CEL specification, cel-go `ext` (bindings v0, comprehensions, lists v3, optionals).
"""

from __future__ import annotations

from collections.abc import Callable

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select

__all__ = ["MacroError", "expand"]

ACCUMULATOR = "@result"
_FORBIDDEN = (ACCUMULATOR, "__result__")
_SORT_INPUT = "@__sortBy_input__"
UNUSED = "#unused"


class MacroError(Exception):
    """A macro is used with arguments it does not take."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


def expand(offset: int, function: str, target: Expr | None, args: list[Expr]) -> Expr | None:
    """The expression a call stands for, or None if it is no macro. Raises MacroError."""
    builder = _MACROS.get((function, len(args), target is not None))
    return builder(offset, target, args) if builder else None


def _variable(expr: Expr, message: str) -> str:
    if not isinstance(expr, Ident) or expr.leading_dot:
        raise MacroError(expr.offset, message)
    if expr.name in _FORBIDDEN:
        raise MacroError(expr.offset, "iteration variable overwrites accumulator variable")
    return expr.name


def _variables(args: list[Expr], count: int) -> tuple[str, str | None]:
    first = _variable(args[0], "argument must be a simple name")
    if count == 1:
        return first, None
    second = _variable(args[1], "argument must be a simple name")
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _accu(offset: int) -> Ident:
    return Ident(offset, ACCUMULATOR)


def _fold(
    offset: int,
    kind: str,
    target: Expr,
    names: tuple[str, str | None],
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
) -> Comprehension:
    return Comprehension(
        offset,
        kind,
        range_=target,
        var=names[0],
        var2=names[1],
        accu=ACCUMULATOR,
        init=init,
        condition=condition,
        step=step,
        result=result,
    )


Builder = Callable[[int, Expr | None, list[Expr]], Expr | None]


def _quantifier(kind: str, count: int) -> Builder:
    def build(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        names, body, accu = _variables(args, count), args[count], _accu(offset)
        if kind == "all":
            condition: Expr = Call(offset, "@not_strictly_false", [accu])
            step: Expr = Call(offset, "_&&_", [accu, body])
            return _fold(offset, kind, target, names, Literal(offset, True), condition, step, accu)
        if kind == "exists":
            condition = Call(offset, "@not_strictly_false", [Call(offset, "!_", [accu])])
            step = Call(offset, "_||_", [accu, body])
            return _fold(offset, kind, target, names, Literal(offset, False), condition, step, accu)
        one = Literal(offset, 1)
        step = Call(offset, "_?_:_", [body, Call(offset, "_+_", [accu, one]), accu])
        result = Call(offset, "_==_", [accu, one])
        return _fold(offset, kind, target, names, Literal(offset, 0), Literal(offset, True), step, result)

    return build


def _map(kind: str, count: int, filtered: bool) -> Builder:
    def build(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        if kind == "map":
            names: tuple[str, str | None] = (_variable(args[0], "argument is not an identifier"), None)
        else:
            names = _variables(args, count)
        filter_ = args[count] if filtered else None
        body, accu = args[-1], _accu(offset)
        step: Expr = Call(offset, "_+_", [accu, ListExpr(offset, [body])])
        return _collect(offset, kind, target, names, ListExpr(offset, []), step, filter_)

    return build


def _collect(
    offset: int,
    kind: str,
    target: Expr,
    names: tuple[str, str | None],
    init: Expr,
    step: Expr,
    filter_: Expr | None,
) -> Comprehension:
    accu = _accu(offset)
    if filter_ is not None:
        step = Call(offset, "_?_:_", [filter_, step, accu])
    condition = Literal(offset, True)
    return _fold(offset, kind, target, names, init, condition, step, accu)


def _filter(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    step = Call(offset, "_+_", [_accu(offset), ListExpr(offset, [args[0]])])
    return _collect(offset, "filter", target, (name, None), ListExpr(offset, []), step, args[1])


def _transform_map(entry: bool, filtered: bool) -> Builder:
    def build(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        names = _variables(args, 2)
        filter_ = args[2] if filtered else None
        body, accu = args[-1], _accu(offset)
        inserted = [accu, body] if entry else [accu, Ident(offset, names[0]), body]
        step: Expr = Call(offset, "cel.@mapInsert", inserted)
        kind = "transformMapEntry" if entry else "transformMap"
        return _collect(offset, kind, target, names, MapExpr(offset, []), step, filter_)

    return build


def _has(offset: int, _: Expr | None, args: list[Expr]) -> Expr:
    tested = args[0]
    if not isinstance(tested, Select):
        raise MacroError(tested.offset, "invalid argument to has() macro")
    if tested.optional:
        raise MacroError(tested.offset, "invalid argument to has() macro")
    return Select(offset, tested.operand, tested.field, test=True)


def binding(offset: int, name: str, init: Expr, result: Expr) -> Comprehension:
    """`cel.bind(name, init, result)`: a fold over nothing whose accumulator is the variable."""
    return Comprehension(
        offset,
        "bind",
        range_=ListExpr(offset, []),
        var=UNUSED,
        var2=None,
        accu=name,
        init=init,
        condition=Literal(offset, False),
        step=Ident(offset, name),
        result=result,
    )


def _bind(offset: int, target: Expr | None, args: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = args[0]
    if not isinstance(name, Ident) or name.leading_dot:
        raise MacroError(name.offset, "cel.bind() variable names must be simple identifiers")
    return binding(offset, name.name, args[1], args[2])


def _optional_map(flat: bool) -> Builder:
    def build(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        name = args[0]
        if not isinstance(name, Ident) or name.leading_dot:
            macro = "optFlatMap" if flat else "optMap"
            raise MacroError(name.offset, f"{macro}() variable name must be a simple identifier")
        mapped: Expr = binding(offset, name.name, Call(offset, "value", [], target), args[1])
        if not flat:
            mapped = Call(offset, "optional.of", [mapped])
        present = Call(offset, "hasValue", [], target)
        return Call(offset, "_?_:_", [present, mapped, Call(offset, "optional.none", [])])

    return build


def _sort_by(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        where = target.offset if target else offset
        raise MacroError(
            where, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    source = Ident(offset, _SORT_INPUT)
    keys = _map("map", 1, False)(offset, Ident(offset, _SORT_INPUT), args)
    assert keys is not None
    return binding(offset, _SORT_INPUT, target, Call(offset, "@sortByAssociatedKeys", [keys], source))


# (name, number of arguments, called on a target)
_MACROS: dict[tuple[str, int, bool], Builder] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier("all", 1),
    ("exists", 2, True): _quantifier("exists", 1),
    ("exists_one", 2, True): _quantifier("existsOne", 1),
    ("map", 2, True): _map("map", 1, False),
    ("map", 3, True): _map("map", 1, True),
    ("filter", 2, True): _filter,
    ("all", 3, True): _quantifier("all", 2),
    ("exists", 3, True): _quantifier("exists", 2),
    ("exists_one", 3, True): _quantifier("existsOne", 2),
    ("existsOne", 3, True): _quantifier("existsOne", 2),
    ("transformList", 3, True): _map("transformList", 2, False),
    ("transformList", 4, True): _map("transformList", 2, True),
    ("transformMap", 3, True): _transform_map(False, False),
    ("transformMap", 4, True): _transform_map(False, True),
    ("transformMapEntry", 3, True): _transform_map(True, False),
    ("transformMapEntry", 4, True): _transform_map(True, True),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map(False),
    ("optFlatMap", 2, True): _optional_map(True),
    ("sortBy", 2, True): _sort_by,
}
