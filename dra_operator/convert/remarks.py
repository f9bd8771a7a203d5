"""What a conversion has to say: what it assumed, and why something has no translation."""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.api.fieldpath import FieldPath


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
