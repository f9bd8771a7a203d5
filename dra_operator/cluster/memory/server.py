"""The API server: takes a Request from a User, gives a Response, and logs what changed.

The order of a write is that of the real server: find the object, apply the patch, defaults, admission, validation, optimistic
lock, store. Kinds' own rules are in `kinds`; binding, eviction and finalizing in `subresources`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from dra_operator.api.meta import Key, format_time
from dra_operator.bridge.limits import add_limits
from dra_operator.cluster import rest
from dra_operator.cluster.memory import admission, defaults, deletion, patches, refusals, subresources
from dra_operator.cluster.memory.endpoints import keep_fixed
from dra_operator.cluster.memory.identity import ADMIN, User
from dra_operator.cluster.memory.kinds import RULES, content
from dra_operator.cluster.memory.preconditions import check_identity
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.registrar import Registrar
from dra_operator.cluster.memory.routes import Route, field_selector, label_selector, route
from dra_operator.cluster.memory.store import Change, Store
from dra_operator.cluster.memory.validation import claims, metadata
from dra_operator.cluster.memory.values import Object, clone, without_empties, without_nulls
from dra_operator.cluster.rest import PODS, Request, Resource, Response

_DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class Served:
    """One request as it was answered, for audits: `before` and `after` are the object's states around it (None: not there)."""

    at: float
    request: Request
    user: User
    response: Response
    before: Object | None
    after: Object | None


