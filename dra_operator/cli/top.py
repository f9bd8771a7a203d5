"""`kubectl-dra top`: its options and help, and how the rows look. What they say is `cli.usage`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.live import ContextOption, KubeconfigOption, exclude_files
from dra_operator.cli.output import OutputFormat, Printer, print_data, print_table

if TYPE_CHECKING:
    from dra_operator.cli.usage import Usage

Row = dict[str, Any]
#: Devices named in one cell.
_SHOWN = 4


class View(StrEnum):
    CLASSES = "classes"
    NODES = "nodes"
    CLAIMS = "claims"
    QUEUE = "queue"
    NAMESPACES = "namespaces"


def top(
    view: Annotated[View, typer.Argument(help="What to look at.")] = View.CLASSES,
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="Only claims and waiting pods of this namespace."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="A snapshot; without it a cluster is asked."),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it full screen, again and again; Ctrl-C ends it.")
    ] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, help="Seconds between two looks of --watch.")
    ] = 5.0,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
) -> None:
    """Show how devices are used now, and who waits for them.

    classes: devices of each DeviceClass; nodes: devices of each node; claims: each with its phase and devices; queue: what waits,
    first in order first; namespaces: claims and devices of each. Nothing is written to the cluster, and nothing is simulated: a
    snapshot (see `snapshot`) is shown as it stands. Exit code 1 if an object of -f could not be used.

    Example: kubectl-dra top queue --watch
    """
    exclude_files(file, kubeconfig, context)

    bad = False

    def look() -> list[Row]:
        nonlocal bad
        from dra_operator.cli.looking import look_at_cluster, look_at_files

        if file:
            usage, fine = look_at_files(file)
            bad = bad or not fine
        else:
            usage = look_at_cluster(kubeconfig, context)
        return _rows(usage, view, namespace)

    if watch:
        if output is not OutputFormat.TABLE or not sys.stdout.isatty() or "-" in (file or ()):
            raise CommandFailed("--watch draws a screen: it needs a terminal, no -o, and no standard input", USAGE)
        from dra_operator.cli.screen import watch_rows

        watch_rows(f"kubectl-dra top {view.value}", look, lambda rows: table(view, rows), interval)
        return
    rows = look()
    if bad and not rows:
        raise CommandFailed(code=FAILED)
    if output is OutputFormat.TABLE:
        printer = Printer(sys.stdout)
        if rows:
            header, cells, stylers = table(view, rows)
            print_table(printer, header, cells, stylers)
        else:
            printer.line(_NOTHING[view])
        printer.flush()
    else:
        print_data({view.value: rows}, output)
    if bad:
        raise CommandFailed(code=FAILED)


def _rows(usage: Usage, view: View, namespace: str | None) -> list[Row]:
    rows: list[Row] = getattr(usage, view.value)()
    if namespace is None or view in (View.CLASSES, View.NODES):
        return rows
    name = "name" if view is View.NAMESPACES else "namespace"
    return [row for row in rows if row[name] == namespace]


_NOTHING = {
    View.CLASSES: "no device classes",
    View.NODES: "no nodes",
    View.CLAIMS: "no claims",
    View.QUEUE: "nothing waits",
    View.NAMESPACES: "no claims",
}

Column = tuple[str, Callable[[Row], str]]


def _field(name: str) -> Callable[[Row], str]:
    return lambda row: "" if row[name] is None else str(row[name])


def _span(name: str) -> Callable[[Row], str]:
    return lambda row: "" if row[name] is None else duration(row[name])


def duration(seconds: int) -> str:
    """As kubectl prints ages: the two largest units."""
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            left = seconds % size // smaller
            return f"{seconds // size}{unit}" + (f"{left}{rest}" if left else "")
    return f"{seconds}s"


def _devices(row: Row) -> str:
    """Without the pool where that is the node's own."""
    names = [item.removeprefix(f"{row['node']}/") for item in row["devices"]]
    more = len(names) - _SHOWN
    return ",".join(names[:_SHOWN]) + (f",+{more}" if more > 0 else "")


def _used(row: Row, total: str) -> str:
    return f"{100 * row['allocated'] // row[total]}%" if row[total] else ""


_COLUMNS: dict[View, tuple[Column, ...]] = {
    View.CLASSES: (
        ("CLASS", _field("name")),
        ("TOTAL", _field("total")),
        ("ALLOCATED", _field("allocated")),
        ("FREE", _field("free")),
        ("HELD", _field("held")),
        ("RESERVED", _field("reserved")),
        ("UNUSABLE", _field("unusable")),
        ("USED", lambda row: _used(row, "total")),
        ("LARGEST", _field("largestFreeGroup")),
        ("FRAGMENTED", lambda row: f"{row['fragmentation']}%"),
        ("WAITING", _field("waitingClaims")),
        ("OLDEST", _span("oldestWaitSeconds")),
        ("MESSAGE", _field("message")),
    ),
    View.NODES: (
        ("NODE", lambda row: row["name"] + ("" if row["schedulable"] else " (cordoned)")),
        ("DEVICES", _field("devices")),
        ("ALLOCATED", _field("allocated")),
        ("FREE", _field("free")),
        ("UNUSABLE", _field("unusable")),
        ("USED", lambda row: _used(row, "devices")),
        ("CLAIMS", _field("claims")),
    ),
    View.CLAIMS: (
        ("NAMESPACE", _field("namespace")),
        ("NAME", _field("name")),
        ("PHASE", _field("phase")),
        ("NODE", _field("node")),
        ("DEVICES", _devices),
        ("PRIORITY", _field("priority")),
        ("AGE", _span("ageSeconds")),
        ("REASON", _field("reason")),
    ),
    View.QUEUE: (
        ("#", _field("position")),
        ("NAMESPACE", _field("namespace")),
        ("WAITING", lambda row: f"{row['kind']}/{row['name']}"),
        ("PHASE", _field("phase")),
        ("CLAIMS", _field("claims")),
        ("PRIORITY", lambda row: _priority(row)),
        ("SINCE", _span("waitSeconds")),
        ("WHY", lambda row: ": ".join(filter(None, (row["reason"], row["message"])))),
    ),
    View.NAMESPACES: (
        ("NAMESPACE", _field("name")),
        ("CLAIMS", _field("claims")),
        ("ALLOCATED", _field("allocated")),
        ("WAITING", _field("waiting")),
        ("UNMANAGED", _field("unmanaged")),
        ("DEVICES", _field("devices")),
        ("OLDEST", _span("oldestWaitSeconds")),
    ),
}


def _priority(row: Row) -> str:
    """What it was given, and what it has come to by waiting."""
    given, now = row["priority"], row["effectivePriority"]
    return str(given) if given == now else f"{given}→{now}"


def table(view: View, rows: Sequence[Row]) -> tuple[list[str], list[list[str]], dict[str, Callable[[str], str]]]:
    """Header, cells, and what gives a column's cells their style. A column in which nothing stands is left out."""
    from dra_operator.cli.endstate import style

    columns = [
        (title, [cell(row) for row in rows])
        for title, cell in _COLUMNS[view]
        if title != "MESSAGE" or any(map(cell, rows))
    ]
    header = [title for title, _ in columns]
    return header, [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)], {"PHASE": style}
