"""What is said about a cluster that does not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import get_args

import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.requests import nomination_for, request_for
from dra_operator.cluster.rest import DEVICE_TAINT_RULES, ENGINE_KINDS, RESOURCES
from dra_operator.engine import decisions
from dra_operator.operator.metrics import verb_and_resource
from dra_operator.operator.preflight import NotFit, Right, check, rights
from tests.cluster.kubernetes.apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[Client]:
    async with Client(server.connection()) as made:
        yield made


def without(server: FakeApiServer, *plurals: str) -> None:
    for plural in plurals:
        del server.kinds[plural]


async def problems(client: Client, mode: str = "allocate") -> list[str]:
    with pytest.raises(NotFit) as caught:
        await check(client, mode, "dra-operator", "dra-operator")  # type: ignore[arg-type]
    return caught.value.problems


async def test_a_cluster_that_fits(client: Client) -> None:
    assert await check(client, "allocate", "dra-operator", "dra-operator") == frozenset(ENGINE_KINDS)


async def test_taint_rules_may_be_missing_before_1_37(server: FakeApiServer, client: Client) -> None:
    without(server, "devicetaintrules")
    served = await check(client, "allocate", "dra-operator", "dra-operator")
    assert frozenset(ENGINE_KINDS) - served == {DEVICE_TAINT_RULES}


async def test_an_old_cluster(server: FakeApiServer, client: Client) -> None:
    without(server, *[kind for kind, held in server.kinds.items() if held.resource.group == "resource.k8s.io"])
    said = await problems(client)
    assert len(said) == 1
    assert "v1.37.2" in said[0]
    assert "1.34 or newer" in said[0]


async def test_missing_crds(server: FakeApiServer, client: Client) -> None:
    without(server, "claimreports", "claimgroups")
    said = await problems(client)
    assert said == [
        "these CRDs are missing: claimreports.dra-operator.dev, claimgroups.dra-operator.dev; "
        "install them with: kubectl apply --server-side -f manifests/install.yaml"
    ]


@pytest.mark.parametrize(
    ("denied", "said"),
    [
        (("update", "resourceclaims/status"), "missing right: update resourceclaims.resource.k8s.io/status"),
        (("update", "resourceclaims/binding"), "missing right: update resourceclaims.resource.k8s.io/binding"),
        (("watch", "nodes"), "missing right: watch nodes"),
        (("update", "leases"), "missing right: update leases.coordination.k8s.io in namespace dra-operator"),
    ],
)
async def test_missing_rights(server: FakeApiServer, client: Client, denied: tuple[str, str], said: str) -> None:
    server.denied_rights.add(denied)
    assert (await problems(client))[0] == said


async def test_observing_needs_no_right_to_write_claims(server: FakeApiServer, client: Client) -> None:
    server.denied_rights |= {("update", "resourceclaims/status"), ("patch", "pods"), ("create", "pods/eviction")}
    assert await check(client, "observe", "dra-operator", "dra-operator")


async def test_refused_credentials(server: FakeApiServer, client: Client) -> None:
    server.token = "another"
    assert "401" in (await problems(client))[0]


async def test_the_bridge_needs_rights_of_its_own(server: FakeApiServer, client: Client) -> None:
    server.denied_rights.add(("create", "resourceslices"))
    assert await check(client, "allocate", "dra-operator", "dra-operator")
    with pytest.raises(NotFit) as caught:
        await check(client, "allocate", "dra-operator", "dra-operator", bridge=True)
    assert caught.value.problems[0] == "missing right: create resourceslices.resource.k8s.io"
    assert "manifests/bridge" in caught.value.problems[-1]


# -- what is asked for is what is sent

NEW, OLD = {"metadata": {}}, {"metadata": {"resourceVersion": "1"}}
ONE = Key("ns", "one")
#: Of each kind of decision one that leads to each of its requests.
DECISIONS: list[decisions.Decision] = [
    decisions.WriteClaimStatus(1, ONE, "u", OLD, "allocate"),
    decisions.PatchClaim(1, ONE, "u", OLD, "protect"),
    decisions.PatchPod(1, ONE, "u", OLD, None, "n"),
    decisions.EvictPod(1, ONE, "u", "why"),
    *[decisions.WriteReport(1, "ClaimReport", ONE, body) for body in (NEW, OLD)],
    *[decisions.WriteReport(1, "DeviceClassReport", Key("", "gpu"), body) for body in (NEW, OLD)],
    decisions.DeleteReport(1, "ClaimReport", ONE, "u"),
    decisions.DeleteReport(1, "DeviceClassReport", Key("", "gpu"), "u"),
    decisions.WritePolicyStatus(1, "p", OLD),
    decisions.WriteGroupStatus(1, ONE, OLD),
    *[decisions.WriteDeviceClass(1, "c", body) for body in (NEW, OLD)],
    decisions.WriteNetworkStatus(1, "c", OLD),
    decisions.RecordEvent(1, {"kind": "Pod", "name": "one", "namespace": "ns"}, "Normal", "Why", "What", "note"),
]
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
GROUPS = {item.plural: item.group for item in RESOURCES}


def test_the_rights_are_those_of_the_requests_that_decisions_become() -> None:
    assert {type(each) for each in DECISIONS} == set(get_args(decisions.Decision))
    sent = [request_for(each, now=0.0, instance="i") for each in DECISIONS]
    sent += [request for each in DECISIONS if (request := nomination_for(each))]
    needed = {
        Right(VERBS[verb], GROUPS[resource.partition("/")[0]], resource)
        for verb, resource in map(verb_and_resource, sent)
    }
    # The right over a pseudo resource, for which the API server looks when an allocation is written.
    needed.add(Right("update", "resource.k8s.io", "resourceclaims/binding"))
    asked = {right for right in rights("allocate", ENGINE_KINDS, "", "") if right.verb not in ("list", "watch")}
    assert asked == needed
