"""A limit on how long a part of the benchmark may take, whatever it waits for. For the main thread alone."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class TookTooLong(BaseException):
    """A part of the benchmark was not over in time; the text names it. No Exception: it is not to be tried again."""


@contextlib.contextmanager
def limit(seconds: float, what: str) -> Iterator[None]:
    """Raises TookTooLong in the block once it has taken `seconds`."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"{what}: not over after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
