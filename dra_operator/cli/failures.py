"""How a command gives up: one clear line on stderr and an exit code. Nothing else of the command line is known here."""

from __future__ import annotations

#: Something in the input or the cluster was wrong.
FAILED = 1
#: The command line itself was wrong (the code click uses).
USAGE = 2


class CommandFailed(Exception):
    """Ends a command. `message` names the file or object and the repair; "" where everything was said already."""

    def __init__(self, message: str = "", code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
