"""The objects of a running cluster, for commands that look at one. Only GETs are made; `run_in_cluster` is for those that write.

Reads lists, follows no watch, decides nothing. Pods, workloads and nodes lose what no command reads (images, environments…).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dra_operator.cli.failures import USAGE, CommandFailed
from dra_operator.cli.output import note
from dra_operator.cluster.rest import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENGINE_KINDS,
    JOBS,
    NETWORK_DEVICE_CLASSES,
    OPERATOR_GROUP,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)

Object = dict[str, Any]
#: Objects kind by kind.
Listed = list[tuple[Resource, list[Object]]]
#: Takes the objects of a page as it comes.
Take = Callable[[Resource, list[Object]], None]

#: What a simulation starts from: what the engine sees, and what makes its pods.
SNAPSHOT_KINDS: tuple[Resource, ...] = (
    *ENGINE_KINDS, NETWORK_DEVICE_CLASSES,
    CRON_JOBS, JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS,
)  # fmt: skip

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, the pod's service account, ~/.kube/config."
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current one.")
]


def exclude_files(files: Sequence[str] | None, kubeconfig: Path | None, context: str | None) -> None:
    """Raises CommandFailed where both manifests and a cluster are given."""
    if files and (kubeconfig is not None or context is not None):
        raise CommandFailed("-f and a cluster (--kubeconfig, --context) exclude each other", USAGE)


def _nothing() -> None:
    return None


def read_cluster(
    kubeconfig: Path | None,
    context: str | None,
    resources: Sequence[Resource] = ENGINE_KINDS,
    *,
    meanwhile: Callable[[], None] = _nothing,
) -> Listed:
    """All objects of these kinds, the kinds side by side. `meanwhile` runs in a thread while the server works. Raises CommandFailed."""
    found: dict[Resource, list[Object]] = {resource: [] for resource in resources}
    stream_cluster(
        kubeconfig, context, lambda resource, items: found[resource].extend(items), resources, meanwhile=meanwhile
    )
    return list(found.items())


def stream_cluster(
    kubeconfig: Path | None,
    context: str | None,
    take: Take,
    resources: Sequence[Resource] = SNAPSHOT_KINDS,
    *,
    meanwhile: Callable[[], None] = _nothing,
) -> None:
    """As `read_cluster`, a page at a time; pages of different kinds come in any order. Raises CommandFailed."""
    absent: list[str] = []
    forbidden: dict[Resource, str] = {}

    async def read() -> None:
        async with _connected(kubeconfig, context) as client:
            lists = asyncio.gather(*(_list(client, resource, take, forbidden) for resource in resources))
            served, _ = await asyncio.gather(lists, asyncio.to_thread(meanwhile))
        absent.extend(resource.kind for resource, there in zip(resources, served, strict=True) if not there)

    import uvloop

    uvloop.run(read())
    if forbidden:
        # All of them at once: rights are given together.
        names = ", ".join(sorted(f"{resource.plural} ({resource.group or 'core'})" for resource in forbidden))
        raise CommandFailed(f"{next(iter(forbidden.values()))}; not allowed to list: {names}; {_REPAIRS[403]}")
    if absent:
        note(f"the cluster does not serve {', '.join(absent)}: is the operator installed?")


async def _list(client: Any, resource: Resource, take: Take, forbidden: dict[Resource, str]) -> bool:
    """False where the kind is the operator's own and not served. What the user may not read is noted in `forbidden`."""
    from dra_operator.cluster.kubernetes.lean import lean_metadata, lean_pod
    from dra_operator.cluster.kubernetes.listing import ListFailed, key_of, pages
    from dra_operator.cluster.kubernetes.settings import WatchSettings

    seen: set[Any] = set()
    try:
        async for page in pages(client, resource, WatchSettings()):
            # A list that had to start again tells objects twice; the first telling was true then.
            items = [item for item in page.items if key_of(item) not in seen]
            seen.update(map(key_of, items))
            for item in items:
                (item["metadata"].get("annotations") or {}).pop(
                    "kubectl.kubernetes.io/last-applied-configuration", None
                )
                for template in _pod_templates(item):
                    lean_pod(template)
                    _stand_in_images(template)
                lean_metadata(item)
            take(resource, items)
    except ListFailed as failure:
        if failure.response.status == 404 and resource.group == OPERATOR_GROUP:
            return False
        if failure.response.status != 403:
            raise
        forbidden[resource] = str(failure)
    return True


def _stand_in_images(pod: Object) -> None:
    """Images are left out as they do not matter, but a pod has to have them."""
    for name in ("containers", "initContainers"):
        for container in (pod.get("spec") or {}).get(name) or ():
            container["image"] = "left-out"


def _pod_templates(item: Object) -> list[Object]:
    """A pod itself, or the pod templates of a workload: their containers carry what is nobody's business."""
    spec = item.get("spec") or {}
    if item["kind"] == "Pod":
        return [item]
    if item["kind"] == "ResourceClaimTemplate":
        return []
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [template for template in (spec.get("template"), job.get("template")) if isinstance(template, dict)]


def run_in_cluster(
    kubeconfig: Path | None, context: str | None, work: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    """Give `work` a connected client, for the commands that write. Raises CommandFailed."""

    async def connected() -> None:
        async with _connected(kubeconfig, context) as client:
            await work(client)

    import uvloop

    uvloop.run(connected())


@asynccontextmanager
async def _connected(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Any]:
    """A client of the cluster that is meant. Raises CommandFailed for whatever keeps it from being asked."""
    from dra_operator.cluster.kubernetes.client import Client, Unreachable
    from dra_operator.cluster.kubernetes.connection import NoConnection, load
    from dra_operator.cluster.kubernetes.listing import ListFailed

    source = ""
    try:
        connection = await load(str(kubeconfig) if kubeconfig else None, context)
        source = connection.source
        async with Client(connection, user_agent="kubectl-dra") as client:
            yield client
    except NoConnection as failure:
        raise CommandFailed(str(failure)) from None
    except Unreachable as failure:
        raise CommandFailed(unreachable(failure, source)) from None
    except ListFailed as failure:
        repair = _REPAIRS.get(failure.response.status, "")
        raise CommandFailed(f"{failure}{repair and '; '}{repair.format(source=source)}") from None


def unreachable(failure: Exception, source: str) -> str:
    """What a server that does not answer is told of, and what there is to do. `source`: where its address comes from."""
    return f"{failure}; see that it runs and that {source} means the right one (--kubeconfig, --context)"


#: By status, what there is to do about a list that is refused.
_REPAIRS = {
    401: "{source} does not say (any more) who you are: log in anew",
    403: "the ClusterRole dra-operator-inspect has the rights to read what is needed; or use -f with a `snapshot` of somebody who has them",
    404: "Kubernetes 1.37 serves it",
}
