"""What requests do with pods: gates, affinity, bindings, deletions with a grace period."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.semantics.rows import GATED, PLAIN, UNGATE, Row, gates
from tests.cluster.semantics.things import bind, change, create, delete, pod, strategic, uses
from tests.cluster.semantics.worlds import GATE, ClusterWorld


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


@pytest.mark.parametrize("row", PODS, ids=str)
def test_pod(row: Row, world: ClusterWorld) -> None:
    row.play(world)
