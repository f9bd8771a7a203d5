"""Objects at the edges of what an API server accepts, and beyond: an answer or an error after bounded work, and no crash.

Work is counted in calls of Python functions, not in seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.allocator import Failed, Problem, Result, Solved, Strategy, Unsolved, solve, validate
from dra_operator.allocator.document import Document, read_document
from tests.allocator.problems import choose_problem
from tests.drawing import Drawn

DRIVER = "d.example.com"
MINE = f'device.attributes["{DRIVER}"]'
#: Calls a solve may take. Some microseconds each with everything they do.
CALLS = 3_000_000
STRATEGIES = (Strategy.FirstFit, Strategy.Fragmentation)
T = TypeVar("T")


def calls_of(run: Callable[[], T]) -> tuple[T, int]:
    """What `run` gives, and how many calls of Python functions it took."""
    count = 0

    def counted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        return run(), count
    finally:
        sys.setprofile(before)


def device(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def problem(
    devices: list[dict[str, Any]], requests: list[dict[str, Any]], *, counters: Any = None, **devices_of_claim: Any
) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    slices = [{"metadata": {"name": "devices"}, "spec": {**spec, "devices": devices}}]
    if counters:
        slices.append({"metadata": {"name": "counters"}, "spec": {**spec, "sharedCounters": counters}})
    claim = {"devices": {"requests": requests, **devices_of_claim}}
    return {
        "nodes": [{"metadata": {"name": "n1"}}],
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "claims": [{"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": claim}],
    }


def ask(name: str = "r", expression: str | None = None, **fields: Any) -> dict[str, Any]:
    selectors = {} if expression is None else {"selectors": [{"cel": {"expression": expression}}]}
    return {"name": name, "exactly": {"deviceClassName": "any", **selectors, **fields}}


def answers(data: dict[str, Any]) -> list[Result]:
    """Every strategy's answer, each within the bound and valid."""
    found = []
    for strategy in STRATEGIES:
        document = read_document(deepcopy(data))
        snapshot = document.inventory.snapshot()
        result, calls = calls_of(lambda: solve(Problem(document.claims, strategy=strategy), snapshot))  # noqa: B023
        assert calls < CALLS, strategy
        check(document, result)
        found.append(result)
    return found


def check(document: Document, result: Result) -> None:
    if isinstance(result, Solved):
        faults = validate(document.inventory.snapshot(), document.claims, result.allocations, result.node)
        assert not faults, faults
    elif isinstance(result, Failed):
        assert result.message


PLAIN = [device(f"x{i}", attributes={"i": {"int": i}}) for i in range(4)]


@pytest.mark.parametrize("count", [33, 2**31, 2**63 - 1])
def test_absurd_counts(count: int) -> None:
    for result in answers(problem(PLAIN, [ask(count=count)])):
        assert isinstance(result, Failed)
        assert result.kind == "limit"
        assert f"adding {count} devices exceeds the claim limit of 32" in result.message


@pytest.mark.parametrize("count", [0, -1, -(2**63)])
def test_counts_that_the_api_server_refuses(count: int) -> None:
    for result in answers(problem(PLAIN, [ask(count=count)])):
        assert isinstance(result, Failed)
        assert f"asks for {count} devices" in result.message


AMOUNTS = ("0", "1n", "0.1n", "1e-400", "9223372036854775807", "9223372036854775808", "8Ei", "16Ei", "1e400", "1" * 400)


