"""ClaimGroup, NetworkDeviceClass, and the constraints annotation."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.errors import InvalidField, InvalidObject
from dra_operator.api.group import ClaimGroup, constraints_of
from dra_operator.api.networkclass import NetworkDeviceClass


def test_group() -> None:
    spec = {"minMembers": 4, "topology": {"key": "zone"}, "constraints": [{"matchAttribute": "a/b"}]}
    group = ClaimGroup.from_dict({"metadata": {"namespace": "n", "name": "g"}, "spec": spec}).spec
    assert (group.min_members, group.timeout) == (4, 600)
    assert group.topology is not None
    assert (group.topology.key, group.topology.mode) == ("zone", "Same")
    (constraint,) = group.constraints
    assert (constraint.requests, constraint.match_attribute, constraint.mode) == ((), "a/b", "Required")


def test_group_errors_name_it() -> None:
    with pytest.raises(InvalidObject, match=r"ClaimGroup n/g: spec\.minMembers: is required"):
        ClaimGroup.from_dict({"metadata": {"namespace": "n", "name": "g"}, "spec": {}})


def test_network_class() -> None:
    spec = {"driver": "dra.net", "minBandwidthGbps": 200, "rdma": True, "config": {"mtu": 9000}}
    network = NetworkDeviceClass.from_dict({"metadata": {"name": "fast"}, "spec": spec}).spec
    assert (network.driver, network.min_bandwidth_gbps, network.rdma, network.low_latency) == (
        "dra.net",
        200,
        True,
        None,
    )
    assert network.config == {"mtu": 9000}


def test_constraints_of_a_pod() -> None:
    text = '[{"requests": ["gpu/gpu", "nic/nic"], "matchAttribute": "resource.kubernetes.io/numaNode", "mode": "Preferred"}]'
    (constraint,) = constraints_of(text)
    assert constraint.requests == ("gpu/gpu", "nic/nic")
    assert constraint.mode == "Preferred"
    assert constraints_of(None) == constraints_of("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "expected a JSON list"),
        ("[1]", r"\[0\]: expected an object"),
        ('[{"mode": "Required"}]', r"\[0\]: set exactly one of"),
        ('[{"matchAttribute": "numaNode"}]', r"\[0\]\.matchAttribute: expected an attribute with its domain"),
    ],
)
def test_constraints_that_are_none(text: Any, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        constraints_of(text)
