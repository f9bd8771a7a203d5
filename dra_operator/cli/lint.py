"""`kubectl-dra lint`: what in manifests will not work, said before they are applied.

The rules are in `dra_operator.lint`; here are files, lines, repairs in place, and exit codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.findings import Form, Located, print_findings
from dra_operator.cli.live import ContextOption, KubeconfigOption, read_cluster
from dra_operator.cli.output import note
from dra_operator.cli.repair import repair
from dra_operator.cli.sources import SourceObject, Sources, read_sources
from dra_operator.cluster.rest import (
    CLAIM_GROUPS,
    DEVICE_CLASSES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dra_operator.lint.checking import check, unreadable
from dra_operator.lint.findings import Finding
from dra_operator.lint.subjects import Subject

#: What manifests can refer to in a cluster, and what their selectors are tried on.
_CLUSTER_KINDS = (
    DEVICE_CLASSES,
    RESOURCE_SLICES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    CLAIM_GROUPS,
)
#: Repairs of repairs end some time.
_ROUNDS = 10


def lint(
    file: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifests: a file, a directory, or - for stdin."),
    ],
    inventory: Annotated[
        bool, typer.Option("--inventory", help="Check against the ResourceSlices among the manifests as well.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Check against the objects and slices of a cluster, which is only read.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair the files where the repair is certain; the rest is reported.")
    ] = False,
    output: Annotated[Form, typer.Option("-o", "--output", help="How to print.")] = Form.TABLE,
) -> None:
    """Say what in manifests will not work, and why, before they are applied.

    Looks at classes, claims, templates, slices, policies and all that makes pods: unknown fields, selectors that do not compile or
    fail on other drivers' devices, requests beyond the API's limits, claims that pods name wrongly. With --inventory also at what
    selectors find there: attributes nobody publishes, counts no node can hold, replicas there are no devices for. With --live (or a
    --kubeconfig or --context) all this against what is in a cluster.

    Each finding has the line, the field, what happens at run time, and the repair. Exit code 1 if there are any.

    Example: kubectl-dra lint --inventory -f app/ -f slices.yaml
    """
    if fix and "-" in file:
        raise CommandFailed("--fix writes files; standard input is none", USAGE)
    sources = read_sources(file)
    cluster = _cluster(kubeconfig, context) if live or kubeconfig is not None or context is not None else None
    findings = check_sources(sources, inventory=inventory, cluster=cluster)
    if fix:
        sources, findings = _repaired(file, sources, findings, inventory, cluster)
    located = [*_unreadable(sources), *(_located(item, sources.objects[item.subject]) for item in findings)]
    print_findings(sorted(located, key=lambda item: (item.file, item.line)), output)
    if located:
        raise CommandFailed(code=FAILED)


def _repaired(
    file: list[str], sources: Sources, findings: list[Finding], inventory: bool, cluster: list[Any] | None
) -> tuple[Sources, list[Finding]]:
    """What is left once all certain repairs are made. One repair can bring another mistake to light."""
    counts: dict[str, int] = {}
    for _ in range(_ROUNDS):
        wanted = [(sources.objects[item.subject], item.edits) for item in findings if item.edits]
        done = repair(wanted)
        if not done:
            break
        for name, count in done.items():
            counts[name] = counts.get(name, 0) + count
        sources = read_sources(file)
        findings = check_sources(sources, inventory=inventory, cluster=cluster)
    for name, count in counts.items():
        note(f"{name}: {count} repaired")
    return sources, findings


def check_sources(sources: Sources, *, inventory: bool, cluster: list[Any] | None = None) -> list[Finding]:
    return check([item.value for item in sources.objects], inventory=inventory, cluster=cluster)


def _cluster(kubeconfig: Path | None, context: str | None) -> list[Any]:
    """Raises CommandFailed."""
    return [item for _, items in read_cluster(kubeconfig, context, _CLUSTER_KINDS) for item in items]


def _unreadable(sources: Sources) -> list[Located]:
    return [
        Located(problem.source.file, problem.source.line, "", unreadable(problem.message, problem.repair))
        for problem in sources.problems
    ]


def _located(item: Finding, source: SourceObject) -> Located:
    value = source.value if isinstance(source.value, dict) else {}
    return Located(source.text.file, source.line_of(item.path), Subject(item.subject, value).title, item)
