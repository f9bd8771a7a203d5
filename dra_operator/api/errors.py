"""Errors of objects that cannot be read; they name the object, the field and what was expected there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class InvalidField(ValueError):
    """A field that has no meaning. `path` grows outwards while the error passes through the enclosing parsers."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def within(self, outer: str) -> InvalidField:
        """The same error, seen from the object that holds `outer`."""
        joined = outer if not self.path else outer + self.path if self.path.startswith("[") else f"{outer}.{self.path}"
        return InvalidField(self.message, joined)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidObject(ValueError):
    """An object that cannot be read. Says which one, where in it, and what is wrong."""

    def __init__(self, kind: str, namespace: str, name: str, field: InvalidField) -> None:
        self.kind, self.namespace, self.name, self.field = kind, namespace, name, field
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {where or '(no name)'}: {field}")


#: What reading a wrongly shaped JSON value raises; parsers turn these into `InvalidField`.
SHAPE_ERRORS = (AttributeError, TypeError, KeyError, IndexError, ValueError)


def each(path: str, items: Iterable[Any] | None, parse: Callable[[Any], T]) -> tuple[T, ...]:
    """`parse` of every item; an error names the item's index under `path`."""
    if not items:
        return ()
    if not isinstance(items, list | tuple):
        raise InvalidField(f"expected a list, found {described(items)}", path)
    parsed: list[T] = []
    for index, item in enumerate(items):
        try:
            parsed.append(parse(item))
        except InvalidField as error:
            raise error.within(f"{path}[{index}]") from None
        except SHAPE_ERRORS as error:
            raise InvalidField(f"cannot be read ({describe(error, item)})", f"{path}[{index}]") from None
    return tuple(parsed)


def inside(path: str, value: Any, parse: Callable[[Any], T]) -> T:
    """`parse(value)`; an error names `path`."""
    try:
        return parse(value)
    except InvalidField as error:
        raise error.within(path) from None
    except SHAPE_ERRORS as error:
        raise InvalidField(f"cannot be read ({describe(error, value)})", path) from None


def described(value: Any) -> str:
    """A value of a document in a message: "the number 3", "a list"."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value!r:.40}"
        case str():
            return f"the text {str(value)!r:.40}"
        case list():
            return "a list"
    return "a mapping"


def describe(error: Exception, value: Any) -> str:
    """A short reason a person can act on for an error raised while reading `value`."""
    if not isinstance(value, dict | list):
        return f"found {described(value)}"
    if isinstance(error, KeyError):
        return f"field {error.args[0]!r} is missing"
    return str(error) or type(error).__name__
