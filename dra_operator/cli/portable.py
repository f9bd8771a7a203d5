"""`kubectl-dra portable`: its options, and how verdicts look. How they come about is `cli.porting`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dra_operator.cli.failures import FAILED, CommandFailed
from dra_operator.cli.output import OutputFormat, Printer, print_data, print_table

if TYPE_CHECKING:
    from dra_operator.cli.porting import Fate, Verdict


def portable(
    file: Annotated[
        list[str], typer.Option("-f", "--filename", metavar="FILE|DIR", help="The application's manifests.")
    ],
    cluster: Annotated[
        list[str],
        typer.Option("--cluster", metavar="FILE|DIR", help="A cluster: a snapshot, or manifests. Give several."),
    ],
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
) -> None:
    """Say in which of several clusters the same manifests would run, with which devices, and what must change where not.

    The application is played on a snapshot of each cluster (see `snapshot`), beside what runs there, for ten minutes of virtual time.
    Changes were tried before they are told. Exit code 1 where it does not fit everywhere.

    Example: kubectl-dra portable -f app/ --cluster a.yaml --cluster b.yaml
    """
    from dra_operator.cli.porting import judge

    verdicts, fine = judge(file, cluster)
    if not fine and not any(verdict.fates for verdict in verdicts):
        raise CommandFailed(code=FAILED)
    if output is OutputFormat.TABLE:
        _print(verdicts)
    else:
        data = {
            "clusters": [
                {
                    "cluster": verdict.cluster,
                    "fits": verdict.fits,
                    "workloads": [{"name": name, **fate.to_dict()} for name, fate in sorted(verdict.fates.items())],
                }
                for verdict in verdicts
            ]
        }
        print_data(data, output)
    if not fine or not all(verdict.fits for verdict in verdicts):
        raise CommandFailed(code=FAILED)


def _print(verdicts: list[Verdict]) -> None:
    printer = Printer(sys.stdout)
    rows = [
        [name, verdict.cluster, "yes" if fate.fits else "no", f"{fate.running}/{fate.pods}", _got(fate)]
        for name in sorted({name for verdict in verdicts for name in verdict.fates})
        for verdict in verdicts
        if (fate := verdict.fates.get(name)) is not None
    ]
    if rows:
        styles = {"FITS": lambda text: "green" if text == "yes" else "red"}
        print_table(printer, ("WORKLOAD", "CLUSTER", "FITS", "PODS", "GETS"), rows, styles)
    else:
        printer.line("nothing that makes pods or claims")
    for verdict in verdicts:
        for name, fate in sorted(verdict.fates.items()):
            if fate.fits:
                continue
            printer.line("")
            printer.line((f"{name} on {verdict.cluster}", "bold"))
            for reason in fate.reasons:
                printer.line(f"  {reason}")
            for change in fate.changes:
                printer.line("  ", ("change", "green"), f": {change}")
    printer.flush()


def _got(fate: Fate) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(fate.devices.items()))
