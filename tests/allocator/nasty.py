"""Problems written by hand, each about one rule where it meets another: a random problem has ten at once, or seldom this one.

Only the problems and what must come out; they are run by `tests/differential/test_nasty.py`.
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
from tests.allocator.problems import EXPERIMENTAL, INCUBATING

#: Parses, and fails on every device.
FAILING = f"{OWN}.missing == 1"
BINDING = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
#: Devices of one counter set in two groups, and one of both.
GROUPED = pool(
    "p",
    {"sharedCounters": [counters("s", 9)]},
    {
        "devices": [
            device("m1", attributes={"kind": "m"}, **takes("s", 1, compatibilityGroups=["mig"])),
            device("v1", attributes={"kind": "v"}, **takes("s", 1, compatibilityGroups=["vgpu"])),
            device("m2", attributes={"kind": "m"}, **takes("s", 1, compatibilityGroups=["mig"])),
            device("b", attributes={"kind": "b"}, **takes("s", 1, compatibilityGroups=["mig", "vgpu"])),
        ]
    },
)
HALF = [{"name": "derived.example.com/half", "expression": f"{OWN}.at / 2"}]


class Nasty(NamedTuple):
    """`devices`: those of the solution, request by request; None: there is none; a text: words of the error."""

    problem: dict[str, Any]
    devices: list[str] | str | None


#: Which error comes first, and the limit of 32 results a claim.
ERRORS: dict[str, Nasty] = {
    "all_of_an_incomplete_pool_comes_before_its_selectors": Nasty(
        problem(INCOMPLETE, claim(ask("r", None, FAILING))), "claim ns/c0"
    ),
    "all_of_a_pool_with_a_name_twice_comes_before_its_selectors": Nasty(
        problem(pool("p", {"devices": [device("x"), device("x")]}), claim(ask("r", None, FAILING))), "claim ns/c0"
    ),
    "a_count_of_an_incomplete_pool_never_reaches_the_selectors": Nasty(
        problem(INCOMPLETE, claim(ask("r", 1, FAILING))), None
    ),
    "all_of_32_is_within_the_limit": Nasty(
        problem(pool("p", {"devices": devices(32)}), claim(ask("r", None))), [f"x{at:02}" for at in range(32)]
    ),
    "all_of_33_is_beyond_the_limit": Nasty(
        problem(pool("p", {"devices": devices(33)}), claim(ask("r", None))), "exceeds the claim limit"
    ),
    "all_of_20_and_13_more_are_beyond_the_limit": Nasty(
        problem(
            pool("p", {"devices": devices(20)}) + pool("q", {"devices": devices(20)}),
            claim(ask("r", None, 'device.driver == "d.example.com"'), ask("s", 13)),
        ),
        "exceeds the claim limit",
    ),
    "an_alternative_for_33_gives_way_to_the_next": Nasty(
        problem(pool("p", {"devices": devices(40)}), claim(either("r", many=wants(33), few=wants(1)))), ["x00"]
    ),
    "two_claims_for_20_each_are_within_the_limit": Nasty(
        problem(pool("p", {"devices": devices(40)}), claim(ask("r", 20)), claim(ask("r", 20))),
        [f"x{at:02}" for at in range(40)],
    ),
    "a_list_is_distinct_from_anything_without_the_feature": Nasty(
        problem(
            pool("p", {"devices": [device("x", attributes={"g": [1]}), device("y", attributes={"g": 1})]}),
            claim(ask("r", 2), constraints=[distinct("g")]),
        ),
        ["x", "y"],
    ),
    "lists_match_nothing_without_the_feature": Nasty(
        problem(
            pool("p", {"devices": [device("x", attributes={"g": [1]}), device("y", attributes={"g": [1]})]}),
            claim(ask("r", 2), constraints=[match("g")]),
        ),
        None,
    ),
}

RULES: dict[str, Nasty] = {
    "distinct_across_requests_needs_the_second_choice_of_the_first": Nasty(
        problem(
            pool(
                "p",
                {
                    "devices": [
                        device("x", attributes={"g": 1, "a": True}),
                        device("y", attributes={"g": 2, "a": True}),
                        device("z", attributes={"g": 1, "a": False}),
                    ]
                },
            ),
            claim(ask("r", 1, f"{OWN}.a"), ask("s", 1, f"!{OWN}.a"), constraints=[distinct("g")]),
        ),
        ["y", "z"],
    ),
    "distinct_across_requests_where_there_are_too_few_values": Nasty(
        problem(
            pool("p", {"devices": [device(f"x{at}", attributes={"g": at % 2}) for at in range(6)]}),
            claim(ask("r", 2), ask("s", 1), constraints=[distinct("g")]),
        ),
        None,
    ),
    "distinct_for_some_requests_leaves_the_others_free": Nasty(
        problem(
            pool("p", {"devices": [device(f"x{at}", attributes={"g": at // 2}) for at in range(4)]}),
            claim(ask("r", 1), ask("s", 1), ask("t", 1), constraints=[distinct("g", "r", "t")]),
        ),
        ["x0", "x1", "x2"],
    ),
    "lists_that_overlap_in_pairs_do_not_match_together": Nasty(
        problem(
            lists(x=[1, 2], y=[2, 3], z=[1, 3]), claim(ask("r", 3), constraints=[match("g")]), features=EXPERIMENTAL
        ),
        None,
    ),
    "the_second_list_decides_which_third_matches": Nasty(
        problem(
            lists(x=[1, 2], y=[1], z=[2], u=[2, 1]),
            claim(ask("r", 3), constraints=[match("g")]),
            features=EXPERIMENTAL,
        ),
        ["x", "y", "u"],
    ),
    "a_list_and_a_single_value_of_it_are_not_distinct": Nasty(
        problem(
            lists(x=[1, 2], y=2, z=3),
            claim(ask("r", 1), ask("s", 1), constraints=[distinct("g")]),
            features=EXPERIMENTAL,
        ),
        ["x", "z"],
    ),
    "a_constraint_on_one_alternative_leaves_the_other_free": Nasty(
        problem(
            lists(x=1, y=2),
            claim(either("r", pair=wants(2), single=wants(1)), ask("s", 1), constraints=[match("g", "r/single", "s")]),
        ),
        None,
    ),
    "a_constraint_on_one_alternative_is_left_by_taking_the_other": Nasty(
        problem(
            lists(x=1, y=2, z=3),
            claim(either("r", single=wants(1), pair=wants(2)), ask("s", 1), constraints=[match("g", "r/single", "s")]),
        ),
        ["x", "y", "z"],
    ),
    "a_constraint_on_the_request_holds_for_every_alternative": Nasty(
        problem(
            lists(x=1, y=2, z=2),
            claim(either("r", pair=wants(2), single=wants(1)), ask("s", 1), constraints=[match("g", "r", "s")]),
        ),
        ["y", "z"],
    ),
    "admin_access_takes_a_device_in_use": Nasty(
        problem(
            pool("p", {"devices": devices(1)}),
            claim(ask("r", 1, adminAccess=True)),
            allocated={"devices": [f"{DRIVER}/p/x00"]},
        ),
        ["x00"],
    ),
    "one_claim_has_no_device_twice_not_even_with_admin_access": Nasty(
        problem(pool("p", {"devices": devices(1)}), claim(ask("r", 1), ask("s", 1, adminAccess=True))), None
    ),
    "admin_access_may_come_after_the_exclusive_request": Nasty(
        problem(pool("p", {"devices": devices(1)}), claim(ask("r", 1)), claim(ask("s", 1, adminAccess=True))),
        ["x00", "x00"],
    ),
    "admin_access_gives_no_room_to_a_second_exclusive_request": Nasty(
        problem(
            pool("p", {"devices": devices(1)}),
            claim(ask("r", 1)),
            claim(ask("a", 1, adminAccess=True)),
            claim(ask("s", 1)),
        ),
        None,
    ),
    "admin_access_to_all_takes_what_is_in_use_too": Nasty(
        problem(
            pool("p", {"devices": devices(3)}),
            claim(ask("r", None, adminAccess=True)),
            allocated={"devices": [f"{DRIVER}/p/x01"]},
        ),
        ["x00", "x01", "x02"],
    ),
    "all_with_an_incomplete_pool_beside_a_good_one": Nasty(
        problem(INCOMPLETE + pool("q", {"devices": devices(2)}), claim(ask("r", None))), "claim ns/c0"
    ),
    "a_count_with_an_incomplete_pool_beside_a_good_one": Nasty(
        problem(INCOMPLETE + pool("q", {"devices": [device("y")]}), claim(ask("r", 1))), ["y"]
    ),
    "all_as_an_alternative_to_an_incomplete_pool": Nasty(
        problem(INCOMPLETE, claim(either("r", every=wants(None), one=wants(1)))), "claim ns/c0"
    ),
    "counters_of_one_slice_are_shared_by_devices_of_others": Nasty(
        problem(
            pool(
                "p",
                {"sharedCounters": [counters("s", 3)]},
                {"devices": [device("x", **takes("s", 2))]},
                {"devices": [device("y", **takes("s", 2)), device("z", **takes("s", 1))]},
            ),
            claim(ask("r", 1)),
            claim(ask("r", 1)),
        ),
        ["x", "z"],
    ),
    "counter_sets_of_one_name_in_two_pools_are_two": Nasty(
        problem(
            pool("p", {"sharedCounters": [counters("s", 1)]}, {"devices": [device("x", **takes("s", 1))]})
            + pool("q", {"sharedCounters": [counters("s", 1)]}, {"devices": [device("y", **takes("s", 1))]}),
            claim(ask("r", 2)),
        ),
        ["x", "y"],
    ),
    "counters_used_by_a_device_of_another_slice": Nasty(
        problem(
            pool(
                "p",
                {"sharedCounters": [counters("s", 2)]},
                {"devices": [device("x", **takes("s", 2))]},
                {"devices": [device("y", **takes("s", 1))]},
            ),
            claim(ask("r", 1)),
            allocated={"devices": [f"{DRIVER}/p/x"]},
        ),
        None,
    ),
    "the_slice_with_the_counters_is_missing": Nasty(
        problem(pool("p", {"devices": [device("x", **takes("s", 1))]}, count=2), claim(ask("r", 1))), None
    ),
    "a_fractional_step_rounds_up": Nasty(
        problem(
            pool("p", {"devices": [device("x", **ranged("100m", "100m", "1"))]}), claim(ask("r", 1, **cores("250m")))
        ),
        ["x"],
    ),
    "fractional_steps_add_up_to_the_whole": Nasty(
        problem(
            pool("p", {"devices": [device("x", **ranged("100m", "100m", "1"))]}),
            *(claim(ask("r", 1, **cores("250m"))) for _ in range(3)),
        ),
        ["x", "x", "x"],
    ),
    "a_fractional_step_rounded_up_leaves_too_little": Nasty(
        problem(
            pool("p", {"devices": [device("x", **ranged("100m", "100m", "1"))]}),
            *(claim(ask("r", 1, **cores("250m"))) for _ in range(4)),
        ),
        None,
    ),
    "a_step_counts_from_the_minimum": Nasty(
        problem(
            pool("p", {"devices": [device("x", **ranged("400m", "500m", "1"))]}),
            claim(ask("r", 1, **cores("600m"))),
            claim(ask("r", 1, **cores("100m"))),
        ),
        None,
    ),
    "a_fraction_is_rounded_to_a_whole_one_without_the_feature": Nasty(
        problem(
            pool("p", {"devices": [device("x", **ranged("100m", "100m", "1"))]}),
            claim(ask("r", 1, **cores("250m"))),
            claim(ask("r", 1, **cores("250m"))),
            features=[name for name in INCUBATING if name != "FractionalCapacityRange"],
        ),
        None,
    ),
    "devices_without_binding_conditions_come_first": Nasty(
        problem(
            pool("p", {"devices": [device("x", **BINDING)]}) + pool("q", {"devices": [device("y")]}),
            claim(ask("r", 1)),
        ),
        ["y"],
    ),
    "a_device_with_binding_conditions_where_no_other_fits": Nasty(
        problem(
            pool("p", {"devices": [device("x", attributes={"g": 1}, **BINDING)]})
            + pool("q", {"devices": [device("y", attributes={"g": 2})]}),
            claim(ask("r", 1, f"{OWN}.g == 1")),
        ),
        ["x"],
    ),
    "one_device_with_binding_conditions_makes_its_pool_come_last": Nasty(
        problem(
            pool("p", {"devices": [device("w"), device("x", **BINDING)]}) + pool("q", {"devices": [device("y")]}),
            claim(ask("r", 2)),
        ),
        ["y", "w"],
    ),
    "binding_conditions_without_the_feature": Nasty(
        problem(
            pool("p", {"devices": [device("x", **BINDING), device("y")]}),
            claim(ask("r", 1)),
            features=[name for name in INCUBATING if name != "DeviceBindingAndStatus"],
        ),
        ["y"],
    ),
    "a_derived_attribute_is_matched_like_a_published_one": Nasty(
        problem(
            pool("p", {"devices": [device(f"x{at}", attributes={"at": at}) for at in range(1, 5)]}),
            claim(
                ask("r", 2, derivedAttributes=HALF),
                constraints=[{"matchAttribute": "derived.example.com/half"}],
            ),
            features=EXPERIMENTAL,
        ),
        ["x2", "x3"],
    ),
    "a_derived_attribute_of_one_request_is_none_of_the_other": Nasty(
        problem(
            pool("p", {"devices": [device(f"x{at}", attributes={"at": at}) for at in range(4)]}),
            claim(
                ask("r", 1, derivedAttributes=HALF),
                ask("s", 1),
                constraints=[{"matchAttribute": "derived.example.com/half"}],
            ),
            features=EXPERIMENTAL,
        ),
        None,
    ),
    "a_derived_attribute_under_distinct": Nasty(
        problem(
            pool("p", {"devices": [device(f"x{at}", attributes={"at": at}) for at in range(4)]}),
            claim(
                ask("r", 2, derivedAttributes=HALF),
                constraints=[{"distinctAttribute": "derived.example.com/half"}],
            ),
            features=EXPERIMENTAL,
        ),
        ["x0", "x2"],
    ),
    "a_derived_attribute_that_fails_on_a_device": Nasty(
        problem(
            pool("p", {"devices": [device("x"), device("y", attributes={"at": 1})]}),
            claim(
                ask("r", 1, derivedAttributes=HALF),
                constraints=[{"matchAttribute": "derived.example.com/half"}],
            ),
            features=EXPERIMENTAL,
        ),
        "claim ns/c0",
    ),
    "skipped_node_operations_on_a_node_that_does_not_know_them": Nasty(
        problem(
            pool("p", {"devices": [device("x")], "skipNodeOperations": ["*"]}),
            claim(ask("r", 1)),
            features=EXPERIMENTAL,
        ),
        None,
    ),
    "skipped_node_operations_on_a_node_that_declares_them": Nasty(
        problem(
            pool("p", {"devices": [device("x")], "skipNodeOperations": ["*"]}),
            claim(ask("r", 1)),
            features=EXPERIMENTAL,
            declared=["DRAOptionalNodeOperations"],
        ),
        ["x"],
    ),
    "compatibility_groups_keep_two_kinds_apart": Nasty(
        problem(GROUPED, claim(ask("r", 2)), features=EXPERIMENTAL), ["m1", "m2"]
    ),
    "compatibility_groups_with_what_is_in_use": Nasty(
        problem(GROUPED, claim(ask("r", 1)), features=EXPERIMENTAL, allocated={"devices": [f"{DRIVER}/p/v1"]}), ["b"]
    ),
    "a_device_of_two_groups_does_not_join_them": Nasty(
        problem(
            GROUPED, claim(ask("r", 1, f'{OWN}.kind == "v"'), ask("s", 1, f'{OWN}.kind == "m"')), features=EXPERIMENTAL
        ),
        None,
    ),
}
