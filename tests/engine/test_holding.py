"""Who holds devices is kept up at the cost of what changed, counted in work and never by the clock."""

from __future__ import annotations

import pytest

from dra_operator.api.meta import Key
from dra_operator.engine import holding
from dra_operator.engine.decisions import EvictPod
from dra_operator.engine.engine import WATCHED, Engine
from tests.engine.stage import GPU, claim, device_class, gpus, node
from tests.engine.test_work import START, counting

HOLDERS = 30


def test_of_many_holders_that_are_written_only_those_are_looked_at_again_whose_write_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    items = [claim(f"c{number}") for number in range(HOLDERS)]
    for number, item in enumerate(items):
        result = {"request": "r0", "driver": GPU, "pool": "n1", "device": f"gpu-{number}"}
        item["status"] = {"allocation": {"devices": {"results": [result]}}}
    kinds = {"Node": [node("n1")], "DeviceClass": [device_class()], "ResourceSlice": [gpus("n1", HOLDERS)]}
    for kind, objects in {**kinds, "ResourceClaim": items}.items():
        for number, item in enumerate(objects):
            item["metadata"] |= {"uid": f"{kind}-{number}", "resourceVersion": "1"}
            engine.observe(kind, "ADDED", item, START)
    for kind in WATCHED:
        engine.synced(kind)
    engine.decide(START)

    held, writes = engine._holding, engine._state.writes
    for number in range(HOLDERS):
        uid = f"ResourceClaim-{number}"
        writes.gone(uid)
        written = EvictPod(writes.next_id(), Key("default", f"c{number}"), uid, "a write of any kind")
        writes.begin(written, None, version=0, now=START)
    held.refresh([Key("default", f"c{number}") for number in range(HOLDERS)])
    assert not any(holder.preemptible for holder in held.index.on("n1"))

    looked_at = counting(monkeypatch, holding, "tie")
    held.settle(START)
    held.settle(START)
    assert (looked_at.calls, held.unsettled) == (0, True)
    writes.gone("ResourceClaim-7")
    held.settle(START)
    held.settle(START)
    assert (looked_at.calls, held.unsettled) == (1, True)
    for number in range(HOLDERS):
        writes.gone(f"ResourceClaim-{number}")
    held.settle(START)
    assert (looked_at.calls, held.unsettled) == (HOLDERS, False)
