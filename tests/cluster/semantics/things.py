"""The objects and the steps that the behaviours are made of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.rest import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Response
from tests.cluster.semantics.worlds import FINALIZER, Place

Object = dict[str, Any]

#: Writes of others that one request may meet. Each controller writes an object a few times at most.
_ATTEMPTS = 10


def claim(
    name: str = "c", *, requests: list[Object] | None = None, constraints: list[Object] | None = None, **meta: Any
) -> Object:
    devices: Object = {"requests": requests if requests is not None else [request("gpu")]}
    if constraints is not None:
        devices["constraints"] = constraints
    return {"kind": "ResourceClaim", "metadata": {"name": name, **meta}, "spec": {"devices": devices}}


def request(name: str, **exactly: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def template(name: str = "t", **spec_meta: Any) -> Object:
    return {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": spec_meta, "spec": claim()["spec"]},
    }


def pod(
    name: str = "p", *, claims: list[Object] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    """A pod that ends a second after it is deleted. `claims` are entries of spec.resourceClaims."""
    body: Object = {"containers": [{"name": "main", "image": "pause"}], "terminationGracePeriodSeconds": 1, **spec}
    if claims is not None:
        body["resourceClaims"] = claims
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": body}


def uses(claim: str, entry: str = "gpu") -> Object:
    return {"name": entry, "resourceClaimName": claim}


def from_template(template: str, entry: str = "gpu") -> Object:
    return {"name": entry, "resourceClaimTemplateName": template}


def result(request: str = "gpu", device: str = "gpu-0", **more: Any) -> Object:
    return {"request": request, "driver": "gpu.example.com", "pool": "n1", "device": device, **more}


def allocation(*results: Object, node: str | None = None) -> Object:
    found: Object = {"devices": {"results": list(results) or [result()]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        found["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return found


def consumer(name: str = "p", uid: str = "11111111-1111-1111-1111-111111111111") -> Object:
    return {"resource": "pods", "name": name, "uid": uid}


@dataclass(frozen=True)
class Step:
    """One request, made of what is stored when its turn comes."""

    act: Callable[[Place], Response]

    def __call__(self, place: Place) -> Response:
        return self.act(place)


def create(item: Object, by: str = "admin", **query: str) -> Step:
    return Step(lambda place: place.send("POST", item["kind"], body=item, by=by, query=query))


def change(kind: str, name: str, edit: Callable[[Object], Any], *, sub: str = "", by: str = "admin") -> Step:
    """PUT the stored object after `edit` has changed it in place.

    The controllers of a real cluster write as well, also between the read and the write: such a conflict says nothing
    about the request, so it is made again of what is stored then. One that `edit` asked for, by changing what the API
    server compares, is the answer.
    """

    def act(place: Place) -> Response:
        for _ in range(_ATTEMPTS):
            stored = place.get(kind, name)
            body = copy.deepcopy(stored)
            edit(body)
            response = place.send("PUT", kind, name, body, sub=sub, by=by)
            asked_for = any(body["metadata"].get(key) != stored["metadata"][key] for key in ("resourceVersion", "uid"))
            if asked_for or response.status != 409:
                break
        return response

    return Step(act)


def status(name: str, edit: Callable[[Object], Any], *, by: str = "operator") -> Step:
    """PUT /status of a claim."""
    return change("ResourceClaim", name, lambda item: edit(item.setdefault("status", {})), sub="status", by=by)


def allocate(
    name: str = "c",
    *results: Object,
    by: str = "operator",
    node: str | None = None,
    reserved: list[Object] | None = None,
) -> Step:
    def edit(found: Object) -> None:
        found["allocation"] = allocation(*results, node=node)
        if reserved is not None:
            found["reservedFor"] = reserved

    return status(name, edit, by=by)


def patch(kind: str, name: str, body: Any, *, type: str = MERGE_PATCH, sub: str = "", by: str = "admin") -> Step:
    return Step(lambda place: place.send("PATCH", kind, name, body, type=type, sub=sub, by=by))


def strategic(kind: str, name: str, body: Any, *, sub: str = "", by: str = "admin") -> Step:
    return patch(kind, name, body, type=STRATEGIC_PATCH, sub=sub, by=by)


def json_patch(kind: str, name: str, *operations: Object, by: str = "admin") -> Step:
    return patch(kind, name, list(operations), type=JSON_PATCH, by=by)


def delete(kind: str, name: str, by: str = "admin", **options: Any) -> Step:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
    return Step(lambda place: place.send("DELETE", kind, name, body, by=by))


def get(kind: str, name: str) -> Step:
    return Step(lambda place: place.send("GET", kind, name))


def bind(name: str, node: str) -> Step:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    return Step(lambda place: place.send("POST", "Pod", name, body, sub="binding", type=JSON))


def said(response: Response) -> str:
    """`201`, `409 Conflict`, `422 Invalid spec.a, spec.b`: status, reason, and the fields of the causes."""
    if response.ok:
        return str(response.status)
    causes = (response.body.get("details") or {}).get("causes") or ()
    fields = sorted({cause.get("field") or cause.get("reason", "") for cause in causes})
    return " ".join(filter(None, [str(response.status), response.reason, ", ".join(fields)]))


def finalizers(item: Object) -> list[str]:
    found: list[str] = item["metadata"].get("finalizers") or []
    return found


def protected(item: Object) -> bool:
    return FINALIZER in finalizers(item)
