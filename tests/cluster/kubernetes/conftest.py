from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_operator.cluster.kubernetes.client import Client
from dra_operator.cluster.kubernetes.settings import ClientSettings
from tests.cluster.kubernetes.apiserver import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def pauses() -> list[float]:
    """How long the client would have waited between attempts."""
    return []


@pytest.fixture
async def client(server: FakeApiServer, pauses: list[float]) -> AsyncIterator[Client]:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with Client(server.connection(), ClientSettings(), sleep=sleep) as made:
        yield made
