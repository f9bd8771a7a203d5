"""`kubectl-dra simulate`: its options and help. The run itself is `cli.simulation`, imported once the command line is right."""

from __future__ import annotations

from typing import Annotated

import typer

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField
from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.output import OutputFormat


def simulate(
    file: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifests: a file, a directory, or - for stdin."),
    ],
    until: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Stop then, as in 10m. Default: as the Scenario says, else when nothing changes."
        ),
    ] = "",
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
    seed: Annotated[int, typer.Option(help="Another seed makes other generated names.")] = 0,
) -> None:
    """Run the engine on manifests and show what it decides.

    Deployments, Jobs and the like make their pods, templates their claims. A Scenario among the objects (kind Scenario,
    dra-operator.dev/v1alpha1) applies, deletes and finishes more at its times. Time is virtual; the same input gives the same
    output. Exit code 1 if an object could not be used; the others are simulated all the same.

    Example: kubectl-dra simulate -f examples/demo
    """
    end = _seconds(until)
    from dra_operator.cli.simulation import simulate_files

    if not simulate_files(file, end, output, seed):
        raise CommandFailed(code=FAILED)


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text) if text else None
    except InvalidField as failure:
        raise CommandFailed(f"--until: {failure}", USAGE) from None
