"""AllocationPolicy as data: its defaults, what it sets, and errors that say where and what to do.

Which specs are accepted at all is in `tests/manifests/cases`, where a real API server judges the same ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.errors import InvalidObject
from dra_operator.api.policy import AllocationPolicy, AllocationPolicySpec
from dra_operator.api.quantity import Quantity


def read(spec: Any) -> AllocationPolicySpec:
    return AllocationPolicy.from_dict({"metadata": {"name": "sample"}, "spec": spec}).spec


def test_defaults() -> None:
    """Those of docs/policies.md."""
    spec = AllocationPolicySpec()
    assert spec == read(None) == read({})
    assert spec.namespace_selector is spec.claim_selector is None
    assert (spec.device_class_names, spec.priority, spec.preemptible) == ((), 0, True)
    starvation = spec.starvation
    assert (starvation.after, starvation.boost_per_minute, starvation.max_boost, starvation.hold) == (30, 0, 0, True)
    preemption = spec.preemption
    assert (preemption.mode, preemption.max_victims, preemption.min_priority_delta) == ("WhenStarved", 8, 1)
    assert preemption.grace_period_seconds is None
    assert (spec.queueing, spec.fairness, spec.weight) == ("Backfill", "FIFO", 1)
    assert (spec.backoff.initial, spec.backoff.max) == (1, 300)
    assert (spec.placement.strategy, spec.placement.pin) == ("Fragmentation", "Auto")
    assert spec.placement.prefer == spec.placement.aliases == spec.quota == spec.reserve == ()
    assert spec.on_class_change == "Keep"
    assert (spec.provisioning.mode, spec.provisioning.after) == ("Hold", 60)


def test_values_arrive_typed() -> None:
    spec = read(
        {
            "namespaceSelector": {"matchLabels": {"team": "vision"}},
            "starvation": {"after": "1h30m"},
            "quota": [
                {
                    "deviceClassName": "gpu",
                    "selectors": [{"cel": {"expression": "true"}}],
                    "capacity": {"memory": "640Gi", "cores": 100},
                    "per": "Policy",
                }
            ],
        }
    )
    assert spec.namespace_selector is not None
    assert spec.namespace_selector.matches({"team": "vision"})
    assert not spec.namespace_selector.matches({"team": "speech"})
    assert spec.starvation.after == 5400.0
    (quota,) = spec.quota
    assert quota.capacity == {"memory": Quantity.parse("640Gi"), "cores": Quantity.parse("100")}
    assert (quota.per, quota.devices) == ("Policy", None)
    assert [selector.cel.expression for selector in quota.selectors] == ["true"]


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        ({}, 0),
        ({"namespaceSelector": {}}, 0),
        ({"namespaceSelector": {"matchLabels": {}}, "deviceClassNames": []}, 0),
        ({"claimSelector": {"matchLabels": {"a": "b"}}}, 1),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "deviceClassNames": ["g"]}, 2),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}, "claimSelector": {"matchLabels": {"a": "b"}}, "deviceClassNames": ["g"]}, 3),
    ],
)  # fmt: skip
def test_selectors_set(spec: dict[str, Any], number: int) -> None:
    assert read(spec).selectors_set == number


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"starvaton": {}}, "spec.starvaton: unknown field, did you mean starvation?"),
        ({"xyz": 1}, "spec.xyz: unknown field, known are backoff, claimSelector,"),
        ({"placement": {"stratgy": "Pack"}}, "spec.placement.stratgy: unknown field, did you mean strategy?"),
        ({"queueing": "strict"}, "spec.queueing: expected 'Strict' or 'Backfill', found 'strict'"),
        ({"priority": "3"}, "spec.priority: expected a valid integer, found '3'"),
        ({"starvation": {"after": "30"}}, "spec.starvation.after: '30' is not a duration: write one such as 30s, 1h30m or 500ms"),
        ({"backoff": {"initial": "10m"}}, "spec.backoff: initial must not be longer than max"),
        ({"placement": "Pack"}, "spec.placement: expected an object, found 'Pack'"),
        ({"placement": {"prefer": [{"matchAttribute": "numaNode"}]}},
         "spec.placement.prefer[0].matchAttribute: expected an attribute with its domain, such as resource.kubernetes.io/numaNode, found 'numaNode'"),
        ({"quota": [{"devices": 1}]}, "spec.quota[0].deviceClassName: is required"),
        ({"priority": "a", "weight": 0, "queueing": 1}, "spec.priority: expected a valid integer, unable to parse string"),
        ({"claimSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
         "spec.claimSelector.matchExpressions[0]: Gt is for nodes: use In, NotIn, Exists or DoesNotExist"),
        ({"claimSelector": {"labels": {}}}, "spec.claimSelector.labels: unknown field, known are matchLabels and matchExpressions"),
    ],
)  # fmt: skip
def test_errors_name_the_field_and_the_repair(spec: Any, message: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        read(spec)
    said = str(refused.value)
    assert said.startswith("AllocationPolicy sample: spec")
    if "unable to parse" in message:  # several errors: the first is told, the others are counted
        assert said.endswith("(and 2 more errors in it)")
    else:
        assert message in said


def test_policies_are_values() -> None:
    spec = read({"priority": 5})
    assert spec == read({"priority": 5}) != read({"priority": 6})
    with pytest.raises(Exception, match="frozen"):
        spec.priority = 6  # type: ignore[misc]


@pytest.mark.parametrize("data", [[], "x", {"metadata": ["p"]}, {"metadata": {"name": "p"}, "spec": {1: 2}}])
def test_no_shape_escapes_as_another_error(data: Any) -> None:
    with pytest.raises(InvalidObject):
        AllocationPolicy.from_dict(data)
