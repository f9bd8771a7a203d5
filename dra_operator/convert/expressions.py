"""Selectors of the string dialect: how they use attributes.

Reading only: `survey` says what each use tells about the type of a key, `translation` writes the v1 expression. The dialect has
`device.attributes['key']` and `device.type` as text, and otherwise the operators of CEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, Select
from dra_operator.cel.guards import within_domain
from dra_operator.cel.values import Uint
from dra_operator.convert.texttypes import TextType

__all__ = [
    "DEVICE_TYPE",
    "ORDER",
    "Operand",
    "Untyped",
    "Use",
    "device_field",
    "is_dialect",
    "key_of",
    "literal_text",
    "operand",
    "survey",
]

#: The key that stands for `device.type`; no attribute can have it.
DEVICE_TYPE = ":type"

ORDER = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
EQUALITY = frozenset({"_==_", "_!=_"})
_CONDITIONS = frozenset({"_&&_", "_||_", "!_"})
_TEXT_METHODS = frozenset(
    {
        "charAt", "contains", "endsWith", "find", "findAll", "format", "indexOf", "lastIndexOf", "lowerAscii", "matches", "replace",
        "reverse", "size", "split", "startsWith", "substring", "trim", "upperAscii",
    }
)  # fmt: skip
#: Functions from text to another type: what they say about it.
_CONVERSIONS = {
    "int": TextType.INT,
    "double": TextType.QUANTITY,
    "quantity": TextType.QUANTITY,
    "semver": TextType.VERSION,
    "bool": TextType.BOOL,
    "string": TextType.STRING,
}


class Untyped(ValueError):
    """A use of an attribute that says nothing sure about what it means."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a key. `other` is a key it is compared with, `literals` are texts."""

    key: str
    ordered: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    other: str | None = None
    forced: TextType | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """An attribute as one side of a comparison. `conversion` wraps it; `default` replaces it where the device lacks it."""

    key: str
    conversion: str | None = None
    default: str | None = None


def key_of(node: Expr) -> str | None:
    """The key that a node reads, as the dialect reads it."""
    match node:
        case Call(function="_[_]", args=[Select() as attributes, Literal(value=str() as key)]) if _is_attributes(
            attributes
        ):
            return key
        case Select(optional=False, test=False, operand=Select() as attributes, field=key) if _is_attributes(
            attributes
        ):
            return key
        case Select(optional=False, test=False, operand=Ident(name="device"), field="type"):
            return DEVICE_TYPE
    return None


def device_field(node: Expr) -> str | None:
    """The field of `device` that a node reads."""
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "device":
        return node.field
    return None


def literal_text(node: Expr) -> str | None:
    """A scalar literal as the text the dialect would have for it."""
    if not isinstance(node, Literal):
        return None
    match node.value:
        case bool():
            return str(node.value).lower()
        case Uint():
            return str(int(node.value))
        case str() | int() | float():
            return str(node.value)
    return None


def operand(node: Expr) -> Operand | None:
    """An attribute as it can be compared: itself, through a conversion, or with a default."""
    key = key_of(node)
    if key is not None:
        return Operand(key)
    match node:
        case Call(function="orValue", target=Expr() as target, args=[default]):
            key, text = _optional_key(target), literal_text(default)
            if key is not None and text is not None:
                return Operand(key, default=text)
        case Call(function=function, target=None, args=[inner]) if function in _CONVERSIONS:
            found = operand(inner)
            if found is not None and found.conversion is None:
                return Operand(found.key, function, found.default)
    return None


def _optional_key(node: Expr) -> str | None:
    match node:
        case Call(function="_[?_]", args=[Select() as attributes, Literal(value=str() as key)]) if _is_attributes(
            attributes
        ):
            return key
        case Select(optional=True, operand=Select() as attributes, field=key) if _is_attributes(attributes):
            return key
    return None


def _is_attributes(node: Select) -> bool:
    return not node.optional and not node.test and device_field(node) == "attributes"


def is_dialect(root: Expr) -> bool:
    """Whether an expression reads attributes as the dialect does, without a domain."""
    return any(True for _ in _dialect_reads(root))


def _dialect_reads(node: Expr) -> Iterator[str]:
    if within_domain(node):
        return
    key = key_of(node)
    if key is not None:
        yield key
        return
    for child in _parts(node):
        yield from _dialect_reads(child)


def _parts(node: Expr) -> Iterator[Expr]:
    """The nodes below, macros taken as they were written."""
    if isinstance(node, Comprehension) and node.kind != "bind":
        yield node.range
        if node.filter is not None:
            yield node.filter
        yield node.body
    elif isinstance(node, Comprehension):
        yield node.init
        yield node.result
    else:
        yield from node.children()


def survey(root: Expr) -> Iterator[Use]:
    """All uses of keys in an expression. Raises Untyped for one that means nothing sure."""
    yield from _condition(root)