@pytest.mark.parametrize("offered", AMOUNTS)
def test_amounts_at_every_edge(offered: str) -> None:
    """As capacity, as its policy, as counters and as what a request and a selector ask for: each against each."""
    shared = {"allowMultipleAllocations": True}
    for asked in AMOUNTS:
        wanted = {"capacity": {"requests": {"memory": asked}}}
        select = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{asked[:40]}")) >= 0'
        policies = (None, {"default": asked}, {"default": "0", "validRange": {"min": "0", "step": "1n", "max": asked}})
        for policy in policies:
            capacity = {"memory": {"value": offered, **({"requestPolicy": policy} if policy else {})}}
            answers(problem([device("x", capacity=capacity, **shared)], [ask(**wanted), ask("s")]))
        answers(problem([device("x", capacity={"memory": {"value": offered}})], [ask(expression=select, **wanted)]))
        takes = [{"counterSet": "s", "counters": {"u": {"value": asked}}}]
        counters = [{"name": "s", "counters": {"u": {"value": offered}}}]
        answers(problem([device("x", consumesCounters=takes)], [ask()], counters=counters))


def test_a_step_that_fits_endlessly_often_is_not_walked() -> None:
    policy = {"default": "1n", "validRange": {"min": "1n", "max": "16Ei", "step": "1n"}}
    shared = device("x", capacity={"memory": {"value": "16Ei", "requestPolicy": policy}}, allowMultipleAllocations=True)
    for result in answers(problem([shared], [ask(capacity={"requests": {"memory": "8Ei"}}), ask("s", count=20)])):
        assert isinstance(result, Solved | Unsolved)


EMPTY = {
    "no requests": ([], {}),
    "an empty request": ([{"name": "r"}], {}),
    "no alternatives": ([{"name": "r", "firstAvailable": []}], {}),
    "an empty exactly": ([{"name": "r", "exactly": {}}], {}),
    "an empty selector": ([ask(selectors=[{}])], {}),
    "an empty expression": ([ask(expression="")], {}),
    "an empty constraint": ([ask()], {"constraints": [{}]}),
    "a constraint on nothing": ([ask()], {"constraints": [{"matchAttribute": ""}]}),
    "a constraint on an unknown request": ([ask()], {"constraints": [{"requests": ["x"], "matchAttribute": "d/i"}]}),
    "an empty config": ([ask()], {"config": [{}]}),
    "empty capacity": ([ask(capacity={})], {}),
    "empty capacity requests": ([ask(capacity={"requests": {}})], {}),
    "an empty toleration": ([ask(tolerations=[{}])], {}),
    "a request of no name": ([ask("")], {}),
    "two requests of one name": ([ask(), ask()], {}),
    "an unknown mode": ([ask(allocationMode="Some")], {}),
    "unknown fields": ([{**ask(future=1), "future": {"a": [1]}}], {"future": [{}]}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_and_unknown_parts_of_claims(name: str) -> None:
    requests, rest = EMPTY[name]
    answers(problem(PLAIN, requests, **rest))


DEVICES = {
    "nothing but a name": device("x"),
    "an attribute without a value": device("x", attributes={"i": {}}),
    "an attribute of a type to come": device("x", attributes={"i": {"future": 1}}),
    "empty maps": device("x", attributes={}, capacity={}, consumesCounters=[], taints=[], bindingConditions=[]),
    "an empty list": device("x", attributes={"i": {"ints": []}}),
    "least and greatest integers": device("x", attributes={"i": {"int": -(2**63)}, "j": {"int": 2**63 - 1}}),
    "an empty consumption": device("x", consumesCounters=[{"counterSet": "s", "counters": {}}]),
    "a counter set that is not there": device("x", consumesCounters=[{"counterSet": "t", "counters": {}}]),
    "a counter that is not there": device(
        "x", consumesCounters=[{"counterSet": "s", "counters": {"v": {"value": "1"}}}]
    ),
    "an empty taint": device("x", taints=[{"key": "", "effect": ""}]),
    "an effect to come": device("x", taints=[{"key": "a", "effect": "Future"}]),
    "an empty policy": device("x", allowMultipleAllocations=True, capacity={"m": {"value": "1", "requestPolicy": {}}}),
    "an empty range": device(
        "x", allowMultipleAllocations=True, capacity={"m": {"value": "1", "requestPolicy": {"validRange": {}}}}
    ),
    "a step of nothing": device(
        "x",
        allowMultipleAllocations=True,
        capacity={"m": {"value": "9", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "0"}}}},
    ),
    "values in no order": device(
        "x",
        allowMultipleAllocations=True,
        capacity={"m": {"value": "9", "requestPolicy": {"default": "5", "validValues": ["5", "1", "3"]}}},
    ),
    "no values": device(
        "x",
        allowMultipleAllocations=True,
        capacity={"m": {"value": "9", "requestPolicy": {"default": "5", "validValues": []}}},
    ),
    "a selector of no node": device("x", nodeSelector={"nodeSelectorTerms": [{}]}),
    "a name beyond ASCII": device("é\u0000\u2028"),
}


