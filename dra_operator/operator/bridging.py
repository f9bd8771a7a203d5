"""The bridge at work: hears of nodes and slices beside the loop, and writes the bridge's slices while this replica leads.

Off unless asked for (`--bridge`). What to publish is `dra_operator.bridge`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from dra_operator.bridge.reconciling import Write, is_ours, pool_of, wanted_writes
from dra_operator.cluster.kubernetes.client import Unreachable, Withdrawn
from dra_operator.cluster.rest import NODES, RESOURCE_SLICES, Request
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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._leads, self._sleep = client, leads, sleep
        self._nodes: dict[str, dict[str, Any]] = {}
        self._slices: dict[str, dict[str, Any]] = {}
        self._listed: set[str] = set()
        self._dirty: dict[str, None] = {}
        self._news = asyncio.Event()

    def hear(self, item: News) -> None:
        """What the watches tell, of any kind."""
        if item.kind not in (NODES.kind, RESOURCE_SLICES.kind):
            return
        known = self._nodes if item.kind == NODES.kind else self._slices
        match item:
            case Observed(type=type, key=key, item=body):
                self._touch(item.kind, known.get(key.name))
                if type == "DELETED":
                    known.pop(key.name, None)
                elif item.kind == NODES.kind or is_ours(body):
                    known[key.name] = body
                    self._touch(item.kind, body)
            case Replaced(keys=keys):
                names = {key.name for key in keys}
                for name in known.keys() - names:
                    self._touch(item.kind, known.pop(name))
                self._listed.add(item.kind)
                self._news.set()

    def _touch(self, kind: str, body: dict[str, Any] | None) -> None:
        if body is None:
            return
        self._dirty[body["metadata"]["name"] if kind == NODES.kind else pool_of(body)] = None
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
            published = [item for item in self._slices.values() if pool_of(item) == name]
            writes = wanted_writes(name, self._nodes.get(name), published)
            if await self._write(name, writes):
                self._dirty.pop(name, None)

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
            if write.action == "delete":
                self._slices.pop(write.name, None)
            else:
                self._slices[write.name] = response.body
        if writes:
            log.info("bridge: published", node=name, writes=len(writes))
        return True


def _request(write: Write) -> Request:
    match write.action:
        case "create":
            return Request("POST", RESOURCE_SLICES.path(), write.body)
        case "replace":
            return Request("PUT", RESOURCE_SLICES.path("", write.name), write.body)
        case "delete":
            return Request("DELETE", RESOURCE_SLICES.path("", write.name), write.body)
