"""Whole lists on demand, shared by those who want one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.listing import Page
from dra_operator.cluster.kubernetes.settings import WatchSettings
from dra_operator.cluster.rest import RESOURCE_CLAIMS, Resource
from dra_operator.operator.lister import Lister
from tests.cluster.kubernetes.apiserver import FakeApiServer

PATH = RESOURCE_CLAIMS.path()
#: The claims there are at first: two pages.
ALL = {"a", "b", "c"}


class Listed:
    """A sink that remembers the lists it was given."""

    def __init__(self) -> None:
        self.lists: list[set[str]] = []
        self.while_reading: list[Any] = []

    def listing(self, resource: Resource, page: Page) -> None:
        for act in self.while_reading:
            act()
        self.while_reading.clear()

    async def room(self) -> None:
        return None

    def listed(self, resource: Resource, keys: set[Key], revision: str) -> None:
        self.lists.append({key.name for key in keys})

    def event(self, resource: Resource, type: Any, item: dict[str, Any]) -> None:
        raise AssertionError("a list tells no events")


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    await fake.start()
    for name in "abc":
        fake.put(RESOURCE_CLAIMS, name, "ns")
    yield fake
    await fake.stop()


@pytest.fixture
async def lister(server: FakeApiServer) -> AsyncIterator[tuple[Lister, Listed, list[int]]]:
    sink, failures = Listed(), [0]

    def failed() -> None:
        failures[0] += 1

    async with Client(server.connection()) as client:
        settings = WatchSettings(page=2, pause=0.01, longest_pause=0.02)
        yield Lister(client, RESOURCE_CLAIMS, sink, settings, failed=failed), sink, failures


async def test_wishes_while_a_list_is_read_share_the_next(server: FakeApiServer, lister: Any) -> None:
    wanted, sink, _ = lister
    later: list[asyncio.Task[None]] = []

    def change() -> None:
        server.put(RESOURCE_CLAIMS, "d", "ns")
        later.extend(asyncio.ensure_future(wanted.read()) for _ in range(3))

    sink.while_reading.append(change)
    await wanted.read()
    await asyncio.gather(*later)
    assert (len(sink.lists), sink.lists[-1]) == (2, ALL | {"d"})
    assert server.requests[("GET", PATH)] == 4


async def test_the_first_list_is_read_once(server: FakeApiServer, lister: Any) -> None:
    wanted, sink, _ = lister
    await asyncio.gather(wanted.read(), wanted.read_first())
    await wanted.read_first()
    assert len(sink.lists) == 1


async def test_a_list_is_tried_until_it_succeeds(server: FakeApiServer, lister: Any) -> None:
    wanted, sink, failures = lister
    server.fail("GET", PATH, 500, times=3)
    await wanted.read()
    assert sink.lists == [ALL]
    assert failures == [3]


async def test_who_gives_up_waiting_does_not_take_the_list_from_others(server: FakeApiServer, lister: Any) -> None:
    wanted, sink, _ = lister
    first, second = asyncio.ensure_future(wanted.read()), asyncio.ensure_future(wanted.read())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert sink.lists == [ALL]
