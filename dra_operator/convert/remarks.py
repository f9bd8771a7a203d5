"""What a conversion has to say: what it assumed, and why something has no translation."""

from __future__ import annotations

from dataclasses import dataclass

#: The way to a field of an object: keys and indices.
FieldPath = tuple[str | int, ...]


def path_text(path: FieldPath) -> str:
    """The path as API errors write it: `spec.devices[0].name`; keys that are no plain names in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


class Untranslatable(ValueError):
    """There is no faithful translation. The message says why and what to do instead."""

    def __init__(self, path: FieldPath, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message

    def within(self, outer: FieldPath) -> Untranslatable:
        """The same, seen from the object that holds `outer`."""
        return Untranslatable(outer + self.path, self.message)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the translation took for granted, at a field of the original."""

    path: FieldPath
    message: str
