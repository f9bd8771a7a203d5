"""The bridge at work: hears of nodes and slices beside the loop, and writes the bridge's slices while this replica leads; what of a node it
leaves out it tells in an Event.

Off unless asked for (`--bridge`). What to publish is `dra_operator.bridge`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from dra_operator.bridge.publishing import left_out
from dra_operator.bridge.reconciling import Write, is_ours, pool_of, wanted_writes
from dra_operator.cluster.kubernetes.client import Unreachable, Withdrawn
from dra_operator.cluster.requests import event
from dra_operator.cluster.rest import EVENTS, NODES, RESOURCE_SLICES, Request
from dra_operator.engine.decisions import RecordEvent
from dra_operator.operator.feed import News, Observed, Replaced
from dra_operator.operator.writer import Sender

log = structlog.get_logger(__name__)

#: Seconds before a write that failed is looked at again.
RETRY = 2.0


class Bridging:
    """Put `hear` before the loop's `post`; `run` until cancelled."""

    def __init__(
        self,
        client: Sender,
        *,
        leads: Callable[[], bool],
        instance: str,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`instance` (this replica) and `clock` only go into Events."""
        self._client, self._leads, self._instance, self._clock, self._sleep = client, leads, instance, clock, sleep
        self._nodes: dict[str, dict[str, Any]] = {}
        self._slices: dict[str, dict[str, Any]] = {}
        #: Of each pool the names of its slices, so that a node is looked at without looking at all slices.
        self._of_pool: dict[str, set[str]] = {}
        #: What was last told of each node.
        self._told: dict[str, str] = {}
        self._listed: set[str] = set()
        self._dirty: dict[str, None] = {}
        self._news = asyncio.Event()

    def hear(self, item: News) -> None:
        """What the watches tell, of any kind."""
        if item.kind not in (NODES.kind, RESOURCE_SLICES.kind):
            return
        match item:
            case Observed(type=type, key=key, item=body):
                self._know(item.kind, key.name, None if type == "DELETED" else body)
            case Replaced(keys=keys):
                known = self._nodes if item.kind == NODES.kind else self._slices
                for name in known.keys() - {key.name for key in keys}:
                    self._know(item.kind, name, None)
                self._listed.add(item.kind)
                self._news.set()

    def _know(self, kind: str, name: str, body: dict[str, Any] | None) -> None:
        """What an object is like now; None: it is gone. Its node is looked at again."""
        if kind == NODES.kind:
            if body is None:
                self._nodes.pop(name, None)
                self._told.pop(name, None)
            else:
                self._nodes[name] = body
            self._touch(name)
            return
        before = self._slices.get(name)
        self._keep(name, body)
        for item in (before, self._slices.get(name)):
            if item is not None:
                self._touch(pool_of(item))

    def _keep(self, name: str, body: dict[str, Any] | None) -> None:
        """A slice of ours as it is now; None: it is gone."""
        before = self._slices.pop(name, None)
        if before is not None:
            names = self._of_pool[pool_of(before)]
            names.discard(name)
            if not names:
                del self._of_pool[pool_of(before)]
        if body is not None and is_ours(body):
            self._slices[name] = body
            self._of_pool.setdefault(pool_of(body), set()).add(name)

    def _touch(self, node: str) -> None:
        self._dirty[node] = None
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._listed >= {NODES.kind, RESOURCE_SLICES.kind}:
                await self.work()
            if self._dirty:
                # Another replica leads, or a write failed: our own watch may have told the reason by then.
                await self._sleep(RETRY)
                self._news.set()

    async def work(self) -> None:
        """Bring every node that has changed in step. Those whose writes fail stay to be looked at."""
        for name in list(self._dirty):
            if not self._leads():
                return
            node = self._nodes.get(name)
            published = [self._slices[each] for each in self._of_pool.get(name, ())]
            # Before the writes: what is heard while they are under way has to be looked at again.
            del self._dirty[name]
            if not await self._write(name, wanted_writes(name, node, published)):
                self._dirty[name] = None
            if node is not None:
                await self._tell(node)

    async def _write(self, name: str, writes: list[Write]) -> bool:
        for write in writes:
            try:
                response = await self._client.send(_request(write), allowed=self._leads)
            except Withdrawn:
                return False
            except Unreachable as failure:
                log.warning("bridge: no answer", node=name, message=str(failure))
                return False
            gone = write.action == "delete" and response.status == 404
            if not response.ok and not gone:
                log.warning(
                    "bridge: slice refused",
                    node=name,
                    action=write.action,
                    status=response.status,
                    message=response.message,
                )
                return False
            # Known at once: the next look must not write it a second time.
            self._keep(write.name, None if write.action == "delete" else response.body)
        if writes:
            log.info("bridge: published", node=name, writes=len(writes))
        return True

    async def _tell(self, node: dict[str, Any]) -> None:
        """That devices of a node are not published: once, and again where that changes. An Event that is not written is not missed: the
        log has it as well."""
        name, said = node["metadata"]["name"], left_out(node)
        if said == self._told.get(name, ""):
            return
        self._told[name] = said
        if not said:
            return
        log.warning("bridge: devices left out", node=name, message=said)
        regarding = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": name, "uid": node["metadata"]["uid"]}
        told = RecordEvent(0, regarding, "Warning", "DevicesLeftOut", "Publish", said)
        body = event(told, self._clock(), self._instance)
        with contextlib.suppress(Withdrawn, Unreachable):
            await self._client.send(Request("POST", EVENTS.path("default"), body), allowed=self._leads)


def _request(write: Write) -> Request:
    match write.action:
        case "create":
            return Request("POST", RESOURCE_SLICES.path(), write.body)
        case "replace":
            return Request("PUT", RESOURCE_SLICES.path("", write.name), write.body)
        case "delete":
            return Request("DELETE", RESOURCE_SLICES.path("", write.name), write.body)
