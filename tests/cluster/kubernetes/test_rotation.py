"""A cluster's certificates are replaced while we run: files change under us, and nobody restarts us."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cluster.kubernetes.client import Client, Unreachable
from dra_operator.cluster.rest import NODES, Request
from tests.cluster.kubernetes.apiserver import CERTIFICATES, FakeApiServer

LIST = Request("GET", NODES.path())


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    fake.certificate = "old.pem"
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return trust(tmp_path / "ca.crt", "old.pem")


def trust(path: Path, *certificates: str) -> Path:
    """As kubelet replaces a file: at once."""
    new = path.with_suffix(".new")
    texts = [(CERTIFICATES / name).read_text().partition("-----BEGIN PRIVATE KEY")[0] for name in certificates]
    new.write_text("".join(texts))
    return new.replace(path)


def leave(path: Path, content: str | None) -> None:
    """None: no file."""
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


async def serve(server: FakeApiServer, certificate: str) -> None:
    """The API server comes back at the same address with another certificate."""
    await server.stop()
    server.certificate = certificate
    await server.start()


async def watched(client: Client) -> list[Any]:
    return [events async for events in client.watch(NODES.path(), {"resourceVersion": "1"}, silence=5)]


@pytest.mark.parametrize("trusted", [("new.pem",), ("old.pem", "new.pem")])
async def test_a_new_authority_is_read_where_the_old_one_fails(
    server: FakeApiServer, authority: Path, trusted: tuple[str, ...]
) -> None:
    connection = server.connection(authority=authority)
    connection._read_at = connection._clock()
    async with Client(connection) as client:
        assert (await client.send(LIST)).status == 200
        trust(authority, *trusted)
        await serve(server, "new.pem")
        assert (await client.send(LIST)).status == 200


async def test_a_watch_reads_it_as_well(server: FakeApiServer, authority: Path) -> None:
    server.end_watches_at_once = True
    connection = server.connection(authority=authority)
    connection._read_at = connection._clock()
    async with Client(connection) as client:
        await watched(client)
        trust(authority, "new.pem")
        await serve(server, "new.pem")
        await watched(client)
    assert server.requests[("GET", NODES.path())] == 2


async def test_a_server_that_nobody_vouches_for_stays_refused(server: FakeApiServer, authority: Path) -> None:
    connection = server.connection(authority=authority)
    async with Client(connection) as client:
        await serve(server, "new.pem")
        for ask in (lambda: client.send(LIST), lambda: watched(client)):
            with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await ask()
    assert not server.requests


async def test_an_authority_taken_away_is_trusted_no_more(server: FakeApiServer, authority: Path) -> None:
    """Not only once something fails: a key that was stolen serves as well as before."""
    connection = server.connection(authority=authority)
    now = connection._clock()
    connection._clock = lambda: now
    async with Client(connection) as client:
        assert (await client.send(LIST)).status == 200
        trust(authority, "new.pem")
        connection._clock = lambda: now + 61
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.send(LIST)


@pytest.mark.parametrize("content", [None, "", "-----BEGIN CERTIFICATE-----\nhalf of"])
async def test_a_file_that_cannot_be_read_keeps_what_was_read(
    server: FakeApiServer, authority: Path, content: str | None
) -> None:
    connection = server.connection(authority=authority)
    async with Client(connection) as client:
        leave(authority, content)
        for _ in range(2):
            await connection.authorization(renew=True)
            assert (await client.send(LIST)).status == 200
        trust(authority, "new.pem")
        await serve(server, "new.pem")
        assert (await client.send(LIST)).status == 200


async def test_what_has_not_changed_keeps_its_connections(server: FakeApiServer, authority: Path) -> None:
    connection = server.connection(authority=authority)
    first = connection.tls()
    shutil.copy(authority, authority.with_suffix(".copy"))
    authority.with_suffix(".copy").replace(authority)
    await connection.authorization(renew=True)
    assert connection.tls() is first


async def test_a_client_certificate_is_read_again_as_well(server: FakeApiServer, tmp_path: Path) -> None:
    """kubeconfigs name files that some agent renews."""
    authority = trust(tmp_path / "ca.crt", "old.pem")
    mine = Path(shutil.copy(CERTIFICATES / "old.pem", tmp_path / "mine.pem"))
    connection = server.connection(authority=authority)
    connection.certificate_path = connection._configuration.cert_file = str(mine)
    first = connection.tls()
    shutil.copy(CERTIFICATES / "new.pem", mine)
    await connection.authorization(renew=True)
    assert connection.tls() is not first
