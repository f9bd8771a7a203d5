"""Kopf: its handlers for claims, templates, classes and our own kinds hand to the feeds what our own watches have not told.

Only silent `on.event` handlers. Create, update, timer and daemon handlers would write annotations or finalizers to the
objects, built-in ones included, and `@kopf.index` costs quadratic start-up.

Kopf is supervised and started again inside the process. HTTP 410, an error inside a watch or a 401 end a Kopf operator;
ending the process for that would lose the Lease, the caches of all other kinds, and, when the API server restarts a few
times, minutes to the back-off of the Deployment's pods. Nothing is lost by the restart: our own watches go on.
`kopf.operator()` cancels every task of the event loop that began after it, ours too; so its root tasks are spawned and
ended here, and what they leave behind (the other watchers, when one of them ends with an error) is found by the context
in which it was created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextvars import Context, ContextVar
from typing import Any

import kopf
import structlog

from dra_operator.cluster.kubernetes.connection import Connection
from dra_operator.cluster.rest import Resource
from dra_operator.operator.kopf_storages import NoDiffBase, NoProgress
from dra_operator.operator.metrics import Metrics
from dra_operator.operator.settings import Settings
from dra_operator.operator.watches import Watches

log = structlog.get_logger(__name__)

#: Seconds a Kopf has to have run for its end to count as the first in a row.
CALM = 60.0

#: Seconds its tasks get to end.
STOP = 5.0


#: The tasks of the Kopf life in whose context a task is created; None: not Kopf's.
_life: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("kopf life", default=None)


def remember_tasks(
    loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None, **names: Any
) -> asyncio.Task[Any]:
    """A task factory: as the default one, but Kopf's tasks are noted with their life."""
    task = asyncio.Task(coroutine, loop=loop, context=context, **names)
    life = context.get(_life) if context is not None else _life.get()
    if life is not None:
        life.add(task)
        task.add_done_callback(life.discard)
    return task


class KopfFrame:
    """`run` until cancelled."""

    def __init__(
        self,
        connection: Connection,
        watches: Watches,
        settings: Settings,
        metrics: Metrics,
        *,
        take_signals: Callable[[], None],
    ) -> None:
        """`take_signals` installs our own signal handlers again: Kopf puts its own in their place when it starts."""
        self._connection = connection
        self._watches = watches
        self._settings = settings
        self._metrics = metrics
        self._take_signals = take_signals

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(remember_tasks)
        await self._watches.listed()
        pause = self._settings.kopf.restart_pause
        while True:
            began = loop.time()
            # A task of its own, so that only what it creates is in its context.
            error = await asyncio.create_task(self._once(), name="kopf life")
            if loop.time() - began > CALM:
                pause = self._settings.kopf.restart_pause
            self._metrics.kopf_restarts.inc()
            log.warning("kopf ended and is started again", reason=repr(error), retry_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._settings.kopf.longest_restart_pause)

    async def _once(self) -> BaseException | None:
        """One life of Kopf. What ended it."""
        life: set[asyncio.Task[Any]] = set()
        _life.set(life)
        tasks: Collection[asyncio.Task[Any]] = ()
        try:
            tasks = await kopf.spawn_tasks(
                registry=self.registry(), settings=kopf_settings(self._settings), clusterwide=True, standalone=True
            )
            self._take_signals()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            errors = (task.exception() for task in done if not task.cancelled())
            return next((error for error in errors if error is not None), None)
        finally:
            # Kopf's own order of stopping runs inside its root tasks: watchers end their workers, the session closes.
            await _end(task for task in life if task in tasks)
            await _end(life)

    def registry(self) -> kopf.OperatorRegistry:
        """Our handlers. A registry of our own: Kopf's default one is shared by all of a process."""
        registry = kopf.OperatorRegistry()

        @kopf.on.startup(registry=registry)
        async def started(**_: Any) -> None:
            log.info("kopf watches", kinds=[resource.kind for resource in self._watches.kopf_kinds])

        @kopf.on.cleanup(registry=registry)
        async def ended(**_: Any) -> None:
            log.debug("kopf cleaned up")

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await credentials(self._connection)

        for resource in self._watches.kopf_kinds:
            self._watch(resource, registry)
        return registry

    def _watch(self, resource: Resource, registry: kopf.OperatorRegistry) -> None:
        def is_first(event: Any, **_: Any) -> bool:
            return self._watches.kopf_is_first(resource, event["object"])

        @kopf.on.event(
            resource.group, resource.version, resource.plural, id=resource.plural, when=is_first, registry=registry
        )
        async def seen(event: Any, **_: Any) -> None:
            self._watches.kopf_event(resource, event["type"], event["object"])


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them, give them time, and take note of their errors, or the event loop complains."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending, timeout=STOP)
    for task in ending:
        if task.done() and not task.cancelled():
            task.exception()


async def credentials(connection: Connection) -> kopf.ConnectionInfo:
    """The same identity as that of our own client. Kopf asks again after a 401."""
    authorization = await connection.authorization(renew=True)
    scheme, _, token = (authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=connection.server,
        ca_path=connection.ca_path,
        insecure=not connection.verify,
        certificate_path=connection.certificate_path,
        private_key_path=connection.key_path,
        scheme=scheme or None,
        token=token or None,
        proxy_url=connection.proxy,
    )


def kopf_settings(settings: Settings) -> kopf.OperatorSettings:
    """Kopf writes nothing, watches only what is there at its start, and never kills the process."""
    tuned = kopf.OperatorSettings()
    tuned.posting.enabled = False
    tuned.peering.standalone = True
    # Watching CRDs would take one more right; a new kind of ours comes with a new version of this program.
    tuned.scanning.disabled = True
    # Kopf would send us SIGKILL ten minutes after its own end, which for us is a restart.
    tuned.process.ultimate_exiting_timeout = None
    tuned.persistence.diffbase_storage = NoDiffBase()
    tuned.persistence.progress_storage = NoProgress()
    tuned.watching.chunk_size = settings.watch.page
    tuned.watching.inactivity_timeout = settings.kopf.inactivity
    tuned.watching.connect_timeout = settings.client.connect_timeout
    tuned.queueing.idle_timeout = settings.kopf.worker_idle
    tuned.networking.request_timeout = settings.watch.list_timeout
    tuned.networking.connect_timeout = settings.client.connect_timeout
    return tuned
