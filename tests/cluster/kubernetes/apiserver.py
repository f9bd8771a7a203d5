"""A small API server for tests of lists, watches and leases: enough HTTP to be wrong in all the ways a real one can be.

Own history, chunked lists, bookmarks, compaction (410), errors on demand, restarts. No validation, no admission: what
the API does to objects is tested on the real control plane.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from dra_operator.cluster.kubernetes.connection import Connection
from dra_operator.cluster.rest import RESOURCES, Resource

#: Each a self-signed certificate for 127.0.0.1 with its key, for these tests and nothing else.
CERTIFICATES = Path(__file__).parent / "certificates"


class Configuration:
    """What a Connection reads of kubernetes-asyncio's configuration."""

    username = ""
    cert_file = key_file = None

    def __init__(self, token: str = "t0", authority: Path | None = None) -> None:
        self.api_key = {"BearerToken": f"Bearer {token}"}
        self.ssl_ca_cert = str(authority) if authority else None


@dataclass
class Kind:
    resource: Resource
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)


class FakeApiServer:
    """`await start()`, then talk to `url`. Everything served is in `kinds`, by plural."""

    def __init__(self) -> None:
        self.kinds = {item.plural: Kind(item) for item in RESOURCES}
        self.revision = 100
        self.compacted = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.failures: dict[tuple[str, str], deque[web.Response]] = {}
        self.token: str | None = None
        self.end_watches_at_once = False
        #: Watches with such a query are told nothing.
        self.mute: Callable[[dict[str, str]], bool] = lambda query: False
        #: Requests for these paths are never answered.
        self.hangs: set[str] = set()
        self.expire_continues = False
        self.expired_continues: dict[str, Callable[[], None]] = {}
        self.denied_rights: set[tuple[str, str]] = set()
        self._streams: list[tuple[str, dict[str, str], asyncio.Queue[bytes | None]]] = []
        #: Of `CERTIFICATES`: the certificate and key to serve https with, from the next `start` on.
        self.certificate: str | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    # -- life

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = None
        if self.certificate:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(CERTIFICATES / self.certificate)
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True, ssl_context=tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.end_watches()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self._port}"

    def connection(self, token: str = "t0", authority: Path | None = None) -> Connection:
        """`authority`: the file with the certificates that the client trusts."""
        configuration = Configuration(token, authority)

        async def read() -> Configuration:
            return configuration

        return Connection(
            self.url, configuration.ssl_ca_cert, None, None, True, None, None, "test", configuration, read
        )

    # -- the store, from the inside

    def put(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
        """Create or replace an object; its watches hear of it."""
        kind = self.kinds[resource.plural]
        old = kind.objects.get((namespace, name))
        self.revision += 1
        metadata = {"name": name, "uid": old["metadata"]["uid"] if old else f"u{self.revision}"}
        if namespace:
            metadata["namespace"] = namespace
        extra = fields.pop("metadata", {})
        item = {
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {**metadata, **extra, "resourceVersion": str(self.revision)}, **fields,
        }  # fmt: skip
        kind.objects[(namespace, name)] = item
        self._record(kind, "MODIFIED" if old else "ADDED", item)
        return copy.deepcopy(item)

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        kind = self.kinds[resource.plural]
        self.revision += 1
        item = copy.deepcopy(kind.objects.pop((namespace, name)))
        item["metadata"]["resourceVersion"] = str(self.revision)
        self._record(kind, "DELETED", item)

    def quietly(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete without telling any watch, as when it happens while nobody watches."""
        self.revision += 1
        del self.kinds[resource.plural].objects[(namespace, name)]

    def bookmark(self, resource: Resource) -> None:
        body = {"kind": resource.kind, "metadata": {"resourceVersion": str(self.revision)}}
        self._send(resource.plural, {"type": "BOOKMARK", "object": body})

    def error(self, resource: Resource, code: int, reason: str) -> None:
        status = {"kind": "Status", "code": code, "reason": reason, "message": reason}
        self._send(resource.plural, {"type": "ERROR", "object": status})
        self.end_watches()

    def compact(self) -> None:
        """Forget all history: watches from before now are answered with 410."""
        self.compacted = self.revision
        for kind in self.kinds.values():
            kind.history.clear()

    def end_watches(self) -> None:
        for _, _, stream in self._streams:
            stream.put_nowait(None)

    def fail(
        self, method: str, path: str, status: int, *, times: int = 1, headers: dict[str, str] | None = None
    ) -> None:
        """Answer the next `times` requests so."""
        body = {"kind": "Status", "code": status, "reason": f"R{status}", "message": f"made to fail with {status}"}
        queue = self.failures.setdefault((method, path), deque())
        queue.extend(web.json_response(body, status=status, headers=headers) for _ in range(times))

    def answer(self, method: str, path: str, text: str) -> None:
        """Answer the next request so, with 200."""
        self.failures.setdefault((method, path), deque()).append(web.Response(text=text))

    def say(self, resource: Resource, line: str) -> None:
        """Put a line of any kind into the watches of a resource."""
        for watched, _, stream in self._streams:
            if watched == resource.plural:
                stream.put_nowait(line.encode() + b"\n")

    def watching(self, resource: Resource) -> int:
        return sum(plural == resource.plural for plural, _, _ in self._streams)

    def _record(self, kind: Kind, type: str, item: dict[str, Any]) -> None:
        kind.history.append((self.revision, type, copy.deepcopy(item)))
        self._send(kind.resource.plural, {"type": type, "object": item})

    def _send(self, plural: str, event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        for watched, query, stream in self._streams:
            if watched == plural and not self.mute(query):
                stream.put_nowait(line)

    # -- HTTP

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests[(request.method, path)] += 1
        self.log.append((request.method, path, dict(request.query)))
        if path in self.hangs:
            await asyncio.Event().wait()
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self._status(401, "Unauthorized")
        queue = self.failures.get((request.method, path))
        if queue:
            return queue.popleft()
        if path == "/version":
            return web.json_response({"gitVersion": "v1.37.2"})
        if path.endswith("/selfsubjectaccessreviews"):
            return self._review(await request.json())
        parts = path.strip("/").split("/")
        discovered = self._discovery(parts)
        if discovered is not None:
            return web.json_response(discovered)
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if not rest or rest[0] not in self.kinds:
            return self._status(404, "NotFound")
        kind = self.kinds[rest[0]]
        if len(rest) == 1:
            return await self._collection(request, kind, namespace)
        return await self._object(request, kind, (namespace, rest[1]), rest[2:])

    async def _collection(self, request: web.Request, kind: Kind, namespace: str) -> web.StreamResponse:
        if request.method == "POST":
            body = await request.json()
            name = body["metadata"]["name"]
            if (namespace, name) in kind.objects:
                return self._status(409, "AlreadyExists")
            fields = {key: value for key, value in body.items() if key not in ("metadata", "apiVersion", "kind")}
            return web.json_response(self.put(kind.resource, name, namespace, **fields), status=201)
        if request.query.get("watch"):
            return await self._watch(request, kind)
        limit, token = int(request.query.get("limit", 0)), request.query.get("continue", "")
        if token and self.expire_continues:
            return self._status(410, "Expired")
        if token in self.expired_continues:
            self.expired_continues.pop(token)()
            return self._status(410, "Expired")
        # The continuation holds the revision and the rest of the list as it was, as etcd does.
        start, revision = (int(part) for part in token.split(":")) if token else (0, self.revision)
        items = [item for _, item in sorted(kind.objects.items())]
        chunk = items[start : start + limit] if limit else items
        metadata = {"resourceVersion": str(revision)}
        if limit and start + limit < len(items):
            metadata["continue"] = f"{start + limit}:{revision}"
        bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in chunk]
        return web.json_response({"kind": f"{kind.resource.kind}List", "metadata": metadata, "items": bare})

    async def _watch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return self._status(410, "Expired")
        response = web.StreamResponse()
        await response.prepare(request)
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        for revision, change, item in kind.history:
            if revision > since:
                stream.put_nowait(json.dumps({"type": change, "object": item}).encode() + b"\n")
        if self.end_watches_at_once:
            stream.put_nowait(None)
        entry = (kind.resource.plural, dict(request.query), stream)
        self._streams.append(entry)
        try:
            while (line := await stream.get()) is not None:
                # In two pieces: lines do not come whole from a network.
                await response.write(line[:7])
                await response.write(line[7:])
        except ConnectionError:
            pass
        finally:
            self._streams.remove(entry)
        return response

    async def _object(
        self, request: web.Request, kind: Kind, key: tuple[str, str], rest: list[str]
    ) -> web.StreamResponse:
        if request.method == "POST":
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        item = kind.objects.get(key)
        if item is None:
            return self._status(404, "NotFound")
        namespace, name = key
        match request.method:
            case "GET":
                return web.json_response(item)
            case "DELETE":
                self.delete(kind.resource, name, namespace)
                return web.json_response({"kind": "Status", "status": "Success"})
            case "PUT":
                body = await request.json()
                if body["metadata"].get("resourceVersion") not in (None, item["metadata"]["resourceVersion"]):
                    return self._status(409, "Conflict")
            case _:
                body = {**copy.deepcopy(item), **await request.json()}
        fields = {key: value for key, value in body.items() if key not in ("metadata", "apiVersion", "kind")}
        return web.json_response(self.put(kind.resource, name, namespace, **fields))

    def _review(self, body: dict[str, Any]) -> web.Response:
        asked = body["spec"]["resourceAttributes"]
        plural = asked["resource"] + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        allowed = (asked["verb"], plural) not in self.denied_rights
        return web.json_response({**body, "status": {"allowed": allowed}}, status=201)

    def _discovery(self, parts: list[str]) -> dict[str, Any] | None:
        groups = sorted({kind.resource.group for kind in self.kinds.values() if kind.resource.group})
        if parts == ["api"]:
            return {"versions": ["v1"]}
        if parts == ["apis"]:
            return {"groups": [self._group(group) for group in groups]}
        if len(parts) == (2 if parts[0] == "api" else 3):
            group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
            found = [
                kind.resource
                for kind in self.kinds.values()
                if (kind.resource.group, kind.resource.version) == (group, version)
            ]
            if found or group == "apiextensions.k8s.io":
                return {"resources": [self._described(resource) for resource in found]}
        return None

    def _group(self, group: str) -> dict[str, Any]:
        versions = sorted({kind.resource.version for kind in self.kinds.values() if kind.resource.group == group})
        described = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": described, "preferredVersion": described[-1]}

    def _described(self, resource: Resource) -> dict[str, Any]:
        return {
            "name": resource.plural, "singularName": resource.kind.lower(), "kind": resource.kind,
            "namespaced": resource.namespaced, "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }  # fmt: skip

    def _status(self, code: int, reason: str) -> web.Response:
        return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)


async def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait for real sockets to do their part; fails with the condition's source of truth when they do not."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "did not happen in time"
        await asyncio.sleep(0.005)