@pytest.mark.parametrize("name", DEVICES)
def test_odd_devices_among_good_ones(name: str) -> None:
    """Whatever becomes of the odd one, four good devices are enough for a claim that wants three of the good ones' kind."""
    counters = [{"name": "s", "counters": {"u": {"value": "1"}}}]
    good = [device(f"good{i}", attributes={"good": {"bool": True}}) for i in range(4)]
    wanted = [ask(expression=f"{MINE}.?good.orValue(false)", count=3)]
    data = problem([DEVICES[name], *good], wanted, counters=counters)
    other = deepcopy(data["slices"])
    for item in other:
        item["metadata"]["name"] += "-other"
        item["spec"]["pool"] = {**item["spec"]["pool"], "name": "other"}
    other[0]["spec"]["devices"] = good
    data["slices"] += other
    # A broken device makes its pool invalid, and FirstFit may end with its error; the other pool is there for everybody else.
    assert isinstance(answers(data)[1], Solved)
    answers(problem([DEVICES[name]], [ask(capacity={"requests": {"m": "2"}})], counters=counters))
    answers(problem([DEVICES[name], *good], [ask(allocationMode="All")], counters=counters))


LONG = {
    "a catastrophic pattern": f"'{'a' * 2000}'.matches('(a*)*(a*)*b') || true",
    "a pattern too large": "'a'.matches('((a{100}){100}){100}')",
    "1,000 parentheses": "(" * 1000 + "true" + ")" * 1000,
    "10 KiB of terms": " && ".join([f"{MINE}.i >= 0"] * 280)[: 10 * 1024].rpartition(" && ")[0],
    "loops in loops": "".join(f"[1,2,3,4,5,6,7,8,9,10].all({name}," for name in "abcdefg") + "true" + ")" * 7,
    "no boolean": "1 + 1",
    "nothing defined": "nothing.defined",
    "beyond 64 bits": f"{MINE}.i + 9223372036854775807 > 0",
}


@pytest.mark.parametrize("name", LONG)
def test_hostile_selectors_within_claims(name: str) -> None:
    """On 128 devices, in the request and in the class; another claim of the same cluster is not disturbed."""
    devices = [device(f"x{i}", attributes={"i": {"int": i + 1}}) for i in range(128)]
    data = problem(devices, [ask(expression=LONG[name])])
    assert all(isinstance(result, Failed | Solved) for result in answers(data))
    data["classes"].append({"metadata": {"name": "bad"}, "spec": {"selectors": [{"cel": {"expression": LONG[name]}}]}})
    data["claims"][0]["spec"]["devices"]["requests"] = [ask()]
    assert all(isinstance(result, Solved) for result in answers(data))


def test_a_selector_that_is_expensive_on_each_device() -> None:
    """Within the limit on each of 128 different devices, and true on none: after the first few the others are not looked at."""
    expression = f"lists.range(200).map(a, lists.range(200).map(b, {MINE}.i)).size() == 0"
    devices = [device(f"x{i}", attributes={"i": {"int": i}}) for i in range(128)]
    for result in answers(problem(devices, [ask(expression=expression)])):
        assert isinstance(result, Failed)
        assert "too expensive: " in result.message


