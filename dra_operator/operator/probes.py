"""`/healthz`, `/readyz` and `/metrics` for kubelet and Prometheus. Plain HTTP, no secrets behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from dra_operator.operator.metrics import Metrics

TEXT = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds that answers under way get to finish on a stop.
GRACE = 1.0


class Probes:
    """A small HTTP server on the running event loop, between `start` and `stop`.

    `idle_for`: seconds since the allocation loop last turned. `missing`: kinds not listed yet; followers are ready as
    well, they only do not write.
    """

    def __init__(
        self, metrics: Metrics, *, idle_for: Callable[[], float], missing: Callable[[], Sequence[str]], stale: float
    ) -> None:
        self._metrics = metrics
        self._idle_for = idle_for
        self._missing = missing
        self._stale = stale
        self._runner: web.AppRunner | None = None

    async def start(self, port: int, host: str | None = None) -> int:
        """Listen on `port` (0: any free one) of all addresses, or of `host`. Returns the port. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_text)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=GRACE)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError:
            await self.stop()
            raise
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, request: web.Request) -> web.Response:
        idle = self._idle_for()
        if idle > self._stale:
            return web.Response(status=503, text=f"the allocation loop has not turned for {idle:.0f} s\n")
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._missing()
        if missing:
            return web.Response(status=503, text=f"not listed yet: {', '.join(missing)}\n")
        return web.Response(text="ok\n")

    async def _metrics_text(self, request: web.Request) -> web.Response:
        self._metrics.synced.set(not self._missing())
        return web.Response(body=self._metrics.render(), headers={"Content-Type": TEXT})
