"""`dra-operator run`: the operator against a cluster. Reads flags, sets up logs, hands over to `operator.service`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.live import unreachable
from dra_operator.cluster.kubernetes.client import Unreachable
from dra_operator.cluster.kubernetes.connection import NoConnection, load, own_namespace
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings
from dra_operator.operator import structured_logs
from dra_operator.operator.preflight import NotFit
from dra_operator.operator.service import Service
from dra_operator.operator.settings import LeadershipSettings, ProbeSettings, Settings


class Mode(StrEnum):
    ALLOCATE = "allocate"
    OBSERVE = "observe"


def run(
    mode: Annotated[Mode, typer.Option(help="observe writes nothing but reports.")] = Mode.ALLOCATE,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Default: $KUBECONFIG, the pod's service account, ~/.kube/config."),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig; default: its current one.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the Lease is; default: the pod's own, else dra-operator.")
    ] = None,
    probe_port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65535, help="Port of /healthz, /readyz and /metrics; 0: any free one."),
    ] = 8080,
    lease_name: Annotated[str, typer.Option(metavar="NAME", help="Name of the Lease.")] = "dra-operator",
    leader_election: Annotated[
        bool, typer.Option("--leader-election/--no-leader-election", help="Off only where nobody else runs.")
    ] = True,
    bridge: Annotated[
        bool, typer.Option("--bridge", help="Publish slices for labelled nodes that have a device plugin only.")
    ] = False,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the operator until SIGTERM or SIGINT. Logs go to stderr.

    Example: dra-operator run --mode observe --kubeconfig ~/.kube/config
    """
    try:
        structured_logs.configure(log_level)
    except ValueError as error:
        raise CommandFailed(str(error), USAGE) from None
    settings = Settings(
        mode=mode.value,
        bridge=bridge,
        engine=EngineSettings(mode=mode.value),
        leadership=LeadershipSettings(
            enabled=leader_election, lease_name=lease_name, namespace=namespace or own_namespace("dra-operator")
        ),
        probes=ProbeSettings(port=probe_port),
    )
    try:
        uvloop.run(_serve(settings, str(kubeconfig) if kubeconfig else None, context))
    except NotFit as error:
        raise CommandFailed("the operator cannot run on this cluster:\n" + "\n".join(error.problems), FAILED) from None
    except NoConnection as error:
        raise CommandFailed(str(error), FAILED) from None


async def _serve(settings: Settings, kubeconfig: str | None, context: str | None) -> None:
    connection = await load(kubeconfig, context, token_refresh=settings.client.token_refresh)
    try:
        await Service(connection, settings, lambda: Engine(settings.engine)).run()
    except Unreachable as error:
        raise CommandFailed(unreachable(error, connection.source), FAILED) from None