def pathological(count: int) -> list[dict[str, Any]]:
    """Devices that differ in everything: attributes, capacity, what they take of two counter sets."""
    return [
        device(
            f"x{i}",
            attributes={f"a{k}": {"int": i * (k + 3) % (k + 5)} for k in range(4)} | {"u": {"int": i}},
            capacity={"memory": {"value": str(i * 7 % 31 + 1)}},
            consumesCounters=[
                {
                    "counterSet": f"s{k}",
                    "counters": {f"c{n}": {"value": str((i * (n + 2) + k) % 7 + 1)} for n in range(4)},
                }
                for k in range(2)
            ],
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("requests", [1, 4, 16])
def test_everything_different_with_constraints_and_counters(requests: int) -> None:
    """The search may give up, but does so after the work it was given."""
    counters = [{"name": f"s{k}", "counters": {f"c{n}": {"value": "40"} for n in range(4)}} for k in range(2)]
    rules = [
        {"matchAttribute": f"{DRIVER}/a0"},
        {"matchAttribute": f"{DRIVER}/a1"},
        {"distinctAttribute": f"{DRIVER}/u"},
        {"distinctAttribute": f"{DRIVER}/a3"},
    ]
    wanted = [ask(f"r{i}", count=max(1, 16 // requests)) for i in range(requests)]
    data = problem(pathological(64), wanted, counters=counters, constraints=rules)
    for strategy in STRATEGIES:
        document = read_document(data)
        snapshot = document.inventory.snapshot()
        result, calls = calls_of(
            lambda: solve(Problem(document.claims, strategy=strategy, work_budget=2_000), snapshot)  # noqa: B023
        )
        assert calls < CALLS
        assert not isinstance(result, Failed) or result.kind == "budget"
        check(document, result)


#: What a leaf of an object can be replaced by and still be decoded by an API server.
TEXTS = ("", "x" * 300, "é", "a b", "a/b/c", "\0", "NaN", "-1", "1e400", "99999999999999999999Ei")
WHOLES = (0, -1, 2**31, 2**63 - 1, -(2**63))
OTHERS: tuple[Any, ...] = (None, {}, [], True, 1.5, float("nan"), float("inf"), 2**64, [None], {"": {}})


@given(st.binary(min_size=1024, max_size=1024), st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=400)
def test_a_leaf_replaced_anywhere(seed: bytes, at: int, by: int, same_type: bool) -> None:
    """It is refused with a ValueError when read, or answered; nothing else is raised."""
    data = deepcopy(choose_problem(Drawn(seed)))
    leaves = list(places({key: data[key] for key in ("nodes", "classes", "slices", "claims", "allocated")}))
    holder, key = leaves[at % len(leaves)]
    old = holder[key]
    choices = TEXTS if isinstance(old, str) and same_type else WHOLES if type(old) is int and same_type else OTHERS
    holder[key] = choices[by % len(choices)]
    try:
        document = read_document(data)
    except ValueError:
        return
    for strategy in STRATEGIES:
        result, calls = calls_of(
            lambda: solve(Problem(document.claims, strategy=strategy), document.inventory.snapshot())  # noqa: B023
        )
        assert calls < CALLS
        check(document, result)


@pytest.mark.parametrize("holder", ["spec", "device", "counter set", "consumption"])
def test_a_null_where_a_name_must_be_is_nothing_there(holder: str) -> None:
    consumes = [{"counterSet": "set", "counters": {"c": {"value": "1"}}}]
    counters = [{"name": "set", "counters": {"c": {"value": "1"}}}]
    data = problem([device("d", consumesCounters=consumes)], [{"name": "r"}], counters=counters)
    first, second = (item["spec"] for item in data["slices"])
    where, field = {
        "spec": (first, "driver"),
        "device": (first["devices"][0], "name"),
        "counter set": (second["sharedCounters"][0], "name"),
        "consumption": (first["devices"][0]["consumesCounters"][0], "counterSet"),
    }[holder]
    where[field] = None
    with pytest.raises(ValueError, match=field):
        read_document(data)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every value within, as what holds it and under which key."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, key) for key, _ in items] + [place for _, item in items for place in places(item)]
