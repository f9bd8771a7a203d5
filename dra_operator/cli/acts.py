"""What a person does to the embedded cluster: apply, delete, finish. What the API server refuses becomes a Problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.cli.manifests import Manifest, Problem
from dra_operator.cli.scenario import Named, Step
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.rest import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, STRATEGIC_PATCH, Request

#: Kinds that others refer to from their first moment, in this order before the rest.
_FIRST = (NAMESPACES, PRIORITY_CLASSES)


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Cluster-scoped objects first; otherwise as written, since the order written is the order of age."""

    def rank(manifest: Manifest) -> int:
        if manifest.resource in _FIRST:
            return _FIRST.index(manifest.resource)
        return len(_FIRST) + manifest.resource.namespaced

    return sorted(manifests, key=rank)


class Person:
    """Acts as a cluster's administrator; `complain` takes what was refused."""

    def __init__(self, server: MemoryServer, complain: Callable[[Problem], None]) -> None:
        self._server = server
        self._complain = complain

    def carry_out(self, step: Step) -> None:
        self.apply(step.apply)
        for named in step.delete:
            self._delete(named)
        for named in step.finish:
            self._finish(named)

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Create or replace. A status that a new object brings is kept; so is everything of an object with a uid, as it comes
        from a running cluster."""
        for manifest in in_order(manifests):
            meta = manifest.object["metadata"]
            key = Key(meta.get("namespace") or "", meta.get("name") or "")
            old = self._server.store.get(manifest.resource, key)
            if old is None:
                self._create(manifest)
            else:
                self._replace(manifest, key, old)

    def _create(self, manifest: Manifest) -> None:
        try:
            self._server.load([manifest.object], exempt=bool(manifest.object["metadata"].get("uid")))
        except Refused as refusal:
            self._complain(Problem(manifest.source, f"{manifest.title}: {refusal.response().message}"))

    def _replace(self, manifest: Manifest, key: Key, old: dict[str, Any]) -> None:
        resource = manifest.resource
        body = {**manifest.object, "metadata": _kept_metadata(old["metadata"], manifest.object["metadata"])}
        if resource is PODS:
            # Of a pod's spec others have set parts (node, gates); what is written is laid over it.
            request = Request("PATCH", resource.path(*key), {"spec": body.get("spec") or {}}, STRATEGIC_PATCH)
        else:
            request = Request("PUT", resource.path(*key), body)
        self._send(request, manifest.source, manifest.title)
        if resource is NODES and body.get("status"):
            self._send(Request("PUT", resource.path(*key, "status"), body), manifest.source, manifest.title)

    def _delete(self, named: Named) -> None:
        self._send(Request("DELETE", named.resource.path(*named.key)), named.source, f"delete {named.text}")

    def _finish(self, named: Named) -> None:
        patch = {"status": {"phase": "Succeeded"}}
        request = Request("PATCH", PODS.path(*named.key, "status"), patch, STRATEGIC_PATCH)
        self._send(request, named.source, f"finish {named.text}")

    def _send(self, request: Request, source: Any, subject: str) -> None:
        response = self._server.handle(request, ADMIN)
        if not response.ok:
            self._complain(Problem(source, f"{subject}: {response.message}"))


def _kept_metadata(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What the cluster added to an object's metadata stays when it is applied again."""
    kept = {**old, **new, "resourceVersion": ""}
    for field in ("labels", "annotations"):
        kept[field] = {**(old.get(field) or {}), **(new.get(field) or {})}
    kept["finalizers"] = list(dict.fromkeys([*(old.get("finalizers") or ()), *(new.get("finalizers") or ())]))
    return kept
