"""A trail of what changed, by name, for readers that remember how far they have read."""

from __future__ import annotations

from typing import Generic, TypeVar

Name = TypeVar("Name")

_LIMIT = 8_192


class Trail(Generic[Name]):
    """Bounded: a reader that is too far behind must look at everything."""

    __slots__ = ("_names", "_start")

    def __init__(self) -> None:
        self._names: list[Name] = []
        self._start = 0

    @property
    def end(self) -> int:
        """Where a reader is who has read everything."""
        return self._start + len(self._names)

    def note(self, name: Name) -> None:
        self._names.append(name)
        if len(self._names) > _LIMIT:
            del self._names[: _LIMIT // 2]
            self._start += _LIMIT // 2

    def since(self, read: int) -> list[Name] | None:
        """Names that changed after the first `read`, some of them several times; None: too many to have been kept."""
        return None if read < self._start else self._names[read - self._start :]
