"""`kubectl-dra defrag`: its options, and how a plan looks. What is in it is `cli.defragging`; evicting is `cli.evicting`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dra_operator.cli.explain import NamespaceOption, parse_target, placed
from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.live import ContextOption, KubeconfigOption, exclude_files
from dra_operator.cli.output import OutputFormat, Printer, note, print_data

if TYPE_CHECKING:
    from dra_operator.cli.defragging import Plan, Step


def defrag(
    waiting: Annotated[
        str,
        typer.Argument(metavar="claim/NAME|pod/NAME", help="For whom; default: whoever waits, first in order first."),
    ] = "",
    namespace: NamespaceOption = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE|DIR|-", help="Manifests or a snapshot; without them a cluster is asked."
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    max_moves: Annotated[int, typer.Option(metavar="N", min=0, max=16, help="The most moves to look for.")] = 4,
    apply: Annotated[
        bool, typer.Option("--apply", help="Evict the pods of the plan, one by one, in a cluster. Default: only tell.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print.")] = OutputFormat.TABLE,
) -> None:
    """Find the fewest moves that make a waiting claim fit, and prove them in a simulation.

    Free devices may be enough, and yet scattered. A move evicts a pod that its controller makes anew elsewhere, or concerns a claim
    that no pod uses. Only what is managed and preemptible is moved, within disruption budgets. A plan is shown only after it was
    played through on the embedded cluster: whoever is moved runs again, nobody else loses anything.

    --apply evicts the pods through the Eviction API, waits for each to run again before the next, and stops where anything turns
    out otherwise. It writes no allocation and deletes nothing else. Exit code 1 where no plan was found or it could not be applied.

    Example: kubectl-dra defrag pod/train-0 -n research
    """
    if apply and file:
        raise CommandFailed("--apply evicts pods in a cluster; it does not go with -f", USAGE)
    exclude_files(file, kubeconfig, context)
    from dra_operator.cli.defragging import UNITS, look, scene_of_cluster, scene_of_files, target

    asked = parse_target(waiting, namespace) if waiting else None
    scene = scene_of_files(file) if file else scene_of_cluster(kubeconfig, context)
    units = scene.engine.rearranging.waiting()[:UNITS]
    if asked is not None:
        kind, key = asked
        units = [target(scene, kind, placed(key, file, kubeconfig, context))]
    if not units:
        if not scene.fine:
            raise CommandFailed(code=FAILED)
        note("nothing waits for devices")
    # Claims that no pod uses are freed by the operator alone: a plan that is to be applied does without.
    plans = look(scene, units, max_moves, claims_too=not apply)
    if output is OutputFormat.TABLE:
        _print(plans)
    else:
        print_data({"plans": [plan.to_dict() for plan in plans]}, output)
    proven = next((plan for plan in plans if plan.proven), None)
    if units and proven is None:
        raise CommandFailed(code=FAILED)
    if apply and proven is not None:
        from dra_operator.cli.evicting import carry_out

        carry_out(proven, kubeconfig, context)
    if not scene.fine:
        raise CommandFailed(code=FAILED)


def _print(plans: list[Plan]) -> None:
    printer = Printer(sys.stdout)
    for plan in plans:
        title = f"{plan.unit.kind}/{plan.unit.subject}"
        if not plan.proven:
            printer.line((title, "bold"), "  ", ("no plan", "yellow"), f": {plan.reason}")
        elif not plan.steps:
            printer.line(
                (title, "bold"), "  ", ("fits without any move", "green"), f": {_place(plan.node, plan.devices)}"
            )
        else:
            count = f"{len(plan.steps)} move{'s' if len(plan.steps) > 1 else ''}"
            printer.line((title, "bold"), "  ", (count, "green"), f", then it gets {_place(plan.node, plan.devices)}")
            for number, step in enumerate(plan.steps, 1):
                printer.line(f"  {number}. {_told(step)}")
        for text in plan.notes:
            printer.line((f"  {text}", "dim"))
    printer.flush()


def _told(step: Step) -> str:
    there, here = _place(step.node, step.devices), _place(step.to_node, step.to_devices)
    if step.kind == "pod":
        return f"evict pod {step.key} ({there}); the one in its place gets {here}"
    return f"claim {step.key}, which no pod uses ({there}): delete it and make it anew; it gets {here}"


def _place(node: str | None, devices: tuple[str, ...]) -> str:
    named = ", ".join(devices[:4]) + (f" and {len(devices) - 4} more" if len(devices) > 4 else "")
    return f"{named or 'nothing'} on {node}" if node else named
