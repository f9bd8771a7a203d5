"""`kubectl-dra migrate plan|generate|verify`: its options, and how a survey looks. What it says is `dra_operator.migration`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.live import ContextOption, KubeconfigOption, exclude_files
from dra_operator.cli.output import OutputFormat, Printer, note, print_data, print_table

if TYPE_CHECKING:
    from dra_operator.migration.phases import Step
    from dra_operator.migration.survey import Survey

_STYLES = {"plugin": "yellow", "both": "magenta", "dra": "green", "none": "dim"}


class Action(StrEnum):
    PLAN = "plan"
    GENERATE = "generate"
    VERIFY = "verify"


def migrate(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    file: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE|DIR|-", help="A snapshot or manifests; without them a cluster is asked."
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    phase: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=3, help="generate, verify: 1 coexistence (the default), 2 gradual, 3 full."
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="generate: what takes the phase back.")] = False,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
) -> None:
    """Move from device plugins to DRA in phases: look, generate, verify.

    plan: who asks plugins for what, which nodes offer it, what stands in the way in this cluster. generate: the manifests of one phase
    as YAML on stdout, with the commands that belong to it as comments; --undo: those that take it back. verify: whether a phase
    holds, and how far each namespace has come; exit code 1 where it does not.

    Nothing is written to the cluster. Workloads themselves are converted by `kubectl-dra convert`.

    Example: kubectl-dra migrate generate --phase 2 > phase-2.yaml
    """
    exclude_files(file, kubeconfig, context)
    if undo and action is not Action.GENERATE:
        raise CommandFailed("--undo goes with generate", USAGE)
    if phase is not None and action is Action.PLAN:
        raise CommandFailed("plan tells of all phases; --phase goes with generate and verify", USAGE)
    from dra_operator.migration.survey import survey

    found = survey(_objects(file, kubeconfig, context))
    if not found.resources:
        note("nothing here asks for or offers a device plugin's resource")
    holds = True
    if action is Action.PLAN:
        _plan(found, output)
    elif action is Action.GENERATE:
        _generate(found, phase or 1, undo, output)
    else:
        holds = _verify(found, phase or 1, output)
    if not holds:
        raise CommandFailed(code=FAILED)


def _objects(file: list[str] | None, kubeconfig: Path | None, context: str | None) -> list[dict[str, Any]]:
    """Raises CommandFailed, also where a part of the input cannot be used."""
    if not file:
        from dra_operator.cli.live import SNAPSHOT_KINDS, read_cluster

        return [item for _, items in read_cluster(kubeconfig, context, SNAPSHOT_KINDS) for item in items]
    from dra_operator.cli.manifests import SCENARIO, read_manifests
    from dra_operator.cli.telling import tell

    manifests = read_manifests(file)
    # "ok" or "nothing in the way" of a part of a cluster would be taken for one of the whole.
    tell(manifests, whole=True)
    return [item.object for item in manifests.objects if item.resource is not SCENARIO]


# -- plan


def _plan(found: Survey, output: OutputFormat) -> None:
    from dra_operator.migration.progress import progress
    from dra_operator.migration.risks import risks

    dangers = risks(found)
    if output is not OutputFormat.TABLE:
        data = {
            "resources": [
                {
                    "name": item.name, "classes": sorted({*item.classes, *item.served_by}), "suggestedClass": item.suggested or None,
                    "onNodes": item.on_nodes, "inUse": item.in_use, "asked": item.asked,
                }
                for _, item in sorted(found.resources.items())
            ],
            "nodes": [
                {
                    "name": node.name, "mode": node.mode, "offered": node.offered, "used": dict(node.used),
                    "published": dict(node.published), "allocated": node.allocated,
                }
                for _, node in sorted(found.nodes.items())
                if node.mode != "none"
            ],
            "workloads": [
                {
                    "kind": item.kind, "namespace": item.namespace, "name": item.name, "pods": item.pods,
                    "devices": dict(item.devices), "obstacle": item.obstacle or None,
                }
                for item in found.workloads
            ],
            "namespaces": [
                {"name": item.name, "asked": item.asked, "claims": item.claims, "follows": item.follows}
                for item in progress(found)
            ],
            "risks": [
                {
                    "level": item.level, "phase": item.phase, "code": item.code, "object": item.about,
                    "message": item.message, "repair": item.repair,
                }
                for item in dangers
            ],
        }  # fmt: skip
        print_data(data, output)
        return
    printer = Printer(sys.stdout)
    rows = [
        [item.name, ", ".join(sorted({*item.classes, *item.served_by})) or f"({item.suggested or 'none known'})",
         str(item.on_nodes), str(item.in_use), str(item.asked)]
        for _, item in sorted(found.resources.items())
    ]  # fmt: skip
    _table(printer, ("RESOURCE", "CLASS", "ON NODES", "IN USE", "ASKED"), rows)
    rows = [
        [
            node.name,
            node.mode,
            _amounts(node.offered),
            _amounts(node.used),
            _amounts(node.published),
            str(node.allocated),
        ]
        for _, node in sorted(found.nodes.items())
        if node.mode != "none"
    ]
    _table(printer, ("NODE", "SERVED BY", "PLUGIN OFFERS", "IN USE", "IN SLICES", "ALLOCATED"), rows)
    rows = [
        [str(item), str(item.pods), _amounts(item.devices), item.obstacle or "can become claims"]
        for item in found.workloads
    ]
    _table(printer, ("WORKLOAD", "PODS", "ASKS FOR", "CONVERSION"), rows)
    for number, title in ((1, "coexistence"), (2, "gradual"), (3, "full")):
        mine = [item for item in dangers if item.phase == number]
        printer.line((f"phase {number}, {title}: ", "bold"), f"kubectl-dra migrate generate --phase {number}")
        for item in mine:
            style = "red" if item.level == "blocks" else "yellow"
            printer.line("  ", (item.level, style), f" {item.code} {item.about}: {item.message}")
            printer.line((f"         {item.repair}", "dim"))
        if not mine:
            printer.line(("  nothing in the way was found", "dim"))
    printer.flush()


def _table(printer: Printer, header: Sequence[str], rows: list[list[str]]) -> None:
    if rows:
        print_table(printer, header, rows, {"SERVED BY": lambda text: _STYLES.get(text, "")})
        printer.line("")


def _amounts(amounts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(amounts.items()) if count) or "-"


# -- generate


def _generate(found: Survey, phase: int, undo: bool, output: OutputFormat) -> None:
    from dra_operator.migration.phases import backward, forward

    step = (backward if undo else forward)(found, phase)
    if output is OutputFormat.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(step.objects)}, output)
        for line in _commands(step):
            note(line)
        return
    import yaml  # type: ignore[import-untyped]

    lines = [
        f"# Phase {phase}{', taken back' if undo else ''}. Apply with `kubectl apply --server-side --force-conflicts -f`."
    ]
    lines += [f"# {line}" for line in _commands(step)]
    sys.stdout.write("\n".join(lines) + "\n")
    for item in step.objects:
        sys.stdout.write("---\n" + yaml.safe_dump(item, sort_keys=False, allow_unicode=True, width=120))


def _commands(step: Step) -> list[str]:
    found = [f"kubectl delete --ignore-not-found {name}" for name in step.delete]
    return found + [f"{command}   # {why}" for command, why in step.commands]


# -- verify


def _verify(found: Survey, phase: int, output: OutputFormat) -> bool:
    from dra_operator.migration.progress import checks, progress, to_dict

    judged, come = checks(found, phase), progress(found)
    holds = all(check.holds for check in judged)
    if output is not OutputFormat.TABLE:
        data = {
            "phase": phase,
            "holds": holds,
            "checks": [to_dict(check) for check in judged],
            "namespaces": [
                {"name": item.name, "asked": item.asked, "claims": item.claims, "follows": item.follows}
                for item in come
            ],
        }
        print_data(data, output)
        return holds
    printer = Printer(sys.stdout)
    for check in judged:
        printer.line(("ok    " if check.holds else "FAIL  ", "green" if check.holds else "red"), check.text)
        for text in check.against:
            printer.line(f"        {text}")
    if come:
        printer.line("")
        rows = [[item.name, str(item.asked), str(item.claims), "yes" if item.follows else "no"] for item in come]
        print_table(printer, ("NAMESPACE", "ASKS PLUGIN", "CLAIMS", "FOLLOWS"), rows, {})
    printer.flush()
    return holds
