"""A table that fills the terminal and is drawn again and again. Knows nothing of what it shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.output import Styler, harmless

Rows = TypeVar("Rows")
#: Header, cells, styles by column: as for `output.print_table`.
Drawn = tuple[Sequence[str], Sequence[Sequence[str]], dict[str, Styler]]


def watch_rows(title: str, look: Callable[[], Rows], table: Callable[[Rows], Drawn], interval: float) -> None:
    """Until Ctrl-C. The first look may fail with CommandFailed; a later one that fails is told and tried again."""
    rows = look()
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    trouble = ""
    with Live(
        draw(title, table(rows), trouble, console.height), console=console, screen=True, auto_refresh=False
    ) as live:
        try:
            while True:
                time.sleep(interval)
                try:
                    rows, trouble = look(), ""
                except CommandFailed as failure:
                    trouble = failure.message
                live.update(draw(title, table(rows), trouble, console.height), refresh=True)
        except KeyboardInterrupt:
            return


def draw(title: str, drawn: Drawn, trouble: str, height: int) -> Group:
    """One screen: rows that do not fit are counted."""
    header, cells, stylers = drawn
    grid = Table(box=None, expand=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in header:
        grid.add_column(name, no_wrap=True, overflow="ellipsis")
    room = max(1, height - 5)
    for row in cells[:room]:
        styled = [
            Text(harmless(cell) or "-", style=stylers[name](cell) if name in stylers else "")
            for name, cell in zip(header, row, strict=True)
        ]
        grid.add_row(*styled)
    more = len(cells) - room
    last = f"and {more} more" if more > 0 else "nothing to show" if not cells else ""
    clock = time.strftime("%H:%M:%S")
    parts: list[ConsoleRenderable] = [Text(f"{title}   {clock}   Ctrl-C ends", style="dim"), Text(""), grid]
    parts += [Text(text, style=style) for text, style in ((last, "dim"), (harmless(trouble), "bold red")) if text]
    return Group(*parts)
