"""Wait for what a real control plane does in its own time. Tests of our own code have virtual time instead."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class NeverHappened(AssertionError):
    """The deadline passed; the text says what was last seen."""


def eventually(
    check: Callable[[], Value], timeout: float = 90.0, *, every: float = 0.05, what: str | None = None
) -> Value:
    """Call `check` until it gives something true, and give that.

    A `check` that raises is called again too, so that it can be made of plain asserts. `timeout` and `every` are
    seconds; the deadline is for what never comes, so it is generous to a loaded machine. Raises `NeverHappened` at the
    deadline, with the last value or error.
    """
    deadline = time.monotonic() + timeout
    while True:
        failure: Exception | None = None
        try:
            value = check()
            if value:
                return value
            seen = f"last value {value!r}"
        except Exception as error:
            failure, seen = error, f"last error {type(error).__name__}: {error}"
        if time.monotonic() >= deadline:
            wanted = what or getattr(check, "__name__", "the condition")
            raise NeverHappened(f"{wanted}: not within {timeout:g} s; {seen}") from failure
        time.sleep(every)
