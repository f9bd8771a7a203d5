"""Where ours and the in-tree allocator differ and ours is left as it is: one small problem each, and the reason.

Only the problems; they are run by `tests/differential/test_nasty.py`. What large random problems have of these is found by
`tests.differential.allocators.traits`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.allocator.building import (
    DRIVER,
    INCOMPLETE,
    OWN,
    ask,
    claim,
    cores,
    counters,
    device,
    devices,
    distinct,
    either,
    lists,
    match,
    pool,
    problem,
    ranged,
    takes,
    wants,
)


class Difference(NamedTuple):
    """A problem where the in-tree allocator says something else, and ours is left as it is.

    `in_tree`: as `devices`. `verdict`: what `allocators.compare` calls it. `why`: the reason to differ.
    """

    problem: dict[str, Any]
    devices: list[str] | str | None
    in_tree: list[str] | str | None
    verdict: str
    why: str


#: `allocators.traits` has more without a row here: pools come in the order of a Go map where only stable features are on, so that one run
#: says nothing; counters overdrawn and All with constraints meet in `found/counters-come-before-constraints-under-all.json`.
DIFFERENCES: dict[str, Difference] = {
    "a_count_beyond_the_limit_and_all_of_an_incomplete_pool": Difference(
        problem(INCOMPLETE, claim(ask("r", None)), claim(ask("r", 33))),
        "claim ns/c1, request r: adding 33 devices exceeds the claim limit of 32",
        "claim ns/c0, request r: asks for all devices, but resource pool d.example.com/p is currently being updated",
        "claims are checked before pools",
        "only an edit of the claim mends it, on whatever node; the pool mends itself",
    ),
    "an_unknown_class_and_all_of_an_incomplete_pool": Difference(
        problem(INCOMPLETE, claim(ask("r", None)), claim(ask("r", 1, deviceClassName="unknown"))),
        "device class unknown not found",
        "claim ns/c0, request r: asks for all devices, but resource pool d.example.com/p is currently being updated",
        "claims are checked before pools",
        "somebody has to create the class, whatever the node; the pool mends itself",
    ),
    "a_list_comes_second_under_distinct_without_the_feature": Difference(
        problem(
            pool("p", {"devices": [device("x", attributes={"g": 1}), device("y", attributes={"g": [1]})]}),
            claim(ask("r", 2), constraints=[distinct("g")]),
        ),
        ["x", "y"],
        None,
        "lists without the feature",
        "the same two devices are distinct when the list comes first: no answer may depend on the order",
    ),
    "skipped_node_operations_without_the_feature": Difference(
        problem(
            pool("p", {"devices": [device("x")], "skipNodeOperations": ["*"]}) + pool("q", {"devices": [device("y")]}),
            claim(ask("r", 1)),
            declared=["DRAOptionalNodeOperations"],
        ),
        ["y"],
        ["x"],
        "skipNodeOperations without the feature",
        "the result cannot say which operations to skip, so the kubelet would call a driver that is not there",
    ),
    "a_newer_generation_on_another_node": Difference(
        problem(
            [
                *pool("p", {"devices": devices(1)}),
                {
                    "metadata": {"name": "newer"},
                    "spec": {
                        "driver": DRIVER,
                        "nodeName": "m",
                        "pool": {"name": "p", "generation": 2, "resourceSliceCount": 1},
                        "devices": [device("y")],
                    },
                },
            ],
            claim(ask("r", 1)),
        ),
        None,
        ["x00"],
        "stale generations",
        "ResourcePool.generation: consumers should only consider the highest one; in-tree sees the slices of the node only",
    ),
    "one_device_name_for_two_nodes": Difference(
        problem(
            pool("p", {"devices": [device("x")]}, {"devices": [device("x")], "nodeName": "m"}),
            claim(ask("r", 1)),
        ),
        "device name x is used twice",
        ["x"],
        "a device name used for two nodes",
        "Device.name must be unique in the pool: a result with it would mean either device",
    ),
    "admin_access_before_an_exclusive_request": Difference(
        problem(pool("p", {"devices": devices(1)}), claim(ask("a", 1, adminAccess=True)), claim(ask("r", 1))),
        ["x00", "x00"],
        None,
        "admin access",
        "DeviceRequest.adminAccess: the device may be in use by others, and in-tree says so in the other order of the claims",
    ),
    "admin_access_takes_no_counters": Difference(
        problem(
            pool("p", {"sharedCounters": [counters("s", 1)]}, {"devices": devices(2, **takes("s", 1))}),
            claim(ask("r", 1)),
            claim(ask("a", 2, adminAccess=True)),
        ),
        ["x00", "x00", "x01"],
        None,
        "admin access",
        "access to what others use takes nothing away from them",
    ),
    "admin_access_takes_no_capacity": Difference(
        problem(
            pool("p", {"devices": [device("x", **ranged("1"))]}),
            claim(ask("r", 1, **cores("10"))),
            claim(ask("a", 1, adminAccess=True)),
        ),
        ["x", "x"],
        None,
        "admin access",
        "access to what others use takes nothing away from them",
    ),
    "all_breaks_a_constraint_and_there_is_an_alternative": Difference(
        problem(lists(x=1, y=2), claim(either("r", every=wants(None), one=wants(1)), constraints=[match("g")])),
        ["x"],
        "claim ns/c0, request every: cannot add device d.example.com/p/y",
        "All among alternatives",
        "DeviceRequest.firstAvailable: the next alternative is for when one cannot be satisfied",
    ),
    "a_selector_fails_on_a_device_of_another_node": Difference(
        problem(
            pool(
                "p",
                {
                    "nodeName": None,
                    "perDeviceNodeSelection": True,
                    "devices": [device("w", nodeName="m"), device("x", attributes={"g": 1}, nodeName="n")],
                },
            ),
            claim(ask("r", 1, f"{OWN}.g == 1")),
        ),
        ["x"],
        "selector #0 on device d.example.com/p/w: CEL runtime error",
        "selectors evaluated on devices of other nodes",
        "what the node cannot reach is no candidate, so that nothing of it decides there",
    ),
}
