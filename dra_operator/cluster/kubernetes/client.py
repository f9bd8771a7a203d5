"""Send `Request` values to a real API server and follow its watches.

One connection pool for the whole process. It knows HTTP, throttling and credentials; it knows no kinds and keeps no
objects. Not an ORM: bodies are plain JSON values.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Self

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter

from dra_operator.cluster.kubernetes.connection import Connection
from dra_operator.cluster.kubernetes.settings import ClientSettings
from dra_operator.cluster.rest import Request, Response

THROTTLED = frozenset({429, 503})


class Unreachable(Exception):
    """No answer came. A write may have happened all the same."""


class NotConnected(Unreachable):
    """Not even a connection came about: nothing was sent."""


class Withdrawn(Exception):
    """The request was not to be sent any more when its turn came. The API server has not acted on it."""


#: Called after every attempt with the request, the HTTP status (0: no answer) and the seconds it took.
Observer = Callable[[Request, int, float], None]


def _unobserved(request: Request, status: int, seconds: float) -> None:
    return None


def _always() -> bool:
    return True


class Client:
    """Use as an async context manager, or call `close`."""

    def __init__(
        self,
        connection: Connection,
        settings: ClientSettings | None = None,
        *,
        user_agent: str = "dra-operator",
        observer: Observer = _unobserved,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Raises NoConnection where the connection's certificates cannot be read."""
        self.connection = connection
        self.settings = settings or ClientSettings()
        self._observer = observer
        self._sleep = sleep
        self._room = asyncio.Semaphore(self.settings.concurrency)
        connection.tls()  # what cannot be read is said now, and not with the first request
        self._session = aiohttp.ClientSession(
            # No limit here: the semaphore bounds the requests, watches are few and must never wait for them.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=75, enable_cleanup_closed=True),
            # Uncompressed: packing 128 kB and more costs the API server more than the wire does.
            headers={"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            proxy=connection.proxy,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def send(
        self, request: Request, *, within: float | None = None, allowed: Callable[[], bool] = _always
    ) -> Response:
        """The server's answer, whatever its status. 429 and 503 are sent again after the pause the server asks for.

        An eviction is never repeated: its 429 is the answer of a disruption budget. `within`: seconds for one attempt. `allowed` is
        asked before every attempt, and once more when the body goes out, after whatever the connection had to wait for. Raises
        Unreachable, and Withdrawn where `allowed` said no.
        """
        data = None if request.body is None else orjson.dumps(request.body)
        repeatable = not request.path.endswith("/eviction")
        limits = aiohttp.ClientTimeout(
            total=within or self.settings.request_timeout, sock_connect=self.settings.connect_timeout
        )
        for attempt in range(1, self.settings.attempts + 1):
            async with self._room:
                response, retry_after = await self._attempt(request, data, limits, allowed)
            if response.status not in THROTTLED or not repeatable or attempt == self.settings.attempts:
                break
            pause = retry_after if retry_after is not None else self.settings.retry_pause * 2 ** (attempt - 1)
            # Jitter upwards only: whoever was throttled together must not come back together, nor early.
            await self._sleep(min(pause, self.settings.longest_pause) * random.uniform(1.0, 1.2))
        return response

    async def _attempt(
        self, request: Request, data: bytes | None, limits: aiohttp.ClientTimeout, allowed: Callable[[], bool]
    ) -> tuple[Response, float | None]:
        """One exchange; two after a 401, or where the server's certificate is not trusted: tokens and certificates are read again once.
        Answer and Retry-After seconds."""
        renewed = False
        while True:
            if not allowed():
                raise Withdrawn
            began = asyncio.get_running_loop().time()
            status = 0
            body = None if data is None else _Guarded(data, request.content_type, allowed)
            try:
                async with self._session.request(
                    request.method,
                    self.connection.server + request.path,
                    params=request.query or None,
                    data=body,
                    timeout=limits,
                    **await self._identity(renewed),
                ) as answer:
                    text = await answer.read()
                    status = answer.status
                    if status == 401 and not renewed:
                        renewed = True
                        continue
                    return Response(status, _json(text, status)), _retry_after(answer.headers)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if body is not None and body.withdrawn:
                    raise Withdrawn from None
                if isinstance(error, aiohttp.ClientSSLError) and not renewed:
                    renewed = True  # nothing has been sent
                    continue
                raise _unreachable(f"{request.method} {request.path}", error) from error
            finally:
                self._observer(request, status, asyncio.get_running_loop().time() - began)

    async def _identity(self, renew: bool) -> dict[str, Any]:
        """The arguments of a request that say who we are and whom we trust."""
        authorization = await self.connection.authorization(renew=renew)
        return {
            "headers": {"Authorization": authorization} if authorization else {},
            "ssl": self.connection.tls() or True,
            "server_hostname": self.connection.server_name,
        }

    async def watch(
        self, path: str, query: Mapping[str, str], *, silence: float
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The events of one watch, as many at a time as arrived together; ends when the server ends the stream.

        `silence`: seconds without a byte after which the stream counts as dead. Raises WatchRefused when the server
        answers with an error instead of a stream, Unreachable when the connection breaks.
        """
        request = Request("GET", path, query={**query, "watch": "true"})
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self.settings.connect_timeout, sock_read=silence)
        began = asyncio.get_running_loop().time()
        status = 0
        try:
            for renew in (False, True):
                try:
                    opened = await self._session.get(
                        self.connection.server + path,
                        params=request.query,
                        timeout=limits,
                        **await self._identity(renew),
                    )
                except aiohttp.ClientSSLError:
                    if renew:
                        raise
                    continue
                async with opened as answer:
                    status = answer.status
                    if status == 401 and not renew:
                        continue
                    if status != 200:
                        response = Response(status, _json(await answer.read(), status))
                        raise WatchRefused(response, _retry_after(answer.headers))
                    async for events in _events(answer.content):
                        yield events
                    return
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(f"WATCH {path}", error) from error
        finally:
            self._observer(request, status, asyncio.get_running_loop().time() - began)


class _Guarded(aiohttp.BytesPayload):
    """A request's body that does not go out unless it is still `allowed` to. Without its body the API server acts on no request."""

    def __init__(self, value: bytes, content_type: str, allowed: Callable[[], bool]) -> None:
        super().__init__(value, content_type=content_type)
        self._allowed = allowed
        self.withdrawn = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self.withdrawn = not self._allowed()
        if self.withdrawn:
            raise Withdrawn
        await super().write_with_length(writer, content_length)


class WatchRefused(Exception):
    """The server answered a watch with an error status. `retry_after`: seconds that it asks for, where it does."""

    def __init__(self, response: Response, retry_after: float | None) -> None:
        super().__init__(f"HTTP {response.status}: {response.message}")
        self.response = response
        self.retry_after = retry_after


def _unreachable(what: str, error: Exception) -> Unreachable:
    not_connected = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return (NotConnected if not_connected else Unreachable)(f"{what}: {error or type(error).__name__}")


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[list[dict[str, Any]]]:
    """JSON lines as they arrive. Own buffer: the reader's line limit is below the size of a ResourceSlice event."""
    rest = b""
    async for chunk in content.iter_any():
        lines = chunk.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        try:
            events = [orjson.loads(line) for line in lines if line]
        except orjson.JSONDecodeError as error:
            raise Unreachable(f"a line in a watch that is no JSON: {error}") from None
        if events:
            yield events


def _json(body: bytes, status: int) -> dict[str, Any]:
    """The answer's object; text that is no JSON object (a proxy's error page) becomes a `Status` with that message. Raises Unreachable
    where it comes as a success: then it is not the API server that speaks."""
    try:
        value = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        return value
    text = body[:500].decode(errors="replace").strip()
    if status < 400:
        raise Unreachable(f"HTTP {status} with an answer that is no object of the API: {text}")
    return {"kind": "Status", "code": status, "message": text}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
