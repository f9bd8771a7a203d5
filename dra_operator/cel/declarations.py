"""What functions exist, for which types, and how a call finds its implementation at run time.

A `Function` has overloads; each has a signature and an implementation over plain values (see `values`). The libraries in
`library/` fill one `Registry`; the checker reads signatures, the compiler asks for a callable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dra_operator.cel.types import Type, parse_type, split_types
from dra_operator.cel.values import DeviceMap, kind_of, no_overload, original_key

__all__ = ["Function", "Implementation", "Overload", "Registry"]

Implementation = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. For a method the target is the first argument."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    run: Implementation | None

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Whether values at run time fit the signature."""
        return len(values) == len(self.args) and all(map(_fits, self.args, values))


@dataclass(slots=True)
class Function:
    """A function by name. `run`, if set, serves all overloads and checks its own arguments."""

    name: str
    overloads: list[Overload] = field(default_factory=list)
    run: Implementation | None = None
    # Some string functions of cel-go check their own arguments instead of by signature.
    guarded: bool = True

    def dispatch(self, values: tuple[Any, ...]) -> Any:
        """Call the first overload that takes the values. Raises EvaluationError if none does."""
        for overload in self.overloads:
            if overload.run is not None and overload.accepts(values):
                return overload.run(*values)
        raise no_overload(self.name, *values)

    def by_id(self, overload_id: str) -> Overload:
        return next(overload for overload in self.overloads if overload.id == overload_id)


class Registry:
    """All functions of the dialect."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def get(self, name: str) -> Function | None:
        return self.functions.get(name)

    def plain(self, name: str, overload_id: str, signature: str, run: Implementation | None = None) -> None:
        """Add an overload called as `name(args)`; the signature reads "string, int -> string"."""
        self._add(name, overload_id, signature, False, run)

    def member(self, name: str, overload_id: str, signature: str, run: Implementation | None = None) -> None:
        """Add an overload called as `target.name(args)`; the target's type comes first in the signature."""
        self._add(name, overload_id, signature, True, run)

    def shared(self, name: str, run: Implementation) -> None:
        """Let one implementation serve every overload of a function."""
        self.functions.setdefault(name, Function(name)).run = run

    def unguarded(self, name: str) -> None:
        """Let the implementations of a function judge their arguments themselves."""
        self.functions[name].guarded = False

    def _add(self, name: str, overload_id: str, signature: str, member: bool, run: Implementation | None) -> None:
        args, _, result = signature.partition("->")
        types = tuple(parse_type(part) for part in split_types(args))
        overload = Overload(overload_id, member, types, parse_type(result.strip()), run)
        self.functions.setdefault(name, Function(name)).overloads.append(overload)


def _fits(type_: Type, value: Any) -> bool:
    """Whether a value can stand for a type, judging lists and maps by their first entry as cel-go does."""
    if type_.kind in ("dyn", "any", "parameter"):
        return True
    if type_.name != kind_of(value):
        return False
    if type_.kind == "list" and value:
        return _fits(type_.params[0], value[0])
    if type_.kind == "map" and value:
        key = next(iter(value))
        entry = value[key] if not isinstance(value, DeviceMap) else dict.__getitem__(value, key)
        return _fits(type_.params[0], original_key(key)) and _fits(type_.params[1], entry)
    return True
