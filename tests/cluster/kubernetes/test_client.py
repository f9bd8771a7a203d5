"""Throttling, credentials, errors."""

from __future__ import annotations

import pytest

from dra_operator.cluster.kubernetes.client import Client, Unreachable, WatchRefused, Withdrawn
from dra_operator.cluster.kubernetes.settings import ClientSettings
from dra_operator.cluster.rest import NODES, PODS, Request
from tests.cluster.kubernetes.apiserver import FakeApiServer

LIST = Request("GET", NODES.path())


async def test_an_answer_is_an_answer_whatever_its_status(server: FakeApiServer, client: Client) -> None:
    response = await client.send(Request("GET", NODES.path(name="none")))
    assert (response.status, response.ok, response.reason) == (404, False, "NotFound")


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, {"Retry-After": "3"}, [(3.0, 3.6)]),
        (503, {}, [(1.0, 1.2)]),
        (503, {"Retry-After": "soon"}, [(1.0, 1.2)]),
        (429, {"Retry-After": "3600"}, [(10.0, 12.0)]),
    ],
)
async def test_a_throttled_request_is_sent_again_after_the_pause(
    server: FakeApiServer,
    client: Client,
    pauses: list[float],
    status: int,
    headers: dict[str, str],
    expected: list[tuple[float, float]],
) -> None:
    server.fail("GET", NODES.path(), status, headers=headers)
    response = await client.send(LIST)
    assert response.status == 200
    assert len(pauses) == len(expected)
    assert all(low <= pause <= high for pause, (low, high) in zip(pauses, expected, strict=True))


async def test_throttling_has_an_end(server: FakeApiServer, client: Client, pauses: list[float]) -> None:
    server.fail("GET", NODES.path(), 429, times=10)
    response = await client.send(LIST)
    assert response.status == 429
    assert server.requests[("GET", NODES.path())] == client.settings.attempts
    assert len(pauses) == client.settings.attempts - 1


async def test_a_refused_eviction_is_an_answer(server: FakeApiServer, client: Client, pauses: list[float]) -> None:
    path = PODS.path("ns", "p", "eviction")
    server.fail("POST", path, 429, times=5)
    response = await client.send(Request("POST", path, {}))
    assert response.status == 429
    assert pauses == []


async def test_no_answer_is_no_answer(server: FakeApiServer, client: Client) -> None:
    await server.stop()
    with pytest.raises(Unreachable, match="GET /api/v1/nodes"):
        await client.send(LIST)


async def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(server: FakeApiServer) -> None:
    server.hangs.add(NODES.path())
    async with Client(server.connection(), ClientSettings(request_timeout=0.05)) as client:
        with pytest.raises(Unreachable, match="GET /api/v1/nodes"):
            await client.send(LIST)
        with pytest.raises(Unreachable, match="WATCH /api/v1/nodes"):
            async for _ in client.watch(NODES.path(), {"resourceVersion": "1"}, silence=0.05):
                pass


async def test_a_page_of_a_proxy_becomes_a_message(server: FakeApiServer, client: Client) -> None:
    response = await client.send(Request("GET", "/nothing/here"))
    assert response.status == 404
    assert response.message


async def test_a_success_that_is_no_object_is_no_answer(server: FakeApiServer, client: Client) -> None:
    """Whether the API server has ever heard of a write that a proxy answers is not known."""
    server.answer("PUT", NODES.path(name="n"), "<html>Please log in</html>")
    with pytest.raises(Unreachable, match="Please log in"):
        await client.send(Request("PUT", NODES.path(name="n"), {"metadata": {"name": "n"}}))


async def test_a_token_that_cannot_be_read_again_is_an_answer(server: FakeApiServer) -> None:
    connection = server.connection("old")
    server.token = "new"

    async def read() -> object:
        raise ValueError("the file is being written")

    connection._reload = read
    async with Client(connection) as client:
        assert (await client.send(LIST)).status == 401
        with pytest.raises(WatchRefused):
            async for _ in client.watch(NODES.path(), {"resourceVersion": "1"}, silence=1):
                pass


async def test_a_rotated_token_is_read_again_after_a_401(server: FakeApiServer) -> None:
    connection = server.connection("old")
    server.token = "new"
    reads = 0

    async def read() -> object:
        nonlocal reads
        reads += 1
        return server.connection("new")._configuration

    connection._reload = read
    connection._read_at = connection._clock()
    async with Client(connection) as client:
        assert (await client.send(LIST)).status == 200
        assert (await client.send(LIST)).status == 200
    assert reads == 1


async def test_a_token_that_stays_wrong_is_an_answer(server: FakeApiServer, client: Client) -> None:
    server.token = "another"
    response = await client.send(LIST)
    assert response.status == 401
    assert server.requests[("GET", NODES.path())] == 2


@pytest.mark.parametrize(
    ("failures", "answers", "requests"),
    [
        ([], [False], 0),
        ([429], [True, True, False], 1),
        ([401], [True, True, False], 1),
        # As when the connection took long: the headers may be out by then, and no API server acts on those.
        ([], [True, False], None),
    ],
)
async def test_what_is_not_allowed_any_more_is_not_written(
    server: FakeApiServer, client: Client, failures: list[int], answers: list[bool], requests: int | None
) -> None:
    """`answers`: what is answered each time it is asked."""
    server.put(NODES, "n", labels="old")
    for status in failures:
        server.fail("PUT", NODES.path(name="n"), status)
    body = {"metadata": {"name": "n"}, "labels": "new"}
    with pytest.raises(Withdrawn):
        await client.send(Request("PUT", NODES.path(name="n"), body), allowed=lambda: answers.pop(0))
    assert server.kinds["nodes"].objects[("", "n")]["labels"] == "old"
    if requests is not None:
        assert server.requests[("PUT", NODES.path(name="n"))] == requests
    assert (await client.send(Request("PUT", NODES.path(name="n"), body), allowed=lambda: True)).status == 200


async def test_every_attempt_is_observed(server: FakeApiServer) -> None:
    seen: list[tuple[str, int]] = []
    async with Client(
        server.connection(), observer=lambda request, status, _: seen.append((request.path, status))
    ) as client:
        await client.send(LIST)
        await server.stop()
        with pytest.raises(Unreachable):
            await client.send(LIST)
    assert seen == [(NODES.path(), 200), (NODES.path(), 0)]
