"""Printing: data on stdout, notes on stderr, tables in kubectl's manner, colour on a terminal only (unless NO_COLOR).

Text from objects may hold anything, terminal escapes included; it is made harmless here, in one place. Knows no kinds.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from dra_operator.cli.failures import CommandFailed

if TYPE_CHECKING:
    from rich.console import Console

#: Two spaces more than the widest cell, as kubectl does.
GAP = 3
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

#: A piece of text and its style in rich's words ("" for none).
Span = tuple[str, str]
Styler = Callable[[str], str]


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def harmless(text: str) -> str:
    """`text` on one line and without characters that steer a terminal."""
    return _CONTROL.sub(lambda match: " " if match[0] in "\n\t" else f"\\x{ord(match[0]):02x}", text)


class Printer:
    """Writes styled lines to one stream: through rich on a terminal, as they are in a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.console: Console | None = None
        if stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            from rich.console import Console

            self.console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def line(self, *spans: Span | str) -> None:
        parts = [(harmless(span), "") if isinstance(span, str) else (harmless(span[0]), span[1]) for span in spans]
        if self.console is None:
            self.stream.write("".join(text for text, _ in parts).rstrip() + "\n")
            return
        from rich.text import Text

        self.console.print(Text.assemble(*parts))

    def flush(self) -> None:
        self.stream.flush()


def print_table(
    printer: Printer,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    stylers: dict[str, Styler] | None = None,
) -> None:
    """Columns as wide as their widest cell. `stylers` give, by column, the style for a cell's text."""
    stylers = stylers or {}
    cells = [[harmless(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(_width, column)) + GAP for column in zip(header, *cells, strict=True)]
    widths[-1] = 0  # Nothing comes after it, and padding would wrap on a terminal.
    printer.line(*((_padded(title, width), "bold") for title, width in zip(header, widths, strict=True)))
    for row in cells:
        printer.line(
            *(
                (_padded(cell, width), stylers[title](cell) if title in stylers else "")
                for title, cell, width in zip(header, row, widths, strict=True)
            )
        )


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def print_data(value: Any, form: OutputFormat) -> None:
    """`value` on stdout as JSON or YAML, keys in the order they have."""
    if form is OutputFormat.JSON:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"
    else:
        import yaml  # type: ignore[import-untyped]

        text = yaml.dump(value, Dumper=_dumper(yaml), sort_keys=False, allow_unicode=True, width=2**31)
    sys.stdout.write(text)
    sys.stdout.flush()


def _dumper(yaml: Any) -> Any:
    """A safe dumper that writes equal lists twice instead of an alias, as kubectl does."""

    class Plain(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain


def check_writable(path: Path) -> None:
    """Before the work whose result goes to this file. Raises CommandFailed where it could not be written."""
    if path.is_dir():
        raise CommandFailed(f"{path}: is a directory; name a file in it")
    if not path.parent.is_dir():
        raise CommandFailed(f"{path}: cannot be written: there is no directory {path.parent}; make it, or name another")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandFailed(f"{path}: cannot be written: permission denied; name another file")


def note(message: str) -> None:
    Printer(sys.stderr).line((f"note: {message}", "dim"))


def warn(message: str) -> None:
    Printer(sys.stderr).line(("warning: ", "yellow"), message)


def error(message: str) -> None:
    Printer(sys.stderr).line(("error: ", "bold red"), message)
