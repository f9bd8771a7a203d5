"""The bridge beside the loop: it writes while it leads, once everything is listed, and tries again what failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.bridge.reconciling import pool_of
from dra_operator.cluster.kubernetes.client import Unreachable, Withdrawn
from dra_operator.cluster.rest import Request, Response
from dra_operator.operator import bridging as bridging_module
from dra_operator.operator.bridging import Bridging
from dra_operator.operator.feed import Observed, Replaced
from tests.bridge.test_publishing import node

Object = dict[str, Any]


class Server:
    """Answers from `answers`, then with success; keeps what was sent."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.sent: list[Request] = []

    async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response:
        self.sent.append(request)
        status = self.answers.pop(0) if self.answers else 200
        if status is None:
            raise Unreachable("gone")
        body = request.body if isinstance(request.body, dict) and "spec" in request.body else {"metadata": {}}
        return Response(status, {**body, "metadata": {**body["metadata"], "uid": "s", "resourceVersion": "1"}})


def heard(bridging: Bridging, *nodes: Object) -> None:
    for item in nodes:
        bridging.hear(Observed("Node", "ADDED", Key("", item["metadata"]["name"]), item))


def listed(bridging: Bridging) -> None:
    bridging.hear(Replaced("Node", {Key("", "n")}, first=True))
    bridging.hear(Replaced("ResourceSlice", set(), first=True))


async def test_it_publishes_once() -> None:
    server = Server()
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    await bridging.work()
    heard(bridging, node(gpu=2))
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST"]


async def test_it_writes_nothing_while_another_leads_and_makes_up_for_it() -> None:
    server, leading = Server(), [False]
    bridging = Bridging(server, instance="i", leads=lambda: leading[0])
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    assert server.sent == []
    leading[0] = True
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST"]


async def test_what_waits_to_be_sent_when_the_lead_is_lost_is_made_up_for_as_well() -> None:
    leading = [True, False, True, True]

    class Slow(Server):
        async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response:
            if not allowed():
                raise Withdrawn
            return await super().send(request, allowed=allowed)

    server = Slow()
    bridging = Bridging(server, instance="i", leads=lambda: leading.pop(0))
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    assert server.sent == []
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST"]


@pytest.mark.parametrize("answer", [409, 500, None])
async def test_what_failed_is_tried_again(answer: int | None) -> None:
    server = Server(answer)
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST", "POST"]


async def test_what_changes_while_a_write_is_under_way_is_written_as_well() -> None:
    class Busy(Server):
        async def send(self, request: Request, *, allowed: Callable[[], bool]) -> Response:
            if not self.sent:
                heard(bridging, node(gpu=3))
            return await super().send(request, allowed=allowed)

    server = Busy()
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    await bridging.work()
    assert [len(request.body["spec"]["devices"]) for request in server.sent if request.body] == [2, 3]


async def test_a_node_that_goes_takes_its_slices_with_it() -> None:
    server = Server()
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2))
    listed(bridging)
    await bridging.work()
    bridging.hear(Observed("Node", "DELETED", Key("", "n"), node(gpu=2)))
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST", "DELETE"]


async def test_devices_that_are_left_out_are_told_once() -> None:
    server = Server()
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2, **{"a/a": 10**8}))
    listed(bridging)
    for _ in range(2):
        await bridging.work()
        heard(bridging, node({"unrelated": "x"}, gpu=2, **{"a/a": 10**8}))
    (told,) = [request.body for request in server.sent if request.path.endswith("/events")]
    assert told is not None
    assert (told["reason"], told["type"], told["regarding"]["name"]) == ("DevicesLeftOut", "Warning", "n")
    assert "100000000 of a/a" in told["note"]
    (written,) = [request.body for request in server.sent if request.path.endswith("/resourceslices")]
    assert written is not None
    assert len(written["spec"]["devices"]) == 2


async def test_it_goes_on_where_an_event_is_not_taken() -> None:
    server = Server(201, None)
    bridging = Bridging(server, instance="i", leads=lambda: True)
    heard(bridging, node(gpu=2, **{"a/a": 10**8}))
    listed(bridging)
    await bridging.work()
    heard(bridging, node(gpu=3, **{"a/a": 10**8}))
    await bridging.work()
    assert [request.method for request in server.sent] == ["POST", "POST", "PUT"]


async def test_a_node_is_looked_at_without_looking_at_the_slices_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(item: Object) -> str:
        nonlocal looks
        looks += 1
        return pool_of(item)

    monkeypatch.setattr(bridging_module, "pool_of", counted)
    bridging = Bridging(Server(), instance="i", leads=lambda: True)
    nodes = [node(gpu=2) | {"metadata": {**node()["metadata"], "name": f"n{number}"}} for number in range(200)]
    heard(bridging, *nodes)
    listed(bridging)
    bridging.hear(Replaced("Node", {Key("", item["metadata"]["name"]) for item in nodes}, first=False))
    await bridging.work()
    heard(bridging, *nodes)
    await bridging.work()
    assert 0 < looks <= 4 * len(nodes)
