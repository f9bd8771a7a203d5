"""Amounts of CPU and memory as pods ask for them and nodes have them: none that the engine cannot count with."""

from __future__ import annotations

import pytest

from dra_operator.api.core import Node, Pod
from dra_operator.api.errors import InvalidObject

MOST = 2**63 - 1


def a_pod(**requests: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return Pod.from_dict({"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": containers}})


def a_node(**allocatable: str) -> Node:
    return Node.from_dict({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})


@pytest.mark.parametrize(
    ("resource", "text", "counted"),
    [
        ("cpu", "0", 0),
        ("cpu", "0.0001", 1),
        ("cpu", "2", 2000),
        ("memory", "1.5", 2),
        ("memory", "1Gi", 2**30),
        ("memory", "9E", 9 * 10**18),
        ("memory", "10E", MOST),
        ("memory", "1e400", MOST),
        ("cpu", "1e400", MOST),
    ],
)
def test_are_counted_as_far_as_the_scheduler_counts(resource: str, text: str, counted: int) -> None:
    assert a_pod(**{resource: text}).requests[resource] == counted
    assert a_node(**{resource: text}).allocatable[resource] == counted


@pytest.mark.parametrize(("resource", "text"), [("cpu", "-1m"), ("memory", "-1Gi")])
def test_less_than_nothing_is_refused_by_name(resource: str, text: str) -> None:
    with pytest.raises(InvalidObject, match=f"Pod default/p: spec: {resource} is {text}: an amount cannot be negative"):
        a_pod(**{resource: text})
    with pytest.raises(InvalidObject, match=f"Node n: status.allocatable: {resource} is {text}"):
        a_node(**{resource: text})
