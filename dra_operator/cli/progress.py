"""How far long work has come: one line on stderr that is written over, on a terminal only. Never part of any output."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

#: Seconds between two writes, and before the first: short work shows nothing.
_EVERY = 0.2
_CLEAR = "\r\x1b[K"


class Progress:
    """Use as a context manager, which clears the line at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = False
        self._last = time.monotonic()
        self._on = self._stream.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    @property
    def due(self) -> bool:
        """Whether `show` would write: ask first where the text is costly."""
        return self._on and time.monotonic() - self._last >= _EVERY

    def show(self, text: str) -> None:
        if self.due:
            self._stream.write(f"{_CLEAR}{text}")
            self._stream.flush()
            self._last, self._shown = time.monotonic(), True

    def clear(self) -> None:
        """Before anything else is written to the terminal."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False