def _condition(node: Expr) -> Iterator[Use]:
    """A node whose value is a truth."""
    key = key_of(node)
    if key is not None:
        yield Use(key, forced=TextType.BOOL)
    elif isinstance(node, Call) and node.function in _CONDITIONS:
        for term in node.args:
            yield from _condition(term)
    elif isinstance(node, Call) and node.function == "_?_:_":
        for part in node.args:
            yield from _condition(part)
    elif isinstance(node, Call) and node.function in ORDER | EQUALITY:
        yield from _comparison(node)
    else:
        yield from _other(node)


def _comparison(node: Call) -> Iterator[Use]:
    left, right = (operand(side) for side in node.args)
    if left is None and right is None:
        for side in node.args:
            yield from _other(side)
        return
    if left is not None and right is not None:
        yield from _operand(left, ())
        yield from _operand(right, ())
        yield Use(left.key, other=right.key)
        return
    found, other = (left, node.args[1]) if left is not None else (right, node.args[0])
    assert found is not None
    text = literal_text(other)
    if text is None:
        if _converted_literal(other) is None:
            raise Untyped(f"attribute {shown(found.key)} is compared with something that is not a constant")
        text = _converted_literal(other)
    assert text is not None
    if node.function in ORDER:
        yield Use(found.key, ordered=(text,))
    else:
        yield Use(found.key, equal=(text,))
    yield from _operand(found, (text,))


def _operand(found: Operand, literals: tuple[str, ...]) -> Iterator[Use]:
    if found.default is not None:
        yield Use(found.key, equal=(found.default,))
    if found.conversion is not None:
        forced = _CONVERSIONS[found.conversion]
        if forced is not TextType.INT:
            yield Use(found.key, forced=forced)
    if not literals:
        yield Use(found.key)


def _converted_literal(node: Expr) -> str | None:
    """The text in `semver('1.2.3')` or `quantity('40Gi')`."""
    match node:
        case Call(function="semver" | "quantity", target=None, args=[Literal(value=str() as text), *_]):
            return text
    return None


def _other(node: Expr) -> Iterator[Use]:
    """A node that is neither a comparison nor a junction."""
    match node:
        case Call(function="@in", args=[Literal(), Select() as attributes]) if _is_attributes(attributes):
            return
        case Call(function="@in", args=[item, ListExpr() as choices]) if (found := operand(item)) is not None:
            texts = [literal_text(choice) for choice in choices.elements]
            if None in texts:
                raise Untyped(f"attribute {shown(found.key)} is looked for in a list of something else than constants")
            yield Use(found.key, equal=tuple(text for text in texts if text is not None))
            yield from _operand(found, ("",))
            return
        case Select(test=True, operand=Select() as attributes) if _is_attributes(attributes):
            return
        case Select(test=True, operand=Ident(name="device"), field="type"):
            return
        case Call(function=function, target=Expr() as target) if (found := operand(target)) is not None:
            yield from _method(node, function, found)
            return
        case Call(function="size", target=None, args=[argument]) if (key := key_of(argument)) is not None:
            yield Use(key, forced=TextType.STRING)
            return
    if within_domain(node):
        return
    key = key_of(node)
    if key is not None:
        raise Untyped(
            f"attribute {shown(key)} is used in a way that does not show what it is; compare it with a constant"
        )
    field = device_field(node)
    if field is not None and field not in ("driver", "allowMultipleAllocations"):
        if field in ("attributes", "capacity"):
            raise Untyped(f"device.{field} is used as a whole, which has no counterpart by single keys")
        raise Untyped(
            f"a v1 selector cannot see device.{field}: it sees driver, attributes and capacity only; publish it as an attribute"
        )
    for child in _parts(node):
        yield from _condition(child) if isinstance(node, Comprehension) else _other_or_comparison(child)


def _other_or_comparison(node: Expr) -> Iterator[Use]:
    if isinstance(node, Call) and node.function in ORDER | EQUALITY | _CONDITIONS:
        yield from _condition(node)
    else:
        yield from _other(node)


def _method(node: Call, function: str, found: Operand) -> Iterator[Use]:
    match function:
        case "isGreaterThan" | "isLessThan" | "compareTo" if (text := _converted_literal(node.args[0])) is not None:
            yield Use(found.key, ordered=(text,))
            yield from _operand(found, (text,))
        case "major" | "minor" | "patch":
            yield Use(found.key, forced=TextType.VERSION)
        case _ if function in _TEXT_METHODS and found.conversion in (None, "string"):
            yield Use(found.key, forced=TextType.STRING)
            for argument in node.args:
                yield from _other_or_comparison(argument)
        case _:
            raise Untyped(f"attribute {shown(found.key)} is used with {function}(), which means nothing sure for text")


def shown(key: str) -> str:
    """A key as messages name it."""
    return "`type` (device.type)" if key == DEVICE_TYPE else f"`{key}`"
