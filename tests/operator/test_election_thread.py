"""The election goes on while the main event loop stands still. Real threads and sockets; the API server has a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from dra_operator.cluster.kubernetes.connection import NoConnection
from dra_operator.cluster.kubernetes.settings import ClientSettings
from dra_operator.cluster.rest import LEASES
from dra_operator.operator.election import Election
from dra_operator.operator.election_thread import ElectionThread
from dra_operator.operator.settings import LeadershipSettings
from tests.cluster.kubernetes.apiserver import FakeApiServer, until

PATH = LEASES.path("dra-operator", "dra-operator")


class Rig:
    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.changes = 0
        self.election = Election(LeadershipSettings(retry_period=0.05), identity="me", changed=self._changed)
        self.connection = server.connection()
        self.thread = self.made()

    def _changed(self) -> None:
        self.changes += 1

    def made(self) -> ElectionThread:
        return ElectionThread(
            self.election, self.connection, ClientSettings(), user_agent="test", observer=lambda *_: None
        )

    @property
    def renewals(self) -> int:
        return self.server.requests[("PUT", PATH)]

    @property
    def holder(self) -> str | None:
        lease = self.server.kinds["leases"].objects.get(("dra-operator", "dra-operator"))
        return lease["spec"]["holderIdentity"] if lease else None


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    server, loop = FakeApiServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(30)
    yield Rig(server)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


def stand_still_until(condition: Callable[[], bool]) -> None:
    """The event loop of the test runs nothing meanwhile."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


async def test_the_lease_is_renewed_while_the_event_loop_stands_still(rig: Rig) -> None:
    running = asyncio.create_task(rig.thread.run())
    await until(lambda: rig.election.term is not None)
    term, before = rig.election.term, rig.renewals
    stand_still_until(lambda: rig.renewals >= before + 5)
    assert term is not None
    assert rig.election.term is not None
    assert rig.election.term.number == term.number
    assert rig.election.term.until > term.until
    await rig.thread.release()
    await running
    assert rig.election.term is None
    assert rig.holder == ""


async def test_a_throttled_renewal_is_not_put_off_for_as_long_as_the_api_server_asks(rig: Rig) -> None:
    rig.server.fail("GET", PATH, 429, times=4, headers={"Retry-After": "3600"})
    running = asyncio.create_task(rig.thread.run())
    await until(lambda: rig.renewals >= 2)
    await rig.thread.release()
    await running


async def test_one_released_before_it_began_never_holds_the_lease(rig: Rig) -> None:
    running = asyncio.create_task(rig.thread.run())
    await rig.thread.release()
    await running
    assert rig.holder is None
    assert rig.changes == 0


async def test_one_that_is_cancelled_ends(rig: Rig) -> None:
    running = asyncio.create_task(rig.thread.run())
    await until(lambda: rig.renewals >= 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: all(thread.name != "election" for thread in threading.enumerate()))


async def test_what_ends_it_is_raised_where_somebody_waits(rig: Rig) -> None:
    rig.connection = replace(rig.connection, server="https://127.0.0.1:1", ca_path="/nowhere/ca.crt")
    with pytest.raises(NoConnection):
        await rig.made().run()
