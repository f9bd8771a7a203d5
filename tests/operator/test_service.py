"""The whole operator, Kopf included, against the small API server; the engine is a stand-in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.settings import ClientSettings, WatchSettings
from dra_operator.cluster.rest import ENGINE_KINDS, LEASES, NODES, RESOURCE_CLAIMS
from dra_operator.engine.decisions import WriteClaimStatus
from dra_operator.operator.service import Service
from dra_operator.operator.settings import (
    KopfSettings,
    LeadershipSettings,
    ProbeSettings,
    Settings,
)
from dra_operator.operator.watches import watched_by_kopf
from tests.cluster.kubernetes.apiserver import FakeApiServer, until
from tests.operator.fakes import FakeEngine

SETTINGS = Settings(
    client=ClientSettings(request_timeout=60, connect_timeout=60),
    watch=WatchSettings(page=2, pause=0.02, longest_pause=0.05),
    leadership=LeadershipSettings(retry_period=0.1),
    kopf=KopfSettings(restart_pause=0.05, longest_restart_pause=0.1),
    probes=ProbeSettings(port=0),
)


#: There are three claims and nodes.
PAGES_OF_THREE = 2


class Rig:
    def __init__(self, server: FakeApiServer, settings: Settings = SETTINGS) -> None:
        self.server = server
        self.engines: list[FakeEngine] = []
        self.service = Service(server.connection(), settings, self._engine, signals=False, probe_host="127.0.0.1")
        self.task = asyncio.create_task(self.service.run())

    def _engine(self) -> Any:
        self.engines.append(FakeEngine())
        return self.engines[-1]

    @property
    def engine(self) -> FakeEngine:
        return self.engines[-1]

    def alive(self, kind: str) -> set[str]:
        """What the engine believes to be there."""
        names: set[str] = set()
        for told in self.engine.told:
            if told[1] != kind:
                continue
            match told:
                case ("REPLACED", _, keys):
                    names &= keys
                case ("DELETED", _, name):
                    names.discard(name)
                case ("SYNCED", _):
                    pass
                case (_, _, name):
                    names.add(name)
        return names

    async def leading(self) -> None:
        await until(lambda: self.engines and self.engine.decided_at)
        await until(lambda: all(self.server.watching(resource) for resource in ENGINE_KINDS))
        await until(
            lambda: kopf_watches(self.server) == {item.path() for item in ENGINE_KINDS if watched_by_kopf(item)}
        )

    def sample(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    await fake.start()
    for name in ("a", "b", "c"):
        fake.put(RESOURCE_CLAIMS, name, "ns")
        fake.put(NODES, name)
    yield fake
    await fake.stop()


@pytest.fixture
async def rig(server: FakeApiServer) -> AsyncIterator[Rig]:
    made = Rig(server)
    await made.leading()
    yield made
    if not made.task.done():
        made.service.stop()
        await asyncio.wait_for(made.task, 30)


async def test_the_engine_hears_every_kind_whole_before_it_decides(rig: Rig) -> None:
    synced = {told[1] for told in rig.engine.told if told[0] == "SYNCED"}
    assert synced == {resource.kind for resource in ENGINE_KINDS}
    assert rig.alive("ResourceClaim") == rig.alive("Node") == {"a", "b", "c"}
    assert sum(told == ("MODIFIED", "ResourceClaim", "a") for told in rig.engine.told) == 1, (
        "Kopf's own list adds nothing"
    )


def ours(query: dict[str, str]) -> bool:
    """Our own watches set an end, Kopf's do not."""
    return "timeoutSeconds" in query


@pytest.mark.parametrize("stuck", ["no watch", "our own watch", "Kopf's watch"])
async def test_claims_arrive_by_either_watch(server: FakeApiServer, rig: Rig, stuck: str) -> None:
    server.mute = lambda query: stuck == ("our own watch" if ours(query) else "Kopf's watch")
    server.put(RESOURCE_CLAIMS, "d", "ns")
    server.delete(RESOURCE_CLAIMS, "a", "ns")
    await until(lambda: rig.alive("ResourceClaim") == {"b", "c", "d"})


async def test_what_two_watches_tell_is_told_once(server: FakeApiServer, rig: Rig) -> None:
    server.put(RESOURCE_CLAIMS, "d", "ns")
    server.put(RESOURCE_CLAIMS, "d", "ns")
    server.delete(RESOURCE_CLAIMS, "d", "ns")
    await until(lambda: ("DELETED", "ResourceClaim", "d") in rig.engine.told)
    server.mute = ours
    server.put(RESOURCE_CLAIMS, "e", "ns")
    await until(lambda: "e" in rig.alive("ResourceClaim"))  # Kopf has handled what came before
    assert [told[0] for told in rig.engine.told if told[2:] == ("d",)] == ["ADDED", "MODIFIED", "DELETED"]


