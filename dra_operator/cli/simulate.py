"""`kubectl-dra simulate`: its options and help. The run itself is `cli.simulation`, imported once the command line is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import InvalidField
from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.live import ContextOption, KubeconfigOption
from dra_operator.cli.output import OutputFormat


def simulate(
    file: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifests: a file, a directory, or - for stdin."),
    ] = None,
    until: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Stop then, as in 10m. Default: as the Scenario says, else when nothing changes."
        ),
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Start from the objects of a cluster, which is only read; -f comes on top.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    remove_node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="What if this node were deleted, with its slices?")
    ] = None,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="profile=P|like=NODE,count=N",
            help="What if there were more nodes? As of a profile, or as one there is.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="What if these AllocationPolicies replaced those of the same name?"),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help="Which claims fare differently in two runs: manifests, or output saved with -o json."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that shows the run: devices, queue, utilization.")
    ] = None,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed makes other generated names.")] = 0,
) -> None:
    """Run the engine on manifests and show what it decides.

    Deployments, Jobs and the like make their pods, templates their claims. A Scenario among the objects (kind Scenario,
    dra-operator.dev/v1alpha1) applies, deletes and finishes more at its times. Time is virtual; the same input gives the same
    output. Exit code 1 if an object could not be used; the others are simulated all the same.

    Example: kubectl-dra simulate -f examples/demo

    Example: kubectl-dra simulate --live -f new-job.yaml --add-nodes profile=p4d,count=2
    """
    end = _seconds(until)
    if compare is not None:
        _compare(compare, end, output, seed, others=[file, live, remove_node, add_nodes, policy, html])
        return
    if not file and not live:
        raise typer.BadParameter("give manifests, or a cluster with --live", param_hint="-f")
    if not live and (kubeconfig is not None or context is not None):
        raise CommandFailed("--kubeconfig and --context name the cluster of --live, which is not given", USAGE)
    from dra_operator.cli.simulation import Cluster, Input, simulate_files
    from dra_operator.cli.whatif import AddedNodes, WhatIf

    what_if = WhatIf(remove_node or (), [AddedNodes.parse(text) for text in add_nodes or ()], policy or ())
    given = Input(file or (), Cluster(kubeconfig, context) if live else None, what_if)
    if not simulate_files(given, end, output, seed, html):
        raise CommandFailed(code=FAILED)


def _compare(
    runs: tuple[str, str], until: float | None, output: OutputFormat, seed: int, *, others: list[object]
) -> None:
    if any(others):
        raise CommandFailed(
            "--compare takes its two runs only; save a changed run with -o json and compare that", USAGE
        )
    from dra_operator.cli.comparison import compare_runs

    if not compare_runs(runs, until, output, seed):
        raise CommandFailed(code=FAILED)


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text) if text else None
    except InvalidField as failure:
        raise CommandFailed(f"--until: {failure}", USAGE) from None
