"""As much of an API server as the operator talks to, serving a made-up cluster from memory.

Lists in pages, watches, leases, and the writes of the operator, each with a resourceVersion and an event. No admission, no
validation, no conflicts: the real one is in `bench/endtoend`; this one can hold what a machine for benchmarks cannot run.
It plays kube-scheduler (an ungated pod is bound at once) and, with `arrive` and `leave`, the users.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from bench.footprint.inventory import GATE, Inventory, Raw, claim_name, running
from dra_operator.cluster.rest import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCES, Resource

#: Seconds between bookmarks.
BOOKMARK = 30.0
Name = tuple[str, str]


class ApiServer:
    """`requests`: what was asked, by verb and kind. `first`: when (monotonic) each was asked first, `last` when last."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._items: dict[Resource, dict[Name, bytes]] = {resource: {} for resource in RESOURCES}
        self._watches: dict[Resource, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._revision = 0
        self._by_path = {resource.path(): resource for resource in RESOURCES}
        self.requests: Counter[str] = Counter()
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}
        for resource, item in inventory.objects():
            self._store(resource, item)

    def count(self, resource: Resource) -> int:
        return len(self._items[resource])

    async def start(self) -> str:
        """Serve on a free port; returns the URL."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return f"http://127.0.0.1:{port}"

    # -- the users

    def arrive(self, name: str, namespace: int) -> Name:
        """A pod with a claim appears; returns the pod's namespace and name."""
        pod, claim = self._inventory.arrival(name, namespace, None)
        self._changed(PODS, "ADDED", pod)
        self._changed(RESOURCE_CLAIMS, "ADDED", claim)
        return pod["metadata"]["namespace"], name

    def bound(self, pod: Name) -> bool:
        return bool(self._read(PODS, pod)["spec"].get("nodeName"))

    def leave(self, pod: Name) -> None:
        """The pod is deleted, and with it its claim and the claim's report."""
        claim = (pod[0], claim_name(pod[1]))
        self._delete(PODS, pod)
        self._delete(RESOURCE_CLAIMS, claim)
        for resource in RESOURCES:
            if resource.kind == "ClaimReport" and claim in self._items[resource]:
                self._delete(resource, claim)

    # -- the store

    def _store(self, resource: Resource, item: Raw) -> bytes:
        metadata = item["metadata"]
        self._revision = max(self._revision, int(metadata["resourceVersion"]))
        text = orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind, **item})
        self._items[resource][metadata.get("namespace", ""), metadata["name"]] = text
        return text

    def _read(self, resource: Resource, name: Name) -> Raw:
        found: Raw = orjson.loads(self._items[resource][name])
        return found

    def _changed(self, resource: Resource, type: str, item: Raw) -> bytes:
        text = self._store(resource, item)
        self._tell(resource, type, text)
        return text

    def _delete(self, resource: Resource, name: Name) -> None:
        item = self._inventory.stored(self._read(resource, name))
        text = self._store(resource, item)
        del self._items[resource][name]
        self._tell(resource, "DELETED", text)

    def _tell(self, resource: Resource, type: str, text: bytes) -> None:
        line = b'{"type":"%s","object":%s}\n' % (type.encode(), text)
        for queue in self._watches[resource]:
            queue.put_nowait(line)

    # -- requests

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        parts = request.path.strip("/").split("/")
        if parts[-1] == "version":
            return _json({"major": "1", "minor": "37", "gitVersion": "v1.37.2"})
        if parts[-1] == "selfsubjectaccessreviews":
            return _json({"status": {"allowed": True}}, 201)
        if (found := self._discovery(parts)) is not None:
            return _json(found)
        resource, name, subresource = self._route(parts)
        if resource is None:
            return _json({"kind": "Status", "code": 200})  # the admission policies, which it only looks for
        verb = request.method
        if verb == "GET" and not name[1]:
            verb = "WATCH" if request.query.get("watch") else "LIST"
        self._note(f"{verb} {resource.plural}{'/' + subresource if subresource else ''}")
        if verb == "WATCH":
            return await self._watch(request, resource)
        if verb == "LIST":
            return self._list(resource, request.query)
        return self._one(verb, resource, name, orjson.loads(body) if body else {})

    def _note(self, asked: str) -> None:
        self.requests[asked] += 1
        self.first.setdefault(asked, time.monotonic())
        self.last[asked] = time.monotonic()

    def _discovery(self, parts: list[str]) -> Raw | None:
        if parts == ["api"]:
            return {"versions": ["v1"]}
        groups = sorted({(item.group, item.version) for item in RESOURCES if item.group})
        if parts == ["apis"]:
            versions = {group: {"groupVersion": f"{group}/{version}", "version": version} for group, version in groups}
            return {
                "groups": [{"name": group, "versions": [v], "preferredVersion": v} for group, v in versions.items()]
            }
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2]) if len(parts) > 2 else ("", "")
        if len(parts) != (2 if parts[0] == "api" else 3):
            return None
        served = [item for item in RESOURCES if (item.group, item.version) == (group, version)]
        verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
        entry = {"singularName": "", "verbs": verbs}
        return {"resources": [entry | {"name": r.plural, "kind": r.kind, "namespaced": r.namespaced} for r in served]}

    def _route(self, parts: list[str]) -> tuple[Resource | None, Name, str]:
        prefix, rest = (parts[:2], parts[2:]) if parts[0] == "api" else (parts[:3], parts[3:])
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        resource = self._by_path.get("/" + "/".join([*prefix, rest[0]])) if rest else None
        return resource, (namespace, rest[1] if len(rest) > 1 else ""), rest[2] if len(rest) > 2 else ""

    def _list(self, resource: Resource, query: Mapping[str, str]) -> web.Response:
        # Insertion order stands in for etcd's order of keys; nothing is inserted while the operator lists.
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
        texts = list(self._items[resource].values())
        chosen = texts[start : start + limit] if limit else texts
        after = start + len(chosen)
        metadata = {"resourceVersion": str(self._revision)} | ({"continue": str(after)} if after < len(texts) else {})
        text = b'{"metadata":%s,"items":[%s]}' % (orjson.dumps(metadata), b",".join(chosen))
        return web.Response(body=text, content_type="application/json")

    async def _watch(self, request: web.Request, resource: Resource) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_type = "application/json"
        await answer.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches[resource].append(queue)
        try:
            while True:
                try:
                    async with asyncio.timeout(BOOKMARK):
                        line = await queue.get()
                except TimeoutError:
                    mark = {"kind": resource.kind, "metadata": {"resourceVersion": str(self._revision)}}
                    line = orjson.dumps({"type": "BOOKMARK", "object": mark}) + b"\n"
                await answer.write(line)
        except (ConnectionError, asyncio.CancelledError):
            return answer
        finally:
            self._watches[resource].remove(queue)

    def _one(self, verb: str, resource: Resource, name: Name, body: Raw) -> web.Response:
        if verb == "POST":
            name = (name[0], body["metadata"]["name"])
            if resource == EVENTS:
                return _json(body, 201)
        elif name not in self._items[resource]:
            return _json(
                {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"no {resource.kind} {name}"}, 404
            )
        if verb == "GET":
            return web.Response(body=self._items[resource][name], content_type="application/json")
        if verb == "PATCH":
            body = self._patched(resource, name, body)
        text = self._changed(resource, "ADDED" if verb == "POST" else "MODIFIED", self._inventory.stored(body))
        return web.Response(body=text, status=201 if verb == "POST" else 200, content_type="application/json")

    def _patched(self, resource: Resource, name: Name, patch: Raw) -> Raw:
        """Of a gated pod: its nomination, and what lets it go, whereupon kube-scheduler binds it at once."""
        item = self._read(resource, name)
        if "status" in patch:
            item["status"] |= patch["status"]
            return item
        if resource == PODS:
            gates = [gate for gate in item["spec"].pop("schedulingGates", ()) if gate["name"] != GATE]
            item["spec"] |= {"schedulingGates": gates} if gates else {}
            claim = self._read(RESOURCE_CLAIMS, (name[0], claim_name(name[1])))
            item["spec"]["nodeName"] = claim["status"]["allocation"]["devices"]["results"][0]["pool"]
            item["status"] |= running()
        return item


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
