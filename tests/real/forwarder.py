"""A way to the API server that counts the operator's writes and strikes at a chosen one.

Plain HTTP on a free port of this machine, TLS to the API server. Leases, Events and reports are passed on uncounted: they are no part of
an allocation.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import aiohttp
from aiohttp import web

WRITES = ("POST", "PUT", "PATCH", "DELETE")
UNCOUNTED = ("leases", "events", "claimreports", "deviceclassreports", "selfsubjectaccessreviews")
HOP_BY_HOP = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")


class Forwarder:
    """Runs in a thread of its own inside a `with` block.

    `writes` are those to objects of one namespace since the last `arm`, `refused` those of them that conflicted with
    somebody else's.
    """

    def __init__(self, server: str, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._strike: Callable[[], None] | None = None
        self._number = 0
        self._when: Literal["before", "after"] = "before"
        self.port = 0
        self.writes: list[str] = []
        self.refused: list[str] = []
        self.struck = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        self._loop.close()

    def arm(
        self, number: int = 0, when: Literal["before", "after"] = "before", strike: Callable[[], None] | None = None
    ) -> None:
        """Count anew. `strike` is called at write `number` (from 1): `before` it reaches the API server, or `after` the
        API server's answer; the answer is not passed on."""
        self.writes, self.refused, self.struck = [], [], ""
        self._number, self._when, self._strike = number, when, strike

    def kubeconfig(self, original: Path) -> Path:
        """A kubeconfig beside `original` that leads here, with the same identity."""
        config = json.loads(original.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path = original.with_suffix(".forwarded")
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    async def _serve(self) -> None:
        self._done = asyncio.Event()
        # The test checks no certificates; it is the same machine.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            application = web.Application(client_max_size=1 << 26)
            application.router.add_route("*", "/{path:.*}", self._forward)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._done.wait()
            await runner.cleanup()
        # Watches that were passed on when their reader was killed still wait for the API server.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=10)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        counted = self._counts(request)
        if counted:
            self.writes.append(f"{request.method} {request.path}")
        struck = counted and self._strike is not None and not self.struck and len(self.writes) == self._number
        if struck and self._when == "before":
            await self._hit()
            raise ConnectionResetError
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = self._server + request.raw_path
        async with self._session.request(
            request.method, url, headers=headers, data=await request.read() or None
        ) as upstream:
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP}
            if counted and upstream.status == 409:
                self.refused.append(f"{request.method} {request.path}")
            if struck:
                await upstream.read()
                await self._hit()
                raise ConnectionResetError
            answer = web.StreamResponse(status=upstream.status, headers=kept)
            await answer.prepare(request)
            async for chunk in upstream.content.iter_any():
                await answer.write(chunk)
            await answer.write_eof()
            return answer

    def _counts(self, request: web.Request) -> bool:
        parts = request.path.strip("/").split("/")
        here = f"/namespaces/{self._namespace}/" in request.path
        return here and request.method in WRITES and not any(part in UNCOUNTED for part in parts)

    async def _hit(self) -> None:
        assert self._strike is not None
        await asyncio.to_thread(self._strike)
        self.struck = self.writes[self._number - 1]
