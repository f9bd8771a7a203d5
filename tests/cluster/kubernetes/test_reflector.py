"""The reflector against a server that ends, forgets, fails and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.listing import EventType, Page
from dra_operator.cluster.kubernetes.reflector import Reflector
from dra_operator.cluster.kubernetes.settings import WatchSettings
from dra_operator.cluster.rest import NODES, PODS, Resource
from tests.cluster.kubernetes.apiserver import FakeApiServer, until

FAST = WatchSettings(page=2, pause=0.01, longest_pause=0.02)


@dataclass
class Recorder:
    """A sink that keeps the objects it was told of, and the order of what it was told."""

    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    told: list[tuple[str, str]] = field(default_factory=list)
    lists: list[set[str]] = field(default_factory=list)

    def listing(self, resource: Resource, page: Page) -> None:
        for item in page.items:
            self.objects[key(item)] = item

    async def room(self) -> None:
        return None

    def listed(self, resource: Resource, keys: set[Key], revision: str) -> None:
        self.objects = {name: item for name, item in self.objects.items() if name in keys}
        self.lists.append({name.name for name in keys})

    def event(self, resource: Resource, type: EventType, item: dict[str, Any]) -> None:
        self.told.append((type, item["metadata"]["name"]))
        if type == "DELETED":
            del self.objects[key(item)]
        else:
            self.objects[key(item)] = item

    @property
    def names(self) -> set[str]:
        return {name.name for name in self.objects}


def key(item: dict[str, Any]) -> Key:
    return Key(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def watches(server: FakeApiServer) -> int:
    """How many watches of nodes have begun."""
    return sum(path == NODES.path() and "watch" in query for _, path, query in server.log)


@dataclass
class Running:
    reflector: Reflector
    sink: Recorder
    restarts: list[str]


@pytest.fixture
async def running(server: FakeApiServer, client: Client) -> AsyncIterator[Running]:
    for name in ("a", "b", "c"):
        server.put(NODES, name)
    sink, restarts = Recorder(), []
    reflector = Reflector(client, NODES, sink, FAST, restarted=lambda _, reason: restarts.append(reason))
    task = asyncio.create_task(reflector.run())
    await until(lambda: server.watching(NODES) == 1)
    yield Running(reflector, sink, restarts)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_list_comes_in_pages_and_counts_once(server: FakeApiServer, running: Running) -> None:
    assert running.sink.lists == [{"a", "b", "c"}]
    pages = [query for method, path, query in server.log if path == NODES.path() and "watch" not in query]
    assert [query.get("continue") for query in pages] == [None, "2:103"]
    assert all(query["limit"] == "2" for query in pages)


async def test_changes_arrive_in_order(server: FakeApiServer, running: Running) -> None:
    server.put(NODES, "d")
    server.put(NODES, "a", spec={"unschedulable": True})
    server.delete(NODES, "b")
    await until(lambda: len(running.sink.told) == 3)
    assert running.sink.told == [("ADDED", "d"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert running.sink.names == {"a", "c", "d"}
    assert running.restarts == []


async def test_an_event_is_decoded_once_and_not_copied(
    server: FakeApiServer, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []

    def loads(text: bytes) -> Any:
        decoded.append(orjson.loads(text))
        return decoded[-1]

    monkeypatch.setattr("dra_operator.cluster.kubernetes.client.orjson", SimpleNamespace(loads=loads))
    server.put(NODES, "d")
    server.put(NODES, "a", metadata={"labels": {"zone": "x" * 300_000}})  # comes in many pieces
    server.delete(NODES, "b")
    await until(lambda: len(running.sink.told) == 3)
    assert [event["type"] for event in decoded] == ["ADDED", "MODIFIED", "DELETED"]
    assert all(running.sink.objects[key(event["object"])] is event["object"] for event in decoded[:2])


async def test_an_ended_watch_resumes_where_it_was(server: FakeApiServer, running: Running) -> None:
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)
    server.end_watches()
    await until(lambda: watches(server) == 2)
    server.put(NODES, "e")
    await until(lambda: "e" in running.sink.names)
    assert len(running.sink.lists) == 1
    assert running.sink.told == [("ADDED", "d"), ("ADDED", "e")]


async def test_a_bookmark_moves_the_place_to_resume_from(server: FakeApiServer, running: Running) -> None:
    server.put(PODS, "other", "ns")  # the revision moves on without an event for nodes
    server.bookmark(NODES)
    await asyncio.sleep(0.05)
    server.compact()
    server.end_watches()
    await until(lambda: server.requests[("GET", NODES.path())] == 4 and server.watching(NODES) == 1)
    assert len(running.sink.lists) == 1
    assert running.restarts == []


@pytest.mark.parametrize("how", ["in the stream", "as the answer"])
async def test_a_forgotten_revision_means_a_new_list(server: FakeApiServer, running: Running, how: str) -> None:
    server.quietly(NODES, "a")
    server.put(PODS, "other", "ns")
    server.compact()
    if how == "in the stream":
        server.error(NODES, 410, "Expired")
    else:
        server.end_watches()
    await until(lambda: len(running.sink.lists) == 2 and server.watching(NODES) == 1)
    assert running.sink.lists[1] == {"b", "c"}
    assert running.sink.names == {"b", "c"}
    assert running.restarts == ["Expired"]


async def test_another_error_in_the_stream_resumes_without_a_list(server: FakeApiServer, running: Running) -> None:
    server.error(NODES, 500, "InternalError")
    await until(lambda: running.restarts == ["Error"] and server.watching(NODES) == 1)
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)
    assert len(running.sink.lists) == 1


async def test_a_watch_that_keeps_failing_ends_in_a_list(server: FakeApiServer, running: Running) -> None:
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)
    server.fail("GET", NODES.path(), 500, times=3)
    server.end_watches()
    await until(lambda: len(running.sink.lists) == 2 and server.watching(NODES) == 1)
    assert running.restarts == ["Refused", "Refused", "Refused", "Expired"]


async def test_a_server_that_is_away_for_long_is_followed_from_where_the_watch_was(
    server: FakeApiServer, running: Running
) -> None:
    """Or all watches of all replicas would list at once when it is back."""
    await server.stop()
    await until(lambda: running.restarts.count("Error") >= 10)
    server.put(NODES, "d")
    await server.start()
    await until(lambda: "d" in running.sink.names)
    assert len(running.sink.lists) == 1
    assert set(running.restarts) == {"Error"}


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttled_watch_does_not_become_a_list(server: FakeApiServer, running: Running, status: int) -> None:
    server.fail("GET", NODES.path(), status, times=5, headers={"Retry-After": "3"})
    server.end_watches()
    await until(lambda: len(running.restarts) == 5 and server.watching(NODES) == 1)
    assert len(running.sink.lists) == 1


async def test_a_throttled_watch_waits_for_as_long_as_the_server_asks(server: FakeApiServer, client: Client) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    reflector = Reflector(client, NODES, Recorder(), WatchSettings(), sleep=sleep)
    task = asyncio.create_task(reflector.run())
    await until(lambda: server.watching(NODES) == 1)
    server.fail("GET", NODES.path(), 429, headers={"Retry-After": "3"})
    server.fail("GET", NODES.path(), 429, headers={"Retry-After": "3600"})
    server.end_watches()
    await until(lambda: len(pauses) >= 2 and server.watching(NODES) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    throttled = [pause for pause in pauses if pause >= 3]
    assert len(throttled) == 2
    assert 3 <= throttled[0] <= 3.6
    assert 10 <= throttled[1] <= 12


async def test_watches_that_end_at_once_do_not_become_a_hot_loop(server: FakeApiServer, running: Running) -> None:
    server.end_watches_at_once = True
    server.end_watches()
    await asyncio.sleep(0.3)
    assert server.requests[("GET", NODES.path())] < 60
    server.end_watches_at_once = False
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)


async def test_a_restarted_server_loses_nothing(server: FakeApiServer, running: Running) -> None:
    await server.stop()
    await asyncio.sleep(0.05)
    server.put(NODES, "d")
    server.delete(NODES, "a")
    await server.start()
    await until(lambda: running.sink.names == {"b", "c", "d"})


async def test_relist_returns_after_a_list_begun_later(server: FakeApiServer, running: Running) -> None:
    server.quietly(NODES, "c")
    await asyncio.wait_for(running.reflector.relist(), 5)
    assert running.sink.names == {"a", "b"}
    await until(lambda: server.watching(NODES) == 1)
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)
    assert running.restarts == ["Asked"]


async def test_a_list_that_starts_again_half_way_counts_what_its_second_run_saw(
    server: FakeApiServer, running: Running
) -> None:
    server.expired_continues[f"2:{server.revision}"] = lambda: server.quietly(NODES, "a")
    await asyncio.wait_for(running.reflector.relist(), 5)
    assert running.sink.lists[-1] == {"b", "c"}


async def test_a_list_whose_continuations_all_expire_is_read_whole(server: FakeApiServer, running: Running) -> None:
    server.expire_continues = True
    await asyncio.wait_for(running.reflector.relist(), 30)
    assert running.sink.lists[-1] == {"a", "b", "c"}
    lists = [query for _, path, query in server.log if path == NODES.path() and "watch" not in query][-3:]
    assert [(query.get("limit"), query.get("continue")) for query in lists] == [
        ("2", None),
        ("2", "2:103"),
        (None, None),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "<html>Please log in</html>",
        "[]",
        '{"kind": "Status", "status": "Success"}',
        '{"items": []}',
        '{"metadata": {}}',
    ],
)
async def test_an_answer_that_is_no_list_is_not_an_empty_list(
    server: FakeApiServer, running: Running, answer: str
) -> None:
    """As a proxy gives on its way; it must not look as if everything had been deleted."""
    server.answer("GET", NODES.path(), answer)
    await asyncio.wait_for(running.reflector.relist(), 30)
    assert running.sink.lists == [{"a", "b", "c"}] * 2
    assert "ListFailed" in running.restarts


@pytest.mark.parametrize(
    "line",
    [
        "<html>Bad gateway</html>",
        '{"type": "ADDED", "object": {"metadata"',
        '{"kind": "Status", "code": 500}',
        '{"type": "ADDED", "object": {"metadata": {}}}',
        '{"type": "MODIFIED", "object": null}',
        "[]",
    ],
)
async def test_a_line_that_is_no_event_interrupts_the_watch_and_no_more(
    server: FakeApiServer, running: Running, line: str
) -> None:
    server.say(NODES, line)
    await until(lambda: running.restarts == ["Error"] and server.watching(NODES) == 1)
    server.put(NODES, "d")
    await until(lambda: "d" in running.sink.names)
    assert running.sink.lists == [{"a", "b", "c"}]


async def test_managed_fields_never_arrive(server: FakeApiServer, running: Running) -> None:
    server.put(NODES, "d", metadata={"managedFields": [{"manager": "kubelet"}]}, status={"images": [{"names": ["i"]}]})
    await until(lambda: "d" in running.sink.names)
    item = running.sink.objects[Key("", "d")]
    assert "managedFields" not in item["metadata"]
    assert item["status"] == {}
