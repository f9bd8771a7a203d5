"""What a pass costs, counted in work and never by the clock: an event in a long queue looks at what it concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.engine import placing
from dra_operator.engine.decisions import Decision, Outcome, WriteClaimStatus, WriteReport
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.holding import Holding
from dra_operator.engine.line import Line
from dra_operator.engine.preempting import Preempting
from dra_operator.engine.queueing import Queue
from dra_operator.engine.reportcontent import Content
from dra_operator.engine.state import State
from dra_operator.engine.writes import Writes
from dra_operator.queue.policies import PolicyBook
from tests.engine.stage import claim, device_class, gpus, node, policy

WAITING = 400
START = 1_000_000_000.0


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return function(*args, **kwargs)

        return counted


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Counter:
    counter = Counter()
    monkeypatch.setattr(owner, name, counter.around(getattr(owner, name)))
    return counter


class Long:
    """An engine with a long queue: all claims ask for more than there is, in ten kinds."""

    def __init__(self, waiting: int = WAITING) -> None:
        self.engine, self.now, self.version = Engine(), START, 0
        self.put("DeviceClass", device_class())
        for number in range(4):
            self.put("Node", node(f"n{number}"))
            self.put("ResourceSlice", gpus(f"n{number}", 8))
        for kind in ("a", "b"):
            self.put("AllocationPolicy", policy(kind, claimSelector={"matchLabels": {"kind": kind}}))
        for number in range(waiting):
            self.arrive(number, 9 + number % 10)
        for kind in WATCHED:
            self.engine.synced(kind)
        self.passes(3)

    def put(self, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        created = "2001-09-09T01:40:00Z"
        item["metadata"] |= {
            "resourceVersion": str(self.version),
            "uid": f"u{self.version:06}",
            "creationTimestamp": created,
        }
        self.engine.observe(kind, "ADDED", item, self.now)

    def arrive(self, number: int, count: int, **labels: str) -> None:
        item = claim(f"c{number:05}", count)
        item["metadata"] |= {
            "labels": {"dra-operator.dev/managed": "true", **labels},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        }
        self.put("ResourceClaim", item)

    def passes(self, number: int) -> None:
        """Half a second takes 17: a claim that arrives counts as bare after that."""
        for _ in range(number):
            self.now += 0.03
            self.engine.decide(self.now)


def test_policies_are_matched_once_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long()
    matched = counting(monkeypatch, PolicyBook, "for_claim")
    long.passes(20)
    assert matched.calls == 0
    for number in range(10):
        long.arrive(WAITING + number, 9)
        long.passes(1)
    long.passes(17)
    assert long.engine.waiting == WAITING + 10
    # A few times each for what looks at claims rather than units; not once for each of those that wait.
    assert matched.calls <= 10 * 10


def test_policies_are_matched_again_when_one_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long()
    matched = counting(monkeypatch, PolicyBook, "for_claim")
    long.put("AllocationPolicy", policy("c", priority=7))
    long.passes(1)
    assert WAITING <= matched.calls <= 3 * WAITING


def test_only_who_changes_is_put_in_line_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long()
    placed = counting(monkeypatch, Line, "_insert")
    long.passes(20)
    assert placed.calls == 0
    long.arrive(WAITING, 9)
    long.passes(20)
    assert placed.calls == 1


def test_units_that_nothing_has_changed_for_are_not_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long()
    solved = counting(monkeypatch, placing, "solve")
    long.passes(20)
    before = long.engine.waiting
    long.arrive(WAITING, 9)
    long.passes(20)
    assert long.engine.waiting == before + 1
    # It is like others that wait, so their answer is its answer.
    assert solved.calls == 0
    long.arrive(WAITING + 1, 50)
    long.passes(20)
    assert solved.calls <= 2


def test_reports_beyond_a_burst_are_not_worked_out_in_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long()
    long.now += 5.0  # by now a person wants to know of all that wait
    worked_out = counting(monkeypatch, Content, "status")
    long.passes(1)
    first = worked_out.calls
    long.passes(3)
    assert worked_out.calls - first <= 3 * 110


def test_reports_wait_until_the_allocations_of_a_burst_are_written() -> None:
    """The API server takes 20 s for 30 allocations: no report is written meanwhile, least of all that the claims wait."""
    burst = Long(waiting=0)
    engine = burst.engine
    for number in range(30):
        burst.arrive(number, 1)
    burst.passes(1)
    burst.now += 0.5
    allocations = [item for item in engine.decide(burst.now) if isinstance(item, WriteClaimStatus)]
    assert len(allocations) == 30
    written = 0
    for decision in allocations:
        for _ in range(6):
            burst.now += 0.1
            written += count_reports(engine.decide(burst.now))
        burst.version += 1
        body = {**decision.body, "metadata": {**decision.body["metadata"], "resourceVersion": str(burst.version)}}
        engine.settle(Outcome(decision, 200, object=body), burst.now)
        engine.observe("ResourceClaim", "MODIFIED", body, burst.now)
    assert written == 0
    written += count_reports(engine.decide(burst.now))
    assert written == 0
    burst.now += 1.1
    assert count_reports(engine.decide(burst.now)) == 30


def count_reports(decisions: list[Decision]) -> int:
    return sum(1 for decision in decisions if isinstance(decision, WriteReport) and decision.kind == "ClaimReport")


ALIKE = 300


class Alike(Long):
    """An engine on a full cluster, with many claims of one kind that wait for one device each and are starved."""

    def __init__(self) -> None:
        super().__init__(waiting=0)
        self.held: list[str] = []
        for number in range(32 + ALIKE):
            self.arrive(number, 1)
        for _ in range(60):
            self.now += 1.0
            self.settle()

    def settle(self) -> int:
        """One pass, its writes answered and shown; returns how many reports it wrote."""
        reports = 0
        for decision in self.engine.decide(self.now):
            stored = None
            if isinstance(decision, WriteClaimStatus):
                self.held.append(decision.claim.name)
                stored = self.stored(decision.body)
            elif isinstance(decision, WriteReport):
                reports += 1
                metadata = {"uid": f"r-{decision.key.name}", **decision.body["metadata"]}
                stored = self.stored({**decision.body, "metadata": metadata})
            self.engine.settle(Outcome(decision, 200, object=stored), self.now)
            if isinstance(decision, WriteClaimStatus) and stored is not None:
                self.engine.observe("ResourceClaim", "MODIFIED", stored, self.now)
        return reports

    def stored(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}

    def free_one(self) -> None:
        metadata = {"name": self.held.pop(0), "namespace": "default"}
        self.engine.observe("ResourceClaim", "DELETED", {"metadata": metadata}, self.now)
        self.now += 0.1
        self.settle()


def test_a_freed_device_is_tried_by_the_first_and_not_by_all_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = Alike()
    assert alike.engine.waiting == ALIKE
    tried = counting(monkeypatch, Queue, "_try")
    for _ in range(5):
        alike.free_one()
    assert alike.engine.waiting == ALIKE - 5
    # In each pass the one that gets it and the first that does not; twenty in a pass of a round.
    assert tried.calls <= 5 * 4 + 20


def test_a_pass_in_which_nothing_changed_looks_at_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = Alike()
    for _ in range(40):
        alike.now += 1.0
        alike.settle()
    tried, looked = counting(monkeypatch, Queue, "_try"), counting(monkeypatch, Preempting, "consider")
    placed, terms = counting(monkeypatch, Line, "_insert"), counting(monkeypatch, State, "terms")
    for _ in range(20):
        alike.now += 0.01
        alike.engine.decide(alike.now)
    assert (tried.calls, placed.calls) == (0, 0)
    assert looked.calls <= 20 * 2  # the one that holds, and the first of the others
    assert terms.calls <= 20 * 10


def test_reports_of_a_long_queue_are_brought_up_to_date_at_a_bounded_rate() -> None:
    alike = Alike()
    for _ in range(60):
        alike.now += 1.0
        alike.settle()
    written = 0
    for second in range(120):
        alike.now += 1.0
        if second % 10 == 0:
            alike.free_one()  # every position behind it shifts
        written += alike.settle()
    assert written <= 120 * 20 + 100


def test_open_writes_and_reports_to_come_are_not_looked_at_in_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Long(waiting=0)
    for number in range(30):
        long.arrive(number, 1)
    long.passes(18)  # all are being written, and not answered yet
    assert len(long.engine._state.writes) == 30
    repeated, worked_out = counting(monkeypatch, Writes, "_end"), counting(monkeypatch, Content, "status")
    held = counting(monkeypatch, Holding, "_add")
    long.passes(20)
    assert (repeated.calls, worked_out.calls, held.calls) == (0, 0, 0)
