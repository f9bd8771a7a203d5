"""What an answer to a write, or none, means: one row a case."""

from __future__ import annotations

import pytest

from dra_operator.api.claims import Allocation
from dra_operator.api.meta import Key
from dra_operator.engine.decisions import Outcome, PatchPod, WriteClaimStatus
from dra_operator.engine.writes import Effect, Writes
from dra_operator.queue.units import UnitKey

UNIT = UnitKey("pod", Key("d", "p"))


def begin(writes: Writes) -> WriteClaimStatus:
    decision = WriteClaimStatus(writes.next_id(), Key("d", "c"), "uid", {}, "allocate")
    writes.begin(decision, UNIT, version=7, now=0, allocation=Allocation())
    return decision


@pytest.mark.parametrize(
    ("status", "effect", "still_open"),
    [
        (200, Effect.WAIT, True),  # until our own watch has shown it
        (409, Effect.WAIT, True),  # somebody else was faster: the watch will tell what holds
        (0, Effect.REPEAT, True),  # it may have happened: the devices stay taken
        (500, Effect.REPEAT, True),
        (429, Effect.REPEAT, True),
        (403, Effect.FAILED, False),
        (404, Effect.DENIED, True),  # it is gone: nothing is sent again before our watch shows that
        (422, Effect.FAILED, False),
    ],
)
def test_answers(status: int, effect: Effect, still_open: bool) -> None:
    writes = Writes(retry_after=1, forget_after=30)
    decision = begin(writes)
    assert writes.settle(Outcome(decision, status), 1)[0] is effect
    assert (writes.get("uid") is not None) == still_open


def test_a_refusal_after_silence_is_not_certain() -> None:
    """The unanswered attempt may have been the one that was carried out."""
    writes = Writes(retry_after=1, forget_after=30)
    writes.settle(Outcome(begin(writes), 0), 0)
    [repeated] = writes.repeats(1)
    assert writes.settle(Outcome(repeated, 422), 1)[0] is Effect.WAIT
    assert writes.get("uid") is not None
    assert writes.expired(30.9) == []
    assert [write.decision.uid for write in writes.expired(31)] == ["uid"]


def test_the_same_write_is_repeated() -> None:
    writes = Writes(retry_after=1, forget_after=30)
    decision = begin(writes)
    writes.settle(Outcome(decision, 0), 5)
    assert writes.repeats(5.9) == []
    [repeated] = writes.repeats(6)
    assert isinstance(repeated, WriteClaimStatus)
    assert (repeated.body, repeated.claim) == (decision.body, decision.claim)
    assert repeated.id != decision.id
    assert writes.settle(Outcome(decision, 200), 7)[0] is Effect.UNKNOWN  # the late answer to the first attempt


def test_only_a_newer_version_ends_the_assumption() -> None:
    writes = Writes(retry_after=1, forget_after=30)
    begin(writes)
    assert writes.seen("uid", 7) is None
    ended = writes.seen("uid", 8)
    assert ended is not None
    assert ended.unit == UNIT
    assert writes.get("uid") is None


def patch(writes: Writes) -> PatchPod:
    decision = PatchPod(writes.next_id(), Key("d", "p"), "pod-uid", {}, None)
    writes.begin(decision, UNIT, version=0, now=0)
    return decision


@pytest.mark.parametrize("status", [403, 409, 422])
def test_what_is_denied_is_tried_again_ever_more_rarely(status: int) -> None:
    """Pod patches carry the uid, no version: a conflict says that it is another pod."""
    writes = Writes(retry_after=1, forget_after=30)
    pauses = []
    for _ in range(20):
        assert writes.settle(Outcome(patch(writes), status), 1000)[0] is Effect.DENIED
        wake = writes.next_wake()
        assert wake is not None
        assert writes.expired(wake - 0.01) == []
        assert [write.denied for write in writes.expired(wake)] == [True]
        pauses.append(wake - 1000)
    assert pauses[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert pauses[-1] == 300


def test_after_a_success_or_another_object_pauses_begin_anew() -> None:
    writes = Writes(retry_after=1, forget_after=30)
    for status in (403, 200):
        writes.settle(Outcome(patch(writes), status), 0)
        writes.expired(30)
    writes.settle(Outcome(patch(writes), 403), 100)
    assert writes.next_wake() == pytest.approx(100.1)
    writes.gone("pod-uid")
    writes.settle(Outcome(patch(writes), 403), 200)
    assert writes.next_wake() == pytest.approx(200.1)
