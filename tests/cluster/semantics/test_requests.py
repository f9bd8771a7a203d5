"""What single requests do: one table, both worlds. `want` is status, reason and fields of the causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dra_operator.cluster.rest import Response
from tests.cluster.semantics.things import (
    Step,
    allocate,
    allocation,
    bind,
    change,
    claim,
    consumer,
    create,
    delete,
    finalizers,
    get,
    json_patch,
    patch,
    pod,
    protected,
    request,
    result,
    said,
    status,
    strategic,
    template,
    uses,
)
from tests.cluster.semantics.worlds import FINALIZER, GATE, MANAGED, Place

EXTENDED = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class Row:
    name: str
    do: Step
    want: str
    given: tuple[Step, ...] = ()
    then: Callable[[dict[str, Any]], bool] | None = None
    exempt: bool = False


def gates(item: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in item["spec"].get("schedulingGates") or ()]


def terms(*names: str) -> dict[str, Any]:
    """Pod affinity: one required term a name, each an expression over a label of that name."""
    found = [{"matchExpressions": [{"key": name, "operator": "Exists"}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}


def _pin(item: dict[str, Any], node: str = "n1") -> None:
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = item["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    for term in required["nodeSelectorTerms"]:
        term["matchFields"] = [here]


def _ungate(item: dict[str, Any]) -> None:
    item["spec"]["schedulingGates"] = []


def owners(name: str, **other: Any) -> list[dict[str, Any]]:
    api = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass"}
    return [{**api, "name": name, "uid": "11111111-1111-1111-1111-111111111111", **other}]


def network_class(owner: str, name: str = "of", **other: Any) -> dict[str, Any]:
    """A DeviceClass whose owner is the NetworkDeviceClass `owner`; of nobody where that is empty."""
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["ownerReferences"] = owners(owner, **other)
    return {"kind": "DeviceClass", "metadata": metadata, "spec": {}}


def owned_class(name: str) -> Step:
    """Store one with an owner that exists: the garbage collector takes what has none."""

    def act(place: Place) -> Response:
        api = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "NetworkDeviceClass"}
        owner = place.create({**api, "metadata": {"name": name}, "spec": {}})
        body = network_class(name, name, uid=owner["metadata"]["uid"])
        return place.send("POST", "DeviceClass", body=body)

    return Step(act)


REPORT = {
    "apiVersion": "dra-operator.dev/v1alpha1",
    "kind": "ClaimReport",
    "metadata": {"name": "c"},
    "status": {"phase": "Queued"},
}
GATED = create(pod(claims=[uses("c")]))
# Of a scheduler that is not there, so that nothing writes to it meanwhile.
PLAIN = create(pod(schedulerName="nobody"))
CLAIM = create(claim())
UNGATE = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}

METADATA = [
    Row(
        "a name is needed",
        create({"kind": "ResourceClaim", "metadata": {}, "spec": claim()["spec"]}),
        "422 Invalid metadata.name",
    ),
    Row("names are subdomains", create(claim("Not_A_Name")), "422 Invalid metadata.name"),
    Row(
        "generateName appends five letters",
        create({"kind": "ResourceClaim", "metadata": {"generateName": "g-"}, "spec": claim()["spec"]}),
        "201",
        then=lambda item: item["metadata"]["name"].startswith("g-") and len(item["metadata"]["name"]) == 7,
    ),
    Row(
        "generateName is cut to leave room",
        create({"kind": "ResourceClaim", "metadata": {"generateName": "x" * 80}, "spec": claim()["spec"]}),
        "201",
        then=lambda item: len(item["metadata"]["name"]) == 63,
    ),
    Row("the same name twice", CLAIM, "409 AlreadyExists", given=(CLAIM,)),
    Row("nothing there", get("ResourceClaim", "c"), "404 NotFound"),
    Row("update of nothing", patch("ResourceClaim", "c", {"metadata": {}}), "404 NotFound"),
    Row("delete of nothing", delete("ResourceClaim", "c"), "404 NotFound"),
    Row(
        "uid and resourceVersion a client sends are not taken",
        create(claim(uid="99999999-9999-9999-9999-999999999999", resourceVersion="")),
        "201",
        then=lambda item: not item["metadata"]["uid"].startswith("99999999-9999"),
    ),
    Row(
        "status is not taken on creation",
        create({**claim(), "status": {"allocation": allocation()}}),
        "201",
        then=lambda item: not item.get("status"),
    ),
    Row("a label value with a blank", create(claim(labels={"a": "b c"})), "422 Invalid metadata.labels"),
    Row("a finalizer without a domain", create(claim(finalizers=["mine"])), "422 Invalid metadata.finalizers[0]"),
    Row(
        "a stale resourceVersion conflicts",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(resourceVersion="1")),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "without a resourceVersion an update is unconditional",
        change(
            "ResourceClaim",
            "c",
            lambda item: (item["metadata"].pop("resourceVersion"), item["metadata"].update(annotations={"a": "b"})),
        ),
        "200",
        given=(CLAIM,),
    ),
    Row(
        "a stale resourceVersion in a merge patch conflicts",
        patch("ResourceClaim", "c", {"metadata": {"resourceVersion": "1", "annotations": {"a": "b"}}}),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "another uid in an update conflicts",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(uid="99999999-9999-9999-9999-999999999999")),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "another uid in a patch is invalid",
        strategic("Pod", "p", {"metadata": {"uid": "99999999-9999-9999-9999-999999999999"}, **UNGATE}),
        "422 Invalid metadata.uid",
        given=(GATED,),
    ),
    Row(
        "the name in the body must be that of the path",
        change("ResourceClaim", "c", lambda item: item["metadata"].update(name="d")),
        "400 BadRequest",
        given=(CLAIM,),
    ),
    Row(
        "null in a merge patch deletes",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {"a": None}}}),
        "200",
        given=(create(claim(annotations={"a": "1", "b": "2"})),),
        then=lambda item: item["metadata"]["annotations"] == {"b": "2"},
    ),
    Row(
        "a merge patch replaces lists",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/a"]}}, by="kcm"),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: finalizers(item) == ["x.example/a"],
    ),
    Row(
        "a strategic patch merges finalizers",
        strategic("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/a"]}}),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: set(finalizers(item)) == {"x.example/a", "x.example/b", FINALIZER},
    ),
    Row(
        "$deleteFromPrimitiveList takes one finalizer away",
        strategic("ResourceClaim", "c", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/b"]}}),
        "200",
        given=(create(claim(finalizers=["x.example/b"])),),
        then=lambda item: finalizers(item) == [FINALIZER],
    ),
    Row(
        "a JSON patch adds and removes",
        json_patch("ResourceClaim", "c", {"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}),
        "200",
        given=(CLAIM,),
        then=lambda item: item["metadata"]["annotations"] == {"a": "1"},
    ),
    Row(
        "a failing test in a JSON patch",
        json_patch("ResourceClaim", "c", {"op": "test", "path": "/metadata/name", "value": "d"}),
        "422 Invalid",
        given=(CLAIM,),
    ),
    Row(
        "a JSON patch that removes nothing",
        json_patch("ResourceClaim", "c", {"op": "remove", "path": "/metadata/annotations"}),
        "422 Invalid",
        given=(CLAIM,),
    ),
    Row(
        "custom resources have no strategic patch",
        strategic("ClaimReport", "c", {"metadata": {"labels": {"a": "b"}}}),
        "415 UnsupportedMediaType",
        given=(create(REPORT, "operator"),),
    ),
    Row(
        "spec of a claim is immutable",
        change("ResourceClaim", "c", lambda item: item["spec"]["devices"]["requests"][0]["exactly"].update(count=2)),
        "422 Invalid spec",
        given=(CLAIM,),
    ),
    Row(
        "spec of a template is immutable",
        change(
            "ResourceClaimTemplate", "t", lambda item: item["spec"]["spec"]["devices"]["requests"][0].update(name="x")
        ),
        "422 Invalid spec",
        given=(create(template()),),
    ),
]

CLAIM_SPECS = [
    Row(
        "counts and modes get defaults",
        CLAIM,
        "201",
        then=lambda item: (
            item["spec"]["devices"]["requests"][0]["exactly"]
            == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
        ),
    ),
    Row("no requests at all", create(claim(requests=[])), "201"),
    Row(
        "33 requests",
        create(claim(requests=[request(f"r{index}") for index in range(33)])),
        "422 Invalid spec.devices.requests",
    ),
    Row(
        "two requests of one name",
        create(claim(requests=[request("a"), request("a")])),
        "422 Invalid spec.devices.requests[1]",
    ),
    Row(
        "a request without a class",
        create(claim(requests=[{"name": "a", "exactly": {}}])),
        "422 Invalid spec.devices.requests[0].exactly.deviceClassName",
    ),
    Row("a request of neither form", create(claim(requests=[{"name": "a"}])), "422 Invalid spec.devices.requests[0]"),
    Row(
        "a request of both forms",
        create(claim(requests=[{**request("a"), "firstAvailable": [{"name": "b", "deviceClassName": "c"}]}])),
        "422 Invalid spec.devices.requests[0]",
    ),
    Row(
        "a negative count",
        create(claim(requests=[request("a", count=-1)])),
        "422 Invalid spec.devices.requests[0].exactly.count",
    ),
    Row(
        "All with a count",
        create(claim(requests=[request("a", allocationMode="All", count=2)])),
        "422 Invalid spec.devices.requests[0].exactly.count",
    ),
    Row(
        "a mode nobody knows",
        create(claim(requests=[request("a", allocationMode="Some")])),
        "422 Invalid spec.devices.requests[0].exactly.allocationMode",
    ),
    Row(
        "a selector without CEL",
        create(claim(requests=[request("a", selectors=[{}])])),
        "422 Invalid spec.devices.requests[0].exactly.selectors[0].cel",
    ),
    Row(
        "an empty expression",
        create(claim(requests=[request("a", selectors=[{"cel": {"expression": ""}}])])),
        "422 Invalid spec.devices.requests[0].exactly.selectors[0].cel.expression",
    ),
    Row(
        "a class that does not exist is fine",
        create(claim(requests=[request("a", deviceClassName="nowhere")])),
        "201",
    ),
    Row(
        "a constraint over an unknown request",
        create(claim(constraints=[{"requests": ["x"], "matchAttribute": "a.example/b"}])),
        "422 Invalid spec.devices.constraints[0].requests[0]",
    ),
    Row(
        "a constraint without an attribute", create(claim(constraints=[{}])), "422 Invalid spec.devices.constraints[0]"
    ),
    Row(
        "a constraint over an attribute without a domain",
        create(claim(constraints=[{"matchAttribute": "numa"}])),
        "422 Invalid spec.devices.constraints[0].matchAttribute",
    ),
]

ALLOCATIONS = [
    Row("an allocation", allocate(), "200", given=(CLAIM,), then=lambda item: bool(item["status"]["allocation"])),
    Row(
        "devices that do not exist, twice the same, too many", allocate("c", result(), result()), "200", given=(CLAIM,)
    ),
    Row("no results", status("c", lambda found: found.update(allocation={})), "200", given=(CLAIM,)),
    Row(
        "an unknown request name",
        allocate("c", result("x")),
        "422 Invalid status.allocation.devices.results[0].request",
        given=(CLAIM,),
    ),
    Row(
        "33 results",
        allocate("c", *(result(device=f"d{index}") for index in range(33))),
        "422 Invalid status.allocation.devices.results",
        given=(CLAIM,),
    ),
    Row(
        "a node selector without terms",
        status("c", lambda found: found.update(allocation={**allocation(), "nodeSelector": {"nodeSelectorTerms": []}})),
        "422 Invalid status.allocation.nodeSelector.nodeSelectorTerms",
        given=(CLAIM,),
    ),
    Row(
        "an allocation cannot be changed",
        status("c", lambda found: found["allocation"]["devices"]["results"][0].update(device="gpu-1")),
        "422 Invalid status.allocation",
        given=(CLAIM, allocate()),
    ),
    Row(
        "nor can it be stamped later",
        status("c", lambda found: found["allocation"].update(allocationTimestamp="2026-01-01T00:00:00Z")),
        "422 Invalid status.allocation",
        given=(CLAIM, status("c", lambda found: found.update(allocation={"devices": {"results": [result()]}}))),
    ),
    Row(
        "an allocation can be taken away",
        status("c", lambda found: found.pop("allocation")),
        "200",
        given=(CLAIM, allocate()),
        then=lambda item: "allocation" not in item.get("status", {}),
    ),
    Row(
        "a reservation without an allocation",
        status("c", lambda found: found.update(reservedFor=[consumer()])),
        "422 Invalid status.reservedFor",
        given=(CLAIM,),
    ),
    Row(
        "allocation goes, reservation stays",
        status("c", lambda found: found.pop("allocation")),
        "422 Invalid status.reservedFor",
        given=(
            CLAIM,
            allocate(),
            status("c", lambda found: found.update(reservedFor=[{**consumer(), "resource": "others"}])),
        ),
    ),
    Row(
        "the same consumer twice",
        allocate(reserved=[consumer(), consumer("q")]),
        "422 Invalid status.reservedFor[1]",
        given=(CLAIM,),
    ),
    Row(
        "257 consumers",
        allocate(reserved=[consumer(f"p{index}", f"u{index}") for index in range(257)]),
        "422 Invalid status.reservedFor",
        given=(CLAIM,),
    ),
    Row(
        "no new reservation on a claim that is being deleted",
        status("c", lambda found: found["reservedFor"].append(consumer())),
        "422 Invalid status.reservedFor",
        # In use by something that the claim controller does not know: it would free the claim at once otherwise.
        given=(
            create(claim(finalizers=["x.example/hold"])),
            allocate(reserved=[{**consumer("a", "u1"), "resource": "others"}]),
            delete("ResourceClaim", "c"),
        ),
    ),
    Row(
        "the status endpoint ignores spec and metadata",
        change(
            "ResourceClaim",
            "c",
            lambda item: (
                item["spec"]["devices"]["requests"][0].update(name="x"),
                item["metadata"].update(annotations={"a": "b"}),
            ),
            sub="status",
            by="operator",
        ),
        "200",
        given=(CLAIM,),
        then=lambda item: (
            item["spec"]["devices"]["requests"][0]["name"] == "gpu" and "annotations" not in item["metadata"]
        ),
    ),
    Row(
        "the main endpoint ignores status",
        change("ResourceClaim", "c", lambda item: item.update(status={"allocation": allocation()}), by="operator"),
        "200",
        given=(CLAIM,),
        then=lambda item: not item.get("status"),
    ),
    Row(
        "a stale status update conflicts",
        change(
            "ResourceClaim", "c", lambda item: item["metadata"].update(resourceVersion="1"), sub="status", by="operator"
        ),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "a strategic patch takes one consumer away",
        strategic("ResourceClaim", "c", {"status": {"reservedFor": [{"$patch": "delete", "uid": "u1"}]}}, sub="status"),
        "200",
        given=(
            CLAIM,
            allocate(
                reserved=[{**consumer("a", "u1"), "resource": "others"}, {**consumer("b", "u2"), "resource": "others"}]
            ),
        ),
        then=lambda item: [entry["uid"] for entry in item["status"]["reservedFor"]] == ["u2"],
    ),
    Row(
        "device status only for allocated devices",
        status(
            "c",
            lambda found: found.update(devices=[{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-9"}]),
            by="admin",
        ),
        "422 Invalid status.devices[0]",
        given=(CLAIM, allocate()),
    ),
    Row(
        "device status goes with its allocation",
        status("c", lambda found: found.pop("allocation")),
        "200",
        given=(
            CLAIM,
            allocate(),
            status(
                "c",
                lambda found: found.update(devices=[{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]),
                by="admin",
            ),
        ),
        then=lambda item: "devices" not in item.get("status", {}),
    ),
]

PODS = [
    Row("no containers", create(pod(containers=[])), "422 Invalid spec.containers"),
    Row(
        "defaults",
        create(pod()),
        "201",
        then=lambda item: (
            item["spec"]["schedulerName"] == "default-scheduler"
            and item["spec"]["priority"] == 0
            and item["status"]["phase"] == "Pending"
        ),
    ),
    Row("a priority class that does not exist", create(pod(priorityClassName="nothing")), "403 Forbidden"),
    Row(
        "a priority class that exists",
        create(pod(priorityClassName="system-node-critical")),
        "201",
        then=lambda item: item["spec"]["priority"] == 2000001000,
    ),
    Row("a priority without its class", create(pod(priority=7)), "403 Forbidden"),
    Row(
        "a gate and a node",
        create(pod(nodeName="n1", schedulingGates=[{"name": "x.example/hold"}])),
        "422 Invalid spec.nodeName",
    ),
    Row(
        "a claim entry with two sources",
        create(pod(claims=[{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}])),
        "422 Invalid spec.resourceClaims[0]",
    ),
    Row("a claim entry without a source", create(pod(claims=[{"name": "a"}])), "422 Invalid spec.resourceClaims[0]"),
    Row(
        "two claim entries of one name",
        create(pod(claims=[uses("a"), uses("b")])),
        "422 Invalid spec.resourceClaims[1].name",
    ),
    Row(
        "a container that uses an unknown entry",
        create(pod(containers=[{"name": "main", "image": "pause", "resources": {"claims": [{"name": "x"}]}}])),
        "422 Invalid spec.containers[0].resources.claims[0]",
    ),
    Row(
        "a gated pod says so",
        GATED,
        "201",
        then=lambda item: item["status"]["conditions"][0]["reason"] == "SchedulingGated",
    ),
    Row(
        "a gate cannot be added",
        change("Pod", "p", lambda item: item["spec"].update(schedulingGates=[{"name": "x.example/hold"}])),
        "422 Invalid spec.schedulingGates[0].name",
        given=(PLAIN,),
    ),
    Row(
        "a gate can be removed by name",
        strategic("Pod", "p", UNGATE),
        "200",
        given=(GATED,),
        then=lambda item: gates(item) == [],
    ),
    Row(
        "removing by name leaves other gates",
        strategic("Pod", "p", UNGATE),
        "200",
        given=(create(pod(claims=[uses("c")], schedulingGates=[{"name": "x.example/hold"}])),),
        then=lambda item: gates(item) == ["x.example/hold"],
    ),
    Row("removing a gate that is not there", strategic("Pod", "p", UNGATE), "200", given=(PLAIN,)),
    Row(
        "ungating and pinning in one patch",
        strategic(
            "Pod",
            "p",
            {
                "spec": {
                    "schedulingGates": [{"name": GATE, "$patch": "delete"}],
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                                ]
                            }
                        }
                    },
                }
            },
        ),
        "200",
        given=(GATED,),
        then=lambda item: gates(item) == [] and "affinity" in item["spec"],
    ),
    Row(
        "pinning every existing term",
        change("Pod", "p", lambda item: (_ungate(item), _pin(item))),
        "200",
        given=(create(pod(claims=[uses("c")], affinity=terms("a", "b"))),),
    ),
    Row(
        "a term more is refused",
        change("Pod", "p", lambda item: item["spec"].update(affinity=terms("a", "b"))),
        "422 Invalid spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        given=(create(pod(claims=[uses("c")], affinity=terms("a"))),),
    ),
    Row(
        "a term changed is refused",
        change("Pod", "p", lambda item: item["spec"].update(affinity=terms("b"))),
        "422 Invalid spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
        given=(create(pod(claims=[uses("c")], affinity=terms("a"))),),
    ),
    Row(
        "node selector of a gated pod may grow",
        change("Pod", "p", lambda item: item["spec"].update(nodeSelector={"a": "b"})),
        "200",
        given=(GATED,),
    ),
    Row(
        "and not shrink",
        change("Pod", "p", lambda item: item["spec"].pop("nodeSelector")),
        "422 Invalid spec.nodeSelector",
        given=(create(pod(claims=[uses("c")], nodeSelector={"a": "b"})),),
    ),
    Row(
        "affinity of an ungated pod is fixed",
        change("Pod", "p", lambda item: _pin(item)),
        "422 Invalid spec",
        given=(PLAIN,),
    ),
    Row(
        "claims of a pod are fixed",
        change("Pod", "p", lambda item: item["spec"].update(resourceClaims=[uses("d")])),
        "422 Invalid spec",
        given=(GATED,),
    ),
    Row(
        "an image may change",
        change("Pod", "p", lambda item: item["spec"]["containers"][0].update(image="other")),
        "200",
        given=(GATED,),
        then=lambda item: item["metadata"]["generation"] == 2,
    ),
    Row("a gated pod cannot be bound", bind("p", "n1"), "409 Conflict", given=(GATED,)),
    Row("a bound pod cannot be bound again", bind("p", "n2"), "409 Conflict", given=(create(pod(nodeName="n1")),)),
    Row("a pod is bound", bind("p", "nowhere"), "201", given=(create(pod(schedulerName="nobody")),)),
    Row("a pod that nobody runs goes at once", delete("Pod", "p"), "200", given=(GATED,)),
    Row(
        "a wrong uid precondition",
        delete("Pod", "p", preconditions={"uid": "99999999-9999-9999-9999-999999999999"}),
        "409 Conflict",
        given=(GATED,),
    ),
    Row(
        "a pod on a node is given its grace",
        delete("Pod", "p"),
        "200",
        given=(create(pod(nodeName="nowhere", terminationGracePeriodSeconds=30)),),
        then=lambda item: (
            item["metadata"]["deletionGracePeriodSeconds"] == 30 and "deletionTimestamp" in item["metadata"]
        ),
    ),
    Row(
        "or that of the request",
        delete("Pod", "p", gracePeriodSeconds=5),
        "200",
        given=(create(pod(nodeName="nowhere", terminationGracePeriodSeconds=30)),),
        then=lambda item: item["metadata"]["deletionGracePeriodSeconds"] == 5,
    ),
    Row("force", delete("Pod", "p", gracePeriodSeconds=0), "200", given=(create(pod(nodeName="nowhere")),)),
]

POLICIES = [
    Row(
        "a new claim is managed and protected",
        create(claim(), "alice"),
        "201",
        then=lambda item: item["metadata"]["labels"][MANAGED] == "true" and protected(item),
    ),
    Row(
        "whatever its label said",
        create(claim(labels={MANAGED: "false"}), "alice"),
        "201",
        then=lambda item: item["metadata"]["labels"][MANAGED] == "true",
    ),
    Row(
        "not in an exempt namespace",
        create(claim(), "alice"),
        "201",
        exempt=True,
        then=lambda item: "labels" not in item["metadata"] and not protected(item),
    ),
    Row(
        "a pod with claims is gated",
        create(pod(claims=[uses("c")]), "alice"),
        "201",
        then=lambda item: gates(item) == [GATE],
    ),
    Row(
        "after the gates it has",
        create(pod(claims=[uses("c")], schedulingGates=[{"name": "x.example/hold"}]), "alice"),
        "201",
        then=lambda item: gates(item) == ["x.example/hold", GATE],
    ),
    Row("a pod without claims is not", create(pod(), "alice"), "201", then=lambda item: gates(item) == []),
    Row(
        "nor one with a node",
        create(pod(claims=[uses("c")], nodeName="n1"), "alice"),
        "201",
        then=lambda item: gates(item) == [],
    ),
    Row(
        "nor one of another scheduler",
        create(pod(claims=[uses("c")], schedulerName="mine"), "alice"),
        "201",
        then=lambda item: gates(item) == [],
    ),
    Row(
        "nor one in an exempt namespace",
        create(pod(claims=[uses("c")]), "alice"),
        "201",
        exempt=True,
        then=lambda item: gates(item) == [],
    ),
    Row("the scheduler cannot allocate a managed claim", allocate(by="scheduler"), "403 Forbidden", given=(CLAIM,)),
    Row("a user cannot either", allocate(by="alice"), "403 Forbidden", given=(CLAIM,)),
    Row("the operator can", allocate(by="operator"), "200", given=(CLAIM,)),
    Row("an unmanaged claim is the scheduler's", allocate(by="scheduler"), "200", given=(CLAIM,), exempt=True),
    Row("and not the operator's", allocate(by="operator"), "403 Forbidden", given=(CLAIM,), exempt=True),
    Row(
        "the operator cannot touch its metadata",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {"a": "b"}}}, by="operator"),
        "403 Forbidden",
        given=(CLAIM,),
        exempt=True,
    ),
    Row(
        "nor adopt it",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "true"}}}, by="operator"),
        "403 Forbidden",
        given=(CLAIM,),
        exempt=True,
    ),
    Row("nor delete it", delete("ResourceClaim", "c", by="operator"), "403 Forbidden", given=(CLAIM,), exempt=True),
    Row(
        "the scheduler reserves an allocated managed claim",
        status("c", lambda found: found.update(reservedFor=[{**consumer(), "resource": "others"}]), by="scheduler"),
        "200",
        given=(CLAIM, allocate()),
    ),
    Row(
        "and clears it",
        status("c", lambda found: found.pop("allocation"), by="scheduler"),
        "200",
        given=(CLAIM, allocate()),
    ),
    Row(
        "nobody takes the label off",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: None}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "or changes it",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "false"}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "but the operator",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: None}}}, by="operator"),
        "200",
        given=(CLAIM,),
        then=lambda item: "labels" not in item["metadata"],
    ),
    Row(
        "a user adopts an unmanaged claim",
        patch("ResourceClaim", "c", {"metadata": {"labels": {MANAGED: "true"}}}, by="alice"),
        "200",
        given=(CLAIM,),
        exempt=True,
    ),
    Row(
        "the finalizer of an allocated claim stays",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": None}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM, allocate()),
    ),
    Row(
        "that of an unallocated one may go",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": None}}, by="kcm"),
        "200",
        given=(CLAIM,),
        then=lambda item: not protected(item),
    ),
    Row(
        "a claim is annotated as extended by a user",
        create(claim(annotations={EXTENDED: "true"}), "alice"),
        "403 Forbidden",
    ),
    Row(
        "and by the scheduler",
        create(claim(annotations={EXTENDED: "true"}), "scheduler"),
        "201",
        then=lambda item: "labels" not in item["metadata"],
    ),
    Row(
        "a template is annotated as extended",
        create(template(annotations={EXTENDED: "true"}), "alice"),
        "403 Forbidden",
    ),
    Row(
        "a claim is annotated later",
        patch("ResourceClaim", "c", {"metadata": {"annotations": {EXTENDED: "true"}}}, by="alice"),
        "403 Forbidden",
        given=(CLAIM,),
    ),
    Row(
        "reports are the operator's",
        create(REPORT, "alice"),
        "403 Forbidden",
    ),
    Row(
        "which writes them in one request",
        create(REPORT, "operator"),
        "201",
        then=lambda item: item["status"]["phase"] == "Queued",
    ),
    Row(
        "a report is replaced with its resourceVersion only",
        change("ClaimReport", "c", lambda item: item["metadata"].pop("resourceVersion"), by="operator"),
        "422 Invalid metadata.resourceVersion",
        given=(create(REPORT, "operator"),),
    ),
    Row("a class of a NetworkDeviceClass of its name", create(network_class("of"), "operator", dryRun="All"), "201"),
    Row("a class of nobody", create(network_class(""), "operator", dryRun="All"), "403 Forbidden"),
    Row("a class of another's name", create(network_class("other"), "operator", dryRun="All"), "403 Forbidden"),
    Row(
        "a class of another kind's object",
        create(network_class("of", kind="AllocationPolicy"), "operator", dryRun="All"),
        "403 Forbidden",
    ),
    Row(
        "a class of another group's NetworkDeviceClass",
        create(network_class("of", apiVersion="example.com/v1"), "operator", dryRun="All"),
        "403 Forbidden",
    ),
    Row("a class of nobody by anybody else", create(network_class(""), "alice", dryRun="All"), "201"),
]

#: Stored classes are cluster-scoped, so each row has a name of its own.
CLASSES = [
    Row(
        "the operator changes what belongs to a NetworkDeviceClass",
        patch("DeviceClass", "changed", {"spec": {"extendedResourceName": "example.com/nic"}}, by="operator"),
        "200",
        given=(owned_class("changed"),),
    ),
    Row(
        "the operator takes no class over",
        change(
            "DeviceClass",
            "theirs",
            lambda item: item["metadata"].update(ownerReferences=owners("theirs")),
            by="operator",
        ),
        "403 Forbidden",
        given=(create(network_class("", "theirs")),),
    ),
    Row(
        "the operator gives no class away",
        patch("DeviceClass", "kept", {"metadata": {"ownerReferences": None}}, by="operator"),
        "403 Forbidden",
        given=(owned_class("kept"),),
    ),
]

DELETIONS = [
    Row(
        "a finalizer keeps a claim",
        delete("ResourceClaim", "c"),
        "200",
        given=(create(claim(finalizers=["x.example/hold"])),),
        then=lambda item: (
            "deletionTimestamp" in item["metadata"] and item["metadata"]["deletionGracePeriodSeconds"] == 0
        ),
    ),
    Row(
        "no finalizer can be added then",
        patch("ResourceClaim", "c", {"metadata": {"finalizers": ["x.example/hold", "x.example/more"]}}),
        "422 Invalid metadata.finalizers",
        given=(create(claim(finalizers=["x.example/hold"])), delete("ResourceClaim", "c")),
    ),
    Row(
        "a stale resourceVersion precondition",
        delete("ResourceClaim", "c", preconditions={"resourceVersion": "1"}),
        "409 Conflict",
        given=(CLAIM,),
    ),
    Row(
        "a class",
        delete("DeviceClass", "semantics"),
        "200",
        given=(create({"kind": "DeviceClass", "metadata": {"name": "semantics"}, "spec": {}}),),
        then=lambda item: item["kind"] == "DeviceClass",
    ),
    Row(
        "a report answers with a status",
        delete("ClaimReport", "c", by="operator"),
        "200",
        given=(create(REPORT, "operator"),),
        then=lambda item: item["kind"] == "Status",
    ),
]

ROWS = [
    pytest.param(row, id=f"{topic}: {row.name}")
    for topic, rows in (
        ("metadata", METADATA),
        ("claim", CLAIM_SPECS),
        ("allocation", ALLOCATIONS),
        ("pod", PODS),
        ("policy", POLICIES),
        ("class", CLASSES),
        ("deletion", DELETIONS),
    )
    for row in rows
]


@pytest.mark.parametrize("row", ROWS)
def test_request(row: Row, world: Any) -> None:
    place = Place(world, exempt=row.exempt)
    for step in row.given:
        response = step(place)
        assert response.ok, f"given: {said(response)}: {response.message}"
    response = row.do(place)
    assert said(response) == row.want, response.message
    if row.then is not None:
        assert row.then(response.body), response.body


def test_dry_run_changes_nothing(place: Place) -> None:
    assert place.send("POST", "ResourceClaim", body=claim(), query={"dryRun": "All"}).status == 201
    assert place.gone("ResourceClaim", "c")


def test_an_update_without_a_change_is_no_event(place: Place) -> None:
    before = place.create(claim())
    after = change("ResourceClaim", "c", lambda _: None)(place)
    assert after.body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
