"""The alerts of manifests/monitoring: they ask for metrics that exist, and docs/operations.md has each with what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter, Histogram
from ruamel.yaml import YAML

from dra_operator.api.reports import Phase
from dra_operator.operator.metrics import Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests" / "monitoring"
RULE: dict[str, Any] = YAML(typ="safe").load((FOLDER / "alerts.yaml").read_text())
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in RULE["spec"]["groups"][0]["rules"]}
METRICS = {metric._name: metric for metric in vars(Metrics()).values() if hasattr(metric, "_labelnames")}
SELECTOR = re.compile(r"(dra_operator_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')


def series(name: str) -> tuple[str, set[str]]:
    """The metric that a sample belongs to, and the labels it has."""
    for suffix, kind in (
        ("_total", Counter),
        ("_bucket", Histogram),
        ("_count", Histogram),
        ("_sum", Histogram),
        ("", None),
    ):
        metric = METRICS.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if metric is not None and (kind is None or isinstance(metric, kind)):
            assert kind is not None or not isinstance(metric, Counter | Histogram), f"{name} has no sample of this name"
            return metric._name, {*metric._labelnames, *(["le"] if suffix == "_bucket" else [])}
    raise AssertionError(f"no metric {name}")


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_what_is_there(alert: str) -> None:
    expression = ALERTS[alert]["expr"]
    asked = SELECTOR.findall(expression)
    assert asked
    labels = set()
    for name, matchers in asked:
        metric, known = series(name)
        labels |= known
        for label, _, value in MATCHER.findall(matchers):
            assert label in known
            if (metric, label) == ("dra_operator_claims", "phase"):
                assert value in set(Phase)
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(grouped.replace(",", " ").split()) <= labels | {"pod"}  # `pod` is put on by whoever scrapes
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


@pytest.mark.parametrize("alert", ALERTS)
def test_counters_are_asked_for_their_rate(alert: str) -> None:
    """A counter by itself only grows: an alert on it would never end."""
    expression = ALERTS[alert]["expr"]
    counters = re.findall(r"(\w+\()?dra_operator_\w+(?:_total|_bucket)(?:\{[^}]*\})?(\[)?", expression)
    assert all(function in ("rate(", "increase(") and window for function, window in counters)


def test_operations_has_the_expression_of_each_and_what_to_do() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("## Alerts\n")[2].partition("\n## ")[0]
    told = {}
    for part in section.split("\n### ")[1:]:
        name, when, expression, *advice = [each.strip() for each in part.split("\n\n") if each.strip()]
        assert advice
        told[name] = (when, expression)
    said = {
        name: (
            rule["labels"]["severity"].capitalize() + (f", for {rule['for']}:" if "for" in rule else ":"),
            rule["expr"],
        )
        for name, rule in ALERTS.items()
    }
    assert told == said
    assert [rule["annotations"]["runbook"] for rule in ALERTS.values()] == [
        f"docs/operations.md#{name.lower()}" for name in ALERTS
    ]


def test_what_is_scraped_is_there() -> None:
    monitor = YAML(typ="safe").load((FOLDER / "podmonitor.yaml").read_text())["spec"]
    deployment = YAML(typ="safe").load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())["spec"]
    template = deployment["template"]
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    (port,) = template["spec"]["containers"][0]["ports"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