async def test_nodes_arrive_through_our_own_watch(server: FakeApiServer, rig: Rig) -> None:
    server.put(NODES, "d")
    server.delete(NODES, "a")
    await until(lambda: rig.alive("Node") == {"b", "c", "d"})


async def test_a_start_lists_no_kind_more_often_than_it_must(server: FakeApiServer, rig: Rig) -> None:
    """Every kind once by us, Kopf's kinds once by Kopf."""
    assert lists(server) == {
        resource.path(): (2 if watched_by_kopf(resource) else 1)
        * (PAGES_OF_THREE if resource in (RESOURCE_CLAIMS, NODES) else 1)
        for resource in ENGINE_KINDS
    }


def kopf_watches(server: FakeApiServer) -> set[str]:
    """The paths that Kopf has watched so far."""
    watches = ((path, query) for method, path, query in server.log if method == "GET" and "watch" in query)
    return {path for path, query in watches if not ours(query)}


def lists(server: FakeApiServer) -> Counter[str]:
    """LIST requests so far by path; preflight and watches left out."""
    paths = {resource.path() for resource in ENGINE_KINDS}
    return Counter(
        path for method, path, query in server.log if method == "GET" and path in paths and "watch" not in query
    )


async def test_kopf_writes_nothing(server: FakeApiServer, rig: Rig) -> None:
    server.put(RESOURCE_CLAIMS, "d", "ns")
    await until(lambda: "d" in rig.alive("ResourceClaim"))
    await until(lambda: server.requests[("PUT", LEASES.path("dra-operator", "dra-operator"))])
    written = {(method, path) for method, path in server.requests if method != "GET"}
    assert {entry for entry in written if "selfsubjectaccessreviews" not in entry[1]} == {
        ("POST", LEASES.path("dra-operator")), ("PUT", LEASES.path("dra-operator", "dra-operator")),
    }  # fmt: skip


async def test_an_allocation_is_written_and_settled(server: FakeApiServer, rig: Rig) -> None:
    claim = server.kinds["resourceclaims"].objects[("ns", "a")]
    decision = WriteClaimStatus(1, Key("ns", "a"), "u", {**claim, "status": {"allocation": {}}}, "allocate")
    rig.engine.plan.append([decision])
    server.put(NODES, "wake")
    await until(lambda: rig.engine.outcomes)
    outcome = rig.engine.outcomes[0]
    assert (outcome.status, outcome.decision) == (200, decision)
    assert outcome.object is not None
    assert rig.sample("dra_operator_outcomes_total", kind="WriteClaimStatus", status="200", reason="") == 1


@pytest.mark.parametrize("how", ["410 in the stream", "500 in the stream", "the server is restarted"])
async def test_a_watch_ends_and_nothing_is_lost(server: FakeApiServer, rig: Rig, how: str) -> None:
    """Kopf ends with an error in a watch, and after a 410 it does not tell what is gone."""
    if how == "the server is restarted":
        await server.stop()
        server.delete(RESOURCE_CLAIMS, "a", "ns")
        await server.start()
    else:
        server.quietly(RESOURCE_CLAIMS, "a", "ns")
        server.compact()
        server.error(RESOURCE_CLAIMS, int(how[:3]), "Expired")
    server.put(RESOURCE_CLAIMS, "d", "ns")
    await until(lambda: rig.alive("ResourceClaim") == {"b", "c", "d"}, 30)
    if how == "500 in the stream":
        await until(lambda: rig.sample("dra_operator_kopf_restarts_total") >= 1)
    server.mute = ours
    server.put(RESOURCE_CLAIMS, "e", "ns")
    await until(lambda: "e" in rig.alive("ResourceClaim"), 60)  # Kopf follows again
    assert not rig.task.done()


async def test_an_api_server_that_is_away_for_longer_than_the_lease_lasts(server: FakeApiServer) -> None:
    """Nothing is decided meanwhile, and everything goes on with a fresh engine when it is back."""
    short = LeadershipSettings(lease_duration=1, renew_deadline=0.5, retry_period=0.05)
    rig = Rig(server, replace(SETTINGS, leadership=short))
    await rig.leading()
    await server.stop()
    await until(
        lambda: rig.sample("dra_operator_leadership_changes_total", change="lost") >= 1 and len(rig.engines) > 1
    )
    server.put(RESOURCE_CLAIMS, "d", "ns")
    server.delete(RESOURCE_CLAIMS, "a", "ns")
    server.compact()
    await server.start()
    await until(lambda: rig.alive("ResourceClaim") == {"b", "c", "d"} and rig.engine.decided_at)
    assert not rig.task.done()
    rig.service.stop()
    await asyncio.wait_for(rig.task, 60)


