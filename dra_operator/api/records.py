"""Records: objects that are made by the thousand and never change.

To the type checker a record is a frozen dataclass. At run time it is not frozen: setting a field of a frozen dataclass takes a call, so
making one of a dozen fields would take as long as everything else that is done for a claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """As `@dataclass(frozen=True, slots=True)`, compared and hashed by its fields."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
