"""The files that a command line names, as text; or why there is none, and how to repair that.

Every command that reads files goes through here, so that all say the same of a file that is missing, is a directory, or is no text.
What a file holds is not known here.
"""

from __future__ import annotations

import sys
from pathlib import Path

STDIN = "(stdin)"
#: What there is to do about a file with nothing in it.
FILL_IT = "write it, or name another file"


class Unreadable(ValueError):
    """`line` counts from 1; 0 stands for the file as a whole. `repair` is what to do about it."""

    def __init__(self, name: str, line: int, reason: str, repair: str) -> None:
        super().__init__(f"{name}:{line}: {reason}; {repair}" if line else f"{name}: {reason}; {repair}")
        self.name, self.line, self.reason, self.repair = name, line, reason, repair


def name_of(path: str) -> str:
    return STDIN if path == "-" else path


def read_bytes(path: str) -> bytes:
    """A file, or standard input for `-`. Raises Unreadable."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except IsADirectoryError:
        raise Unreadable(name_of(path), 0, "is a directory", "name a file in it") from None
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise Unreadable(name_of(path), 0, reason, "name a file that can be read") from None


def text_of(content: bytes, path: str) -> str:
    """The text of what was read from `path`, without a byte order mark. Raises Unreadable where it is no UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reason = f"is not UTF-8 text (byte 0x{content[error.start]:02x})"
        raise Unreadable(name_of(path), line, reason, "save it as UTF-8") from None


def read_text(path: str) -> str:
    """Raises Unreadable."""
    return text_of(read_bytes(path), path)