@pytest.mark.parametrize("path", ["/version", "/apis/resource.k8s.io/v1"])
async def test_it_can_be_stopped_while_the_api_server_does_not_answer(server: FakeApiServer, path: str) -> None:
    """As kubelet does with a pod that is deleted while it starts."""
    server.hangs.add(path)
    rig = Rig(server, replace(SETTINGS, client=ClientSettings(request_timeout=3600)))
    await until(lambda: server.requests[("GET", path)])
    rig.service.stop()
    await asyncio.wait_for(rig.task, 60)
    assert rig.engines == []


async def test_a_graceful_stop_gives_the_lease_up(server: FakeApiServer, rig: Rig) -> None:
    lease = server.kinds["leases"].objects[("dra-operator", "dra-operator")]
    assert lease["spec"]["holderIdentity"] == rig.service.identity
    rig.service.stop()
    await asyncio.wait_for(rig.task, 30)
    lease = server.kinds["leases"].objects[("dra-operator", "dra-operator")]
    assert lease["spec"]["holderIdentity"] == ""
    leftovers = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not [task for task in leftovers if "kopf" in repr(task) or "dra_operator" in repr(task)]


async def write_in_flight(server: FakeApiServer, rig: Rig) -> None:
    """The API server has an allocation and does not answer."""
    path = RESOURCE_CLAIMS.path("ns", "a", "status")
    server.hangs.add(path)
    claim = server.kinds["resourceclaims"].objects[("ns", "a")]
    rig.engine.plan.append([WriteClaimStatus(1, Key("ns", "a"), "u", {**claim, "status": {}}, "allocate")])
    server.put(NODES, "wake")
    await until(lambda: server.requests[("PUT", path)])
    assert rig.sample("dra_operator_writes_in_flight") == 1


async def test_what_is_in_flight_when_the_lease_is_lost_is_given_up(server: FakeApiServer, rig: Rig) -> None:
    await write_in_flight(server, rig)
    theirs = {"holderIdentity": "another", "renewTime": "now", "leaseDurationSeconds": 3600}
    server.put(LEASES, "dra-operator", "dra-operator", spec=theirs)
    await until(lambda: rig.sample("dra_operator_writes_in_flight") == 0)
    await until(lambda: len(rig.engines) > 1 and rig.alive("ResourceClaim") == {"a", "b", "c"})
    assert rig.sample("dra_operator_leader") == 0
    assert rig.engine.decided_at == []


async def test_a_stop_waits_for_what_is_in_flight_but_not_for_ever(server: FakeApiServer) -> None:
    rig = Rig(server, replace(SETTINGS, loop=replace(SETTINGS.loop, stop_grace=0.1)))
    await rig.leading()
    await write_in_flight(server, rig)
    rig.service.stop()
    await asyncio.wait_for(rig.task, 60)
    lease = server.kinds["leases"].objects[("dra-operator", "dra-operator")]
    assert lease["spec"]["holderIdentity"] == ""


async def test_a_follower_is_ready_and_takes_over_when_the_leader_stops(server: FakeApiServer, rig: Rig) -> None:
    second = Rig(server)
    await until(lambda: second.engines and second.alive("Node") == {"a", "b", "c"})
    await asyncio.sleep(0.3)
    assert second.engine.decided_at == []
    assert rig.engine.decided_at
    rig.service.stop()
    await asyncio.wait_for(rig.task, 30)
    await until(lambda: second.engine.decided_at)
    second.service.stop()
    await asyncio.wait_for(second.task, 30)


async def test_a_crashing_engine_is_replaced_and_told_everything_again(server: FakeApiServer) -> None:
    rig = Rig(server, replace(SETTINGS, loop=replace(SETTINGS.loop, crash_pause=0.02)))
    await rig.leading()
    rig.engine.crash = RuntimeError("boom")
    server.put(NODES, "d")
    await until(lambda: len(rig.engines) == 2 and rig.engine.decided_at)
    await until(lambda: rig.alive("Node") == {"a", "b", "c", "d"})
    await until(lambda: rig.alive("ResourceClaim") == {"a", "b", "c"})
    await until(lambda: rig.service.metrics.registry.get_sample_value("dra_operator_engine_crashes_total") == 1)
    await until(lambda: len({told[1] for told in rig.engine.told if told[0] == "SYNCED"}) == len(ENGINE_KINDS))
    synced = {told[1] for told in rig.engine.told if told[0] == "SYNCED"}
    assert synced == {resource.kind for resource in ENGINE_KINDS}
    rig.service.stop()
    await asyncio.wait_for(rig.task, 30)
