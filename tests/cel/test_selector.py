"""What a selector says of itself: what it reads, its conjuncts, when two devices are alike to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import (
    CelFeatures,
    CompileError,
    EvaluationError,
    bind_device,
    cached_selector,
    compile_derived,
    compile_selector,
)
from tests.cel.selecting import DEVICE

GPU = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ('device.driver == "x"', {("driver",)}),
        ("device.allowMultipleAllocations", {("allowMultipleAllocations",)}),
        (f"{GPU}.index > 0", {("attribute", "gpu.example.com", "index")}),
        (f'{GPU}["index"] > 0', {("attribute", "gpu.example.com", "index")}),
        (f"has({GPU}.index)", {("attribute", "gpu.example.com", "index")}),
        (f'"index" in {GPU}', {("attribute", "gpu.example.com", "index")}),
        (f"{GPU}.?index.orValue(0) > 0", {("attribute", "gpu.example.com", "index")}),
        ('device.attributes[?"a.b"].?c.hasValue()', {("attribute", "a.b", "c")}),
        (f"{CAPACITY}.memory.isInteger()", {("capacity", "gpu.example.com", "memory")}),
        (
            f"cel.bind(g, {GPU}, g.index > 0 && g.ready)",
            {("attribute", "gpu.example.com", name) for name in ("index", "ready")},
        ),
        ("cel.bind(a, device.attributes, a['x'].y == 1)", {("attribute", "x", "y")}),
        (f"{GPU}.exists(k, k == 'x')", {("attribute", "gpu.example.com", None)}),
        (f"{GPU}.size() > 1", {("attribute", "gpu.example.com", None)}),
        ('"a.b" in device.attributes', {("attribute", "a.b", None)}),
        ("device.attributes.exists(d, d == 'x')", {("attribute", None, None)}),
        ("device.attributes[device.driver].x == 1", {("driver",), ("attribute", None, None)}),
        (f"dyn({GPU}).index == 1", {("attribute", "gpu.example.com", None)}),
        (
            f"{GPU}[{GPU}.model] == 1",
            {("attribute", "gpu.example.com", None), ("attribute", "gpu.example.com", "model")},
        ),
        ("[1].exists(device, device == 1)", set()),
        (
            "dyn(device).driver == 'x'",
            {("driver",), ("allowMultipleAllocations",), ("attribute", None, None), ("capacity", None, None)},
        ),
        (f"optional.of({GPU}).index.hasValue()", {("attribute", "gpu.example.com", None)}),
    ],
)
def test_reads(expression: str, reads: set[Any]) -> None:
    assert compile_selector(expression).reads == reads


def test_conjuncts_are_the_terms_of_the_outermost_and() -> None:
    selector = compile_selector(
        f'device.driver == "gpu.example.com" &&\n  ({GPU}.index >= 2 && ({GPU}.ready || false)) // all\n && !(true && false)'
    )
    assert [conjunct.text for conjunct in selector.conjuncts] == [
        'device.driver == "gpu.example.com"',
        f"{GPU}.index >= 2",
        f"{GPU}.ready || false",
        "!(true && false)",
    ]
    assert [conjunct.matches(DEVICE) for conjunct in selector.conjuncts] == [True, False, True, True]


@pytest.mark.parametrize(
    ("expression", "subject", "operator", "bound", "seen"),
    [
        ('device.driver == "x"', "driver", "==", "x", "gpu.example.com"),
        (f"{GPU}.index >= 2", "index", ">=", 2, 1),
        (f"2 <= {GPU}.index", "index", ">=", 2, 1),
        (f'{GPU}["model"] != "a"', "model", "!=", "a", "a100"),
        (f'{GPU}.model in ["a", "b"]', "model", "in", ("a", "b"), "a100"),
        (f"{GPU}.ready", "ready", "==", True, True),
        (f"!{GPU}.ready", "ready", "==", False, True),
        (f"{GPU}.?missing.orValue(5) > 3", "missing", ">", 3, None),
        (
            f'{CAPACITY}.memory.isGreaterThan(quantity("100Gi"))',
            "memory",
            ">",
            Quantity.parse("100Gi"),
            Quantity.parse("80Gi"),
        ),
        (
            f'{CAPACITY}.memory.compareTo(quantity("100Gi")) >= 0',
            "memory",
            ">=",
            Quantity.parse("100Gi"),
            Quantity.parse("80Gi"),
        ),
        (f'quantity("1").isLessThan({CAPACITY}.memory)', "memory", ">", Quantity.parse("1"), Quantity.parse("80Gi")),
        (
            f'{GPU}.driverVersion.isLessThan(semver("1.0.0"))',
            "driverVersion",
            "<",
            Semver.parse("1.0.0"),
            Semver.parse("535.104.5"),
        ),
        (f'{GPU}.model.startsWith("h")', "model", "startsWith", "h", "a100"),
        (f"{GPU}.numas.includes(5)", "numas", "includes", 5, (0, 1)),
        ("device.allowMultipleAllocations == false", "allowMultipleAllocations", "==", False, True),
        ('device.attributes["net.example.com"].zone == "z2"', "zone", "==", "z2", "z1"),
    ],
)
def test_a_conjunct_that_compares_says_what_with_what(
    expression: str, subject: str, operator: str, bound: object, seen: object
) -> None:
    (conjunct,) = compile_selector(expression).conjuncts
    comparison = conjunct.comparison
    assert comparison is not None
    assert (comparison.subject, comparison.operator, comparison.bound) == (subject, operator, bound)
    assert conjunct.seen(DEVICE) == seen


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f"{GPU}.index > {GPU}.other",
        f"{GPU}.index + 1 > 2",
        f"{GPU}.exists(k, true)",
        f"has({GPU}.index)",
        "1 > 2",
    ],
)
def test_other_conjuncts_are_no_comparison(expression: str) -> None:
    (conjunct,) = compile_selector(expression).conjuncts
    assert conjunct.comparison is None
    assert conjunct.seen(DEVICE) is None


def test_projection_tells_apart_what_an_expression_can() -> None:
    selector = compile_selector(f"{GPU}.x == 1 || {CAPACITY}.c.isInteger()")
    values: list[Any] = [1, True, "1", (1,), (True,), Semver.parse("1.0.0"), None]
    devices = [bind_device("gpu.example.com", {} if value is None else {"x": value}, {}) for value in values]
    devices.append(bind_device("gpu.example.com", {}, {"c": Quantity.parse("1")}))
    devices.append(bind_device("gpu.example.com", {}, {"c": Quantity.parse("1000m")}))
    assert len({selector.projection(device) for device in devices}) == len(devices)


def test_projection_sees_through_how_names_are_written() -> None:
    selector = compile_selector(f"{GPU}.index == 1")
    same = [
        bind_device("gpu.example.com", {"index": 1, "uuid": "a"}, {}),
        bind_device("gpu.example.com", {"gpu.example.com/index": 1}, {"memory": Quantity.parse("1")}),
        bind_device("other.example.com", {"gpu.example.com/index": 1}, {}, True),
    ]
    assert len({selector.projection(device) for device in same}) == 1


_VALUES = st.sampled_from([0, 1, True, False, "a", "b", (0, 1), ("a",), Semver.parse("1.0.0")])
_DEVICES = st.builds(
    lambda driver, own, foreign, memory: bind_device(
        driver, own | {f"gpu.example.com/{name}": value for name, value in foreign.items()}, memory
    ),
    st.sampled_from(["gpu.example.com", "x"]),
    st.dictionaries(st.sampled_from(["index", "ready", "model"]), _VALUES, max_size=3),
    st.dictionaries(st.sampled_from(["index", "zone"]), _VALUES, max_size=2),
    st.dictionaries(st.just("memory"), st.sampled_from([Quantity.parse("1"), Quantity.parse("1000m")])),
)
_SELECTORS = [
    compile_selector(expression)
    for expression in (
        f"{GPU}.index == 1",
        f"{GPU}.index == true",
        f"has({GPU}.ready) && {GPU}.ready",
        f"{GPU}.exists(k, v, v == 1)",
        f"{GPU}.size() == 2",
        "device.attributes.exists(d, device.attributes[d].size() == 1)",
        'device.driver == "x" || "zone" in device.attributes["gpu.example.com"]',
        f"{CAPACITY}.memory.isInteger()",
    )
]


@given(st.lists(_DEVICES, min_size=2, max_size=12), st.sampled_from(_SELECTORS))
@settings(deadline=None)
def test_devices_with_one_projection_get_one_answer(devices: list[Any], selector: Any) -> None:
    answers: dict[Any, Any] = {}
    for device in devices:
        try:
            answer: Any = selector.matches(device)
        except EvaluationError as error:
            answer = error.message
        assert answers.setdefault(selector.projection(device), answer) == answer


def test_selectors_are_remembered() -> None:
    assert cached_selector("true") is cached_selector("true")
    assert cached_selector("true") is not cached_selector("true", CelFeatures(list_type_attributes=True))
    with pytest.raises(CompileError):
        cached_selector("nonsense")


def test_metered_and_free_evaluation_agree_on_cost_bounds() -> None:
    selector = compile_selector(f'{GPU}.model == "a100" && {GPU}.exists(k, k == "index")')
    matched, cost = selector.measure(DEVICE)
    assert matched
    assert 0 < cost <= selector.estimated_cost


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"{GPU}.index + 1", 2),
        (f'{GPU}.model + "-x"', "a100-x"),
        (f"{GPU}.numas", (0, 1)),
        (f"{GPU}.numas.map(n, n * 2)", (0, 2)),
        (f"{GPU}.driverVersion", Semver.parse("535.104.5")),
        (f"{GPU}.ready ? 1 : 2", 1),
        ("[]", ()),
    ],
)
def test_derived_attributes(expression: str, value: object) -> None:
    derived, cost = compile_derived(expression).evaluate(DEVICE)
    assert derived == value
    assert cost >= 0


@pytest.mark.parametrize("expression", ["1.5", "null", "{}", "[[1]]", "quantity('1')", "device", "duration('1s')"])
def test_what_can_be_no_derived_attribute(expression: str) -> None:
    with pytest.raises(CompileError, match=r"must evaluate to a primitive scalar .* or a list of these scalars, not "):
        compile_derived(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dyn(1.5)", "unsupported CEL return type: double"),
        ("[dyn(1), dyn('a')]", "expected list element at index 1 to be int, got string"),
        (f"{GPU}.missing", "no such key: missing"),
    ],
)
def test_derived_attributes_that_fail(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        compile_derived(expression).evaluate(DEVICE)


def test_lists_as_derived_attributes_need_the_feature_in_new_objects() -> None:
    compile_derived("[1]", CelFeatures(list_type_attributes=True), "NewExpressions")
    with pytest.raises(CompileError, match=r"\(string, integer, boolean, semver\), not list\(int\)"):
        compile_derived("[1]", CelFeatures(), "NewExpressions")