class MemoryServer:
    """`clock` gives seconds since the epoch. Names and uids come from `seed`. See `handle` and `watch_since`."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        seed: int = 0,
        policies: admission.Policies | None = None,
    ) -> None:
        self.clock = clock
        self.policies = policies or admission.Policies()
        self.store = Store()
        self.audits: list[Callable[[Served], None]] = []
        self._registrar = Registrar(clock, seed)
        for name in _DEFAULT_NAMESPACES:
            self._seed(rest.NAMESPACES, {"metadata": {"name": name}})
        for name, value in admission.SYSTEM_PRIORITIES:
            self._seed(rest.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def _seed(self, resource: Resource, item: Object) -> None:
        self.handle(Request("POST", resource.path(), item), ADMIN)

    def handle(self, request: Request, user: User) -> Response:
        """Never raises for what a client can send: the answer says what was wrong."""
        before = self._peek(request.path) if self.audits else None
        try:
            response = self._serve(request, user)
        except Refused as refusal:
            response = refusal.response()
        if self.audits:
            after = self._peek(request.path)
            for audit in self.audits:
                audit(Served(self.clock(), request, user, response, before, after))
        return response

    def watch_since(self, kind: str, version: int | str) -> list[tuple[str, Object]]:
        """Changes of one kind after a resourceVersion, oldest first. Raises Refused (410) where they are compacted away.

        The objects are shared: not to be changed.
        """
        return [(change.type, change.object) for change in self.changes_since(kind, version)]

    def changes_since(self, kind: str, version: int | str) -> list[Change]:
        return self.store.since(rest.BY_KIND[kind], int(version or 0))

    def load(self, objects: Iterable[Object], *, exempt: bool = True) -> None:
        """Store objects with the status, uid and times they bring.

        `exempt`: as a snapshot of a cluster, past admission. Otherwise the mutating policies apply as to new objects. Raises
        Refused for an object that no API server holds (no name, unknown kind, an invalid spec).
        """
        for given in objects:
            resource = rest.BY_KIND.get(str(given.get("kind")))
            if resource is None or given.get("apiVersion") != resource.api_version:
                raise refusals.bad_request(f"no kind {given.get('kind')!r} is served in {given.get('apiVersion')!r}")
            item = self._typed(resource, given)
            rules = RULES[resource]
            meta = item["metadata"]
            if resource.namespaced:
                meta.setdefault("namespace", "default")
                self._ensure_namespace(meta["namespace"])
            if resource is rest.NODES and not exempt:
                defaults.node(item)
            self._registrar.identify(item, resource, rules)
            rules.default(item)
            if not exempt:
                self._admit_new(resource, item, meta.get("namespace") or "", ADMIN)
            elif resource is PODS:
                item["spec"].setdefault("priority", 0)
            if "status" not in item and (status := rules.initial_status(item)) is not None:
                item["status"] = status
            causes = metadata.created(item, resource) + rules.check_created(item)
            self._refuse(resource, item, causes if exempt else causes + self._check_admin(resource, item))
            self.store.put(resource, item, self.clock())

    def _ensure_namespace(self, name: str) -> None:
        if self.store.get(rest.NAMESPACES, Key("", name)) is None:
            self._seed(rest.NAMESPACES, {"metadata": {"name": name}})

    def _peek(self, path: str) -> Object | None:
        try:
            found = route(path)
        except Refused:
            return None
        return self.store.get(found.resource, _key(found)) if found.name else None

    def _serve(self, request: Request, user: User) -> Response:
        found = route(request.path)
        if found.subresource not in ("", "status"):
            return subresources.serve(self, found, request)
        if found.subresource == "status" and not RULES[found.resource].status:
            raise refusals.no_such_path()
        match request.method, bool(found.name):
            case "GET", True:
                return Response(200, clone(self.existing(found)))
            case "GET", False:
                return self._list(found, request)
            case "POST", False:
                return self._create(found, request, user)
            case "PUT", True:
                return self._replace(found, request, user)
            case "PATCH", True:
                return self._patch(found, request, user)
            case "DELETE", True:
                return self._delete(found, request, user)
            case "DELETE", False:
                return self._delete_all(found, request, user)
            case _:
                raise refusals.method_not_allowed()

    def existing(self, found: Route) -> Object:
        item = self.store.get(found.resource, _key(found))
        if item is None:
            raise refusals.not_found(found.resource, found.name)
        return item

    def _list(self, found: Route, request: Request) -> Response:
        items = self.store.listed(found.resource, found.namespace)
        query = request.query
        if query.get("labelSelector"):
            items = list(filter(label_selector(query["labelSelector"]), items))
        if query.get("fieldSelector"):
            items = list(filter(field_selector(found.resource, query["fieldSelector"]), items))
        meta: dict[str, Any] = {"resourceVersion": str(self.store.version)}
        start = int(query.get("continue") or 0)
        limit = int(query.get("limit") or 0)
        if limit and len(items) > start + limit:
            meta["continue"] = str(start + limit)
            meta["remainingItemCount"] = len(items) - start - limit
        chosen = items[start : start + limit] if limit else items[start:]
        body = {
            "kind": f"{found.resource.kind}List",
            "apiVersion": found.resource.api_version,
            "metadata": meta,
            "items": clone(chosen),
        }
        return Response(200, body)

    def _create(self, found: Route, request: Request, user: User) -> Response:
        resource, rules = found.resource, RULES[found.resource]
        if resource.namespaced and not found.namespace:
            raise refusals.method_not_allowed()
        item = self._body(found, request)
        if resource.namespaced:
            item["metadata"].setdefault("namespace", found.namespace)
            self._check_namespace(found, item)
        self._registrar.identify(item, resource, rules, fresh=True)
        if rules.status and not rules.status_on_create:
            item.pop("status", None)
        rules.default(item)
        if resource is rest.DEVICE_TAINT_RULES:
            defaults.device_taint_rule(item, format_time(self.clock()))
        self._admit_new(resource, item, found.namespace, user)
        if (status := rules.initial_status(item)) is not None:
            item["status"] = status
        causes = metadata.created(item, resource) + rules.check_created(item)
        self._refuse(resource, item, causes + self._check_admin(resource, item))
        self.policies.validate(admission.Attempt(resource, "", item, None, user))
        name = item["metadata"]["name"]
        if self.store.get(resource, Key(item["metadata"].get("namespace") or "", name)) is not None:
            raise refusals.already_exists(resource, name)
        if not _dry(request):
            self.store.put(resource, item, self.clock())
        return Response(201, clone(item))

    def _check_namespace(self, found: Route, item: Object) -> None:
        if item["metadata"]["namespace"] != found.namespace:
            raise refusals.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        namespace = self.store.get(rest.NAMESPACES, Key("", found.namespace))
        if namespace is None:
            raise refusals.not_found(rest.NAMESPACES, found.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            raise refusals.forbidden(
                found.resource,
                item["metadata"].get("name") or "",
                f"unable to create new content in namespace {found.namespace} because it is being terminated",
            )

    def _admit_new(self, resource: Resource, item: Object, namespace: str, user: User) -> None:
        """Mutating admission of a new object."""
        if resource is PODS:
            classes = {entry["metadata"]["name"]: entry for entry in self.store.all(rest.PRIORITY_CLASSES)}
            admission.set_priority(item, classes)
            if (item.get("spec") or {}).get("resourceClaims"):
                templates = self.store.all(rest.RESOURCE_CLAIM_TEMPLATES)
                add_limits(item, (each for each in templates if each["metadata"]["namespace"] == namespace))
        self.policies.mutate(resource, item, self.store.get(rest.NAMESPACES, Key("", namespace)), user)

    def _typed(self, resource: Resource, body: Any) -> Object:
        """The body as the kind's decoder leaves it: a copy, without what means "not set"."""
        if not isinstance(body, dict):
            raise refusals.bad_request("the object provided is unrecognized (must be of type Object)")
        item: Object = without_nulls(body) if RULES[resource].custom else without_empties(body)
        meta = item.setdefault("metadata", {})
        for field in ("labels", "annotations"):
            if not meta.get(field, True):
                del meta[field]
        return item

    def _body(self, found: Route, request: Request) -> Object:
        body = request.body
        if isinstance(body, dict):
            kind, version = body.get("kind"), body.get("apiVersion")
            resource = found.resource
            if (kind and kind != resource.kind) or (version and version != resource.api_version):
                raise refusals.bad_request(
                    f"{kind} in version {version!r} cannot be handled as a {resource.kind}: "
                    f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
                )
        return self._typed(found.resource, body)

    def _replace(self, found: Route, request: Request, user: User) -> Response:
        item = self._body(found, request)
        name = item["metadata"].setdefault("name", found.name)
        if name != found.name:
            raise refusals.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({found.name})"
            )
        if item["metadata"].get("namespace", found.namespace) != found.namespace:
            raise refusals.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return self._update(found, self.existing(found), item, request, user)

    def _patch(self, found: Route, request: Request, user: User) -> Response:
        if request.content_type == rest.APPLY_PATCH and self.store.get(found.resource, _key(found)) is None:
            body = {**request.body, "metadata": {**(request.body.get("metadata") or {}), "name": found.name}}
            created = replace(request, body=body)
            return self._create(Route(found.resource, found.namespace, "", ""), created, user)
        old = self.existing(found)
        rules = RULES[found.resource]
        match request.content_type:
            case rest.MERGE_PATCH:
                patched = patches.merge_patch(old, request.body)
            case rest.STRATEGIC_PATCH | rest.APPLY_PATCH if not rules.custom:
                patched = patches.strategic_patch(old, request.body)
            case rest.APPLY_PATCH:
                patched = patches.merge_patch(old, request.body)
            case rest.JSON_PATCH:
                patched = patches.json_patch(old, request.body)
            case _:
                accepted = [rest.JSON_PATCH, rest.MERGE_PATCH, rest.APPLY_PATCH]
                raise refusals.unsupported_media_type(accepted)
        return self._update(found, old, self._typed(found.resource, patched), request, user)

    def _update(self, found: Route, old: Object, item: Object, request: Request, user: User) -> Response:
        """Store `item` over `old` with the semantics of the main endpoint or of /status."""
        resource, rules = found.resource, RULES[found.resource]
        check_identity(found, old, item, rules, patched=request.method == "PATCH")
        keep_fixed(resource, rules, item, old, found.subresource)
        if not found.subresource:
            rules.default(item)
        if rules.generation and content(item, rules) != content(old, rules):
            item["metadata"]["generation"] = int(old["metadata"].get("generation") or 1) + 1
        check = rules.check_status if found.subresource else rules.check_updated
        causes = metadata.updated(item, old) + check(item, old)
        if found.subresource == "status":
            causes += self._check_admin(resource, item, old)
        self._refuse(resource, item, causes)
        self.policies.validate(admission.Attempt(resource, found.subresource, item, old, user))
        if item == old:
            return Response(200, clone(old))
        if not _dry(request):
            if deletion.finished(item):
                self.store.remove(resource, item, self.clock())
            else:
                self.store.put(resource, item, self.clock())
        return Response(200, clone(item))

    def _check_admin(self, resource: Resource, item: Object, old: Object | None = None) -> list[refusals.Cause]:
        if resource not in (rest.RESOURCE_CLAIMS, rest.RESOURCE_CLAIM_TEMPLATES):
            return []
        namespace = self.store.get(rest.NAMESPACES, Key("", item["metadata"].get("namespace") or ""))
        return [] if namespace is None else claims.admin_access(item, old, namespace)

    def _refuse(self, resource: Resource, item: Object, causes: list[refusals.Cause]) -> None:
        if causes:
            raise refusals.unprocessable(resource, item["metadata"].get("name") or "", causes)

    def _delete(self, found: Route, request: Request, user: User) -> Response:
        old = self.existing(found)
        options = deletion.Options.read(request.body, request.query)
        self.policies.validate(admission.Attempt(found.resource, "", None, old, user))
        after = self.delete_object(found.resource, old, options)
        if after is not None or RULES[found.resource].returns_deleted:
            return Response(200, clone(after or old))
        details = {"name": found.name, "kind": found.resource.plural, "uid": old["metadata"]["uid"]}
        if found.resource.group:
            details["group"] = found.resource.group
        return Response(
            200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    def delete_object(self, resource: Resource, old: Object, options: deletion.Options) -> Object | None:
        """Delete or mark as being deleted; gives the object that stays, None where it is gone. Raises Refused (409)."""
        deletion.check_preconditions(resource, old, options)
        item = deletion.marked(resource, old, options, self.clock())
        if options.dry_run:
            return item
        if item is None:
            self.store.remove(resource, clone(old), self.clock())
        elif item != old:
            self.store.put(resource, item, self.clock())
        return item

    def _delete_all(self, found: Route, request: Request, user: User) -> Response:
        listed = self._list(found, request)
        for item in listed.body["items"]:
            path = found.resource.path(item["metadata"].get("namespace") or "", item["metadata"]["name"])
            self._delete(route(path), request, user)
        return listed


def _key(found: Route) -> Key:
    return Key(found.namespace, found.name)


def _dry(request: Request) -> bool:
    return request.query.get("dryRun") == "All"
