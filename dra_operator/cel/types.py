"""The static types of expressions, and how they unify.

Only what the checker needs: structure, text form, assignability with type parameters. Run-time values are in `values`.
Source: the CEL specification ("Gradual type checking") and the behaviour of cel-go's checker.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Substitution",
    "Type",
    "list_of",
    "map_of",
    "object_type",
    "opaque",
    "optional_of",
    "parameter",
    "parse_type",
]


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its kind, its name and its parameters. Compared by structure."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "error":
                return "!error!"
            case "null":
                return "null"
            case "timestamp" | "duration" | "any":
                return self.kind
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    @property
    def declared(self) -> str:
        """The type by its full name, as the API server reports what an expression evaluates to."""
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(part.declared for part in self.params)})"

    @property
    def is_dyn(self) -> bool:
        """Whether anything may stand here, checked only at run time."""
        return self.kind in ("dyn", "any")

    @property
    def is_optional(self) -> bool:
        return self.kind == "opaque" and self.name == "optional_type"

    @property
    def is_scalar(self) -> bool:
        """Whether every value has the size 1, also inside an optional."""
        if self.is_optional:
            return self.params[0].is_scalar
        return self.kind in ("bool", "double", "duration", "int", "timestamp", "uint")


BOOL, BYTES, DOUBLE = Type("bool", "bool"), Type("bytes", "bytes"), Type("double", "double")
INT, STRING, UINT = Type("int", "int"), Type("string", "string"), Type("uint", "uint")
DYN, ANY = Type("dyn", "dyn"), Type("any", "google.protobuf.Any")
ERROR, NULL = Type("error", "!error!"), Type("null", "null_type")
DURATION = Type("duration", "google.protobuf.Duration")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
TYPE = Type("type", "type")

_NAMED = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "string": STRING,
    "uint": UINT,
    "dyn": DYN,
    "null": NULL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
}
_LEGACY_NULLABLE = ("opaque", "struct", "any", "duration", "timestamp")
_STRUCTURED = ("opaque", "list", "map", "type")


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return opaque("optional_type", value)


def opaque(name: str, *params: Type) -> Type:
    return Type("opaque", name, params)


def object_type(name: str) -> Type:
    return Type("struct", name)


def parameter(name: str) -> Type:
    return Type("parameter", name)


@lru_cache(maxsize=512)
def parse_type(text: str) -> Type:
    """A type from its text in a declaration: `list(A)`, `map(string, dyn)`, `optional(A)`, `net.IP`, `kubernetes.URL`."""
    name, paren, inside = text.strip().partition("(")
    params = tuple(parse_type(part) for part in split_types(inside.rstrip()[:-1])) if paren else ()
    match name:
        case "list" | "map" | "type":
            return Type(name, name, params)
        case "optional":
            return optional_of(*params)
        case _ if name in _NAMED:
            return _NAMED[name]
        case _ if name.startswith("kubernetes."):
            return object_type(name)
        case _ if name.startswith("net."):
            return opaque(name)
    return parameter(name)


def split_types(text: str) -> list[str]:
    """The parts of a comma-separated list of types."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


class Substitution:
    """What the type parameters of one expression stand for. Failed attempts are taken back by `try_assign`."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """A new type parameter that nothing refers to yet."""
        self._fresh += 1
        return parameter(f"_var{self._fresh - 1}")

    def try_assign(self, targets: list[Type], values: list[Type]) -> bool:
        """Whether each pair of types agrees; if so, what that says about type parameters is kept."""
        mark = len(self._trail)
        if len(targets) == len(values) and all(map(self._assign, targets, values)):
            return True
        while len(self._trail) > mark:
            name, old = self._trail.pop()
            if old is None:
                del self._bound[name]
            else:
                self._bound[name] = old
        return False

    def apply(self, type_: Type, unbound_as_dyn: bool = False) -> Type:
        """The type with its parameters replaced by what they stand for."""
        while type_.kind == "parameter":
            bound = self._bound.get(type_.name)
            if bound is None:
                return DYN if unbound_as_dyn else type_
            type_ = bound
        if not type_.params:
            return type_
        return Type(type_.kind, type_.name, tuple(self.apply(part, unbound_as_dyn) for part in type_.params))

    def _bind(self, name: str, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _assign(self, left: Type, right: Type) -> bool:
        if right.kind == "parameter":
            valid, known = self._substitute(left, right)
            if valid or known:
                return valid
        if left.kind == "parameter":
            return self._substitute(right, left)[0]
        if left.is_dyn or right.is_dyn or left.kind == "error" or right.kind == "error":
            return True
        if left.kind == "null":
            return _takes_null(right)
        if right.kind == "null":
            return _takes_null(left)
        if left.kind == "type":
            return right.kind == "type"
        if left.kind in _STRUCTURED:
            same = left.kind == right.kind and left.name == right.name and len(left.params) == len(right.params)
            return same and all(map(self._assign, left.params, right.params))
        return left == right

    def _substitute(self, type_: Type, param: Type) -> tuple[bool, bool]:
        """(whether `param` can stand for `type_`, whether `param` stood for something already)."""
        if type_ == param:
            return True, True
        bound = self._bound.get(param.name)
        if bound is not None:
            if type_ == bound:
                return True, True
            if not self._assign(type_, bound):
                return False, True
            general = most_general(type_, bound)
            if self._unreferenced(param, general):
                self._bind(param.name, general)
            return True, True
        if self._unreferenced(param, type_):
            self._bind(param.name, type_)
            return True, False
        return False, False

    def _unreferenced(self, param: Type, within: Type) -> bool:
        if param == within:
            return False
        if within.kind == "parameter":
            bound = self._bound.get(within.name)
            return bound is None or self._unreferenced(param, bound)
        return all(self._unreferenced(param, part) for part in within.params)


def most_general(left: Type, right: Type) -> Type:
    """Of two types that agree, the less specific one."""
    return left if _at_most_as_specific(left, right) else right


def _at_most_as_specific(left: Type, right: Type) -> bool:
    if left.is_dyn or left.kind == "parameter":
        return True
    if right.is_dyn or right.kind == "parameter" or left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    if left.kind in _STRUCTURED:
        same = left.name == right.name and len(left.params) == len(right.params)
        return same and all(map(_at_most_as_specific, left.params, right.params))
    return left == right


def _takes_null(type_: Type) -> bool:
    return type_.kind in _LEGACY_NULLABLE or type_.kind == "null"
