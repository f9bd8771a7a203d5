"""The simulated kubelet's access to the API: list and watch for ever, and a few writes that insist.

Keeps no objects: it tells of each one that is new or changed, and after every gap of those that went meanwhile.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import orjson

from devcluster.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, read_kubeconfig

_PAGE: Final = 500
_RECONNECT_SECONDS: Final = 0.2
_ATTEMPTS: Final = 60
_log: Final = logging.getLogger("kubelet")

Json = dict[str, Any]
Handler = Callable[[Json, bool], None]


class Gone(Exception):
    """The object to write to is not there any more (or is another of that name)."""


class Refused(Exception):
    """The API server refuses a write, and would again."""


class _Expired(Exception):
    """The resourceVersion is too old to watch from."""


class Api:
    """One connection pool to one API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def connect(cls, kubeconfig: Path) -> AsyncIterator[Self]:
        """Open a pool with the rights of a kubeconfig."""
        server, token, authority = read_kubeconfig(kubeconfig)
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority.decode()), limit=0)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with aiohttp.ClientSession(server, connector=connector, headers=headers, timeout=timeout) as session:
            yield cls(session)

    async def follow(self, path: str, handle: Handler, **query: str) -> None:
        """Call `handle(object, deleted)` for all objects at `path` and all their changes, until cancelled.

        Connection losses and expired versions are bridged; a deletion that was missed is told on the next list (with
        the object as last seen reduced to its metadata).
        """
        known: dict[str, Json] = {}  # uid → object reduced to what a deletion needs
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(path, handle, query, known)
                version = await self._watch(path, handle, query, known, version)
            except _Expired:
                version = ""
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                _log.info("watch of %s: %s; trying again", path, error or type(error).__name__)
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def patch(self, path: str, body: Json) -> None:
        """Patch a status. Raises `Gone`, `Refused`."""
        kind = MERGE_PATCH if path.startswith("/api/v1/nodes/") else STRATEGIC_MERGE_PATCH
        await self._write("PATCH", path, body, kind)

    async def delete(self, path: str, uid: str) -> None:
        """Delete the object with this UID at once. Raises `Gone`, `Refused`."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._write("DELETE", path, body, "application/json")

    async def _write(self, method: str, path: str, body: Json, content_type: str) -> None:
        payload = orjson.dumps(body)
        said = ""
        for _ in range(_ATTEMPTS):
            try:
                async with self._session.request(
                    method, path, data=payload, headers={"Content-Type": content_type}
                ) as answer:
                    raw = await answer.read()
                    if answer.status < 300:
                        return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                said = f"{error or type(error).__name__}"
            else:
                said = f"{answer.status} {raw.decode(errors='replace')[:500]}"
                if answer.status == 404 or (answer.status == 409 and "UID" in said):
                    raise Gone(path)
                if answer.status < 500 and answer.status not in (409, 429):
                    break
            await asyncio.sleep(_RECONNECT_SECONDS * 2)
        raise Refused(f"{method} {path}: {said}")

    async def _list(self, path: str, handle: Handler, query: dict[str, str], known: dict[str, Json]) -> str:
        items: list[Json] = []
        more: dict[str, str] = {}
        while True:
            async with self._session.get(path, params={**query, "limit": str(_PAGE), **more}) as answer:
                raw = await answer.read()
                _check(answer.status, raw, path)
            page = orjson.loads(raw)
            items += page["items"]
            more = {"continue": page["metadata"].get("continue", "")}
            if not more["continue"]:
                break
        # Deletions first: the name may be taken again.
        for uid in known.keys() - {item["metadata"]["uid"] for item in items}:
            _tell(handle, known.pop(uid), True)
        for item in items:
            known[item["metadata"]["uid"]] = _reduced(item)
            _tell(handle, item, False)
        version: str = page["metadata"]["resourceVersion"]
        return version

    async def _watch(
        self, path: str, handle: Handler, query: dict[str, str], known: dict[str, Json], version: str
    ) -> str:
        """Follow one watch to its end; gives the version to go on from."""
        params = {**query, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        async with self._session.get(path, params=params) as answer:
            if answer.status != 200:
                _check(answer.status, await answer.read(), path)
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        version = _deliver(orjson.loads(line), handle, known)
            except aiohttp.ClientError as error:
                _log.info("watch of %s ended: %s", path, error)
        await asyncio.sleep(0.05)  # a fresh API server may end its first watches at once
        return version


def _deliver(event: Json, handle: Handler, known: dict[str, Json]) -> str:
    """Tell of one watch event; gives its resourceVersion."""
    item = event["object"]
    if event["type"] == "ERROR":
        raise _Expired(item.get("message", ""))
    if event["type"] != "BOOKMARK":
        uid = item["metadata"]["uid"]
        deleted = event["type"] == "DELETED"
        if deleted:
            known.pop(uid, None)
        else:
            known[uid] = _reduced(item)
        _tell(handle, item, deleted)
    at: str = item["metadata"]["resourceVersion"]
    return at


def _tell(handle: Handler, item: Json, deleted: bool) -> None:
    try:
        handle(item, deleted)
    except Exception:  # an object that we do not understand must not stop the others
        _log.exception("cannot make sense of %s", orjson.dumps(item).decode())


def _check(status: int, raw: bytes, path: str) -> None:
    if status == 410:
        raise _Expired(path)
    if status >= 400:
        raise aiohttp.ClientError(f"{status} {raw.decode(errors='replace')[:300]}")


def _reduced(item: Json) -> Json:
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid") if key in item["metadata"]}
    return {"metadata": metadata}
