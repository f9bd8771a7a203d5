"""The API server's answer to a report that our watch has shown the end of, or never shows: nothing of it remains."""

from __future__ import annotations

from typing import Any

from dra_operator.api.meta import Key
from dra_operator.engine.decisions import Outcome, WriteReport
from dra_operator.engine.engine import WATCHED, Engine
from tests.engine.stage import claim, device_class, gpus, node, pod

NOW = 1_800_000_000.0


def waiting_claim() -> dict[str, Any]:
    item = claim("a", 5)
    item["metadata"] |= {"uid": "uid-a", "resourceVersion": "4", "creationTimestamp": "2027-01-01T00:00:00Z"}
    item["metadata"]["labels"] = {"dra-operator.dev/managed": "true"}
    item["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    return item


def report_sent(engine: Engine) -> WriteReport:
    user = pod("p", "a")
    user["metadata"] |= {"uid": "uid-p", "resourceVersion": "5", "creationTimestamp": "2027-01-01T00:00:00Z"}
    for item in (node("n1"), gpus("n1", 1), device_class(), waiting_claim(), user):
        item["metadata"].setdefault("resourceVersion", "1")
        engine.observe(item["kind"], "ADDED", item, NOW)
    for kind in WATCHED:
        engine.synced(kind)
    sent: list[WriteReport] = []
    for second in range(60):
        decisions = engine.decide(NOW + second)
        sent += [each for each in decisions if isinstance(each, WriteReport) and each.kind == "ClaimReport"]
        if sent:
            return sent[0]
    raise AssertionError("no report was written")


def stored(report: WriteReport, version: str) -> dict[str, Any]:
    return {**report.body, "metadata": {**report.body["metadata"], "uid": "uid-r", "resourceVersion": version}}


def let_the_claim_go(engine: Engine) -> None:
    engine.observe("ResourceClaim", "DELETED", waiting_claim(), NOW + 100)
    engine.decide(NOW + 100)
    engine.decide(NOW + 200)


def test_a_report_that_ended_before_its_answer_came() -> None:
    engine = Engine()
    report = report_sent(engine)
    engine.observe("ClaimReport", "ADDED", stored(report, "7"), NOW + 61)
    engine.observe("ClaimReport", "DELETED", stored(report, "8"), NOW + 61)
    engine.settle(Outcome(report, 201, object=stored(report, "7")), NOW + 62)
    let_the_claim_go(engine)
    assert engine._reporter._reports == {}


def test_a_report_that_only_its_answer_told_of_and_a_list_does_not_have() -> None:
    engine = Engine()
    report = report_sent(engine)
    engine.settle(Outcome(report, 201, object=stored(report, "7")), NOW + 62)
    engine.replaced("ClaimReport", set(), NOW + 63)
    let_the_claim_go(engine)
    assert engine._reporter._reports == {}


def test_a_report_that_a_list_has_stays_known() -> None:
    engine = Engine()
    report = report_sent(engine)
    engine.settle(Outcome(report, 201, object=stored(report, "7")), NOW + 62)
    engine.replaced("ClaimReport", {Key("default", "a")}, NOW + 63)
    assert engine._reporter.held() == {Key("default", "a")}
