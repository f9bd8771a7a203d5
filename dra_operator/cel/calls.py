"""What a call runs: the one overload if types leave no choice, else whichever fits the values at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_operator.cel.ast import Call
from dra_operator.cel.declarations import Function
from dra_operator.cel.types import Type
from dra_operator.cel.values import no_overload

__all__ = ["implementation"]


def implementation(node: Call, function: Function) -> Callable[..., Any]:
    """The function to call with the values of the arguments, the target first."""
    if function.run is not None:
        return function.run
    if len(node.overloads) != 1:
        return lambda *values: function.dispatch(values)
    overload = function.by_id(node.overloads[0])
    run = overload.run
    assert run is not None, overload.id
    args = [node.target, *node.args] if node.target is not None else node.args
    if not function.guarded or all(_certain(arg.type, wanted) for arg, wanted in zip(args, overload.args, strict=True)):
        return run

    def guarded(*values: Any) -> Any:
        if not overload.accepts(values):
            raise no_overload(function.name, *values)
        return run(*values)

    return guarded


def _certain(actual: Type, wanted: Type) -> bool:
    """Whether a value of a static type fits without looking at it."""
    if wanted.kind in ("dyn", "any", "parameter"):
        return True
    if actual.is_dyn or actual.kind != wanted.kind or actual.name != wanted.name:
        return False
    return wanted.is_optional or all(map(_certain, actual.params, wanted.params))
