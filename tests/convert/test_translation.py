"""Selectors of the string dialect: what they become, what they mean, and which have no translation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.slices import ResourceSlice
from dra_operator.cel import bind_device, compile_selector
from dra_operator.convert.conversion import Conversion
from dra_operator.convert.remarks import Untranslatable

D = "device.attributes['legacy.dra-operator.dev']"


def device_class(expression: str, name: str = "c") -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"CELExpression": expression}]},
    }


def slice_of(*devices: dict[str, str], kinds: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "nodeName": "n",
            "devices": [
                {"name": f"d{i}", **({"type": kinds[i]} if kinds else {}), "attributes": attributes}
                for i, attributes in enumerate(devices)
            ],
        },
    }


def expression_of(expression: str, *devices: dict[str, str]) -> str:
    """The v1 expression, in one line."""
    objects = [device_class(expression), *([slice_of(*devices)] if devices else [])]
    converted = Conversion(objects).convert(0, objects[0]).objects[0]
    return " ".join(converted["spec"]["selectors"][0]["cel"]["expression"].split())


def matching(expression: str, *devices: dict[str, str], kinds: tuple[str, ...] = ()) -> list[str]:
    """The devices of the converted slice that the converted selector matches. No evaluation may fail."""
    objects = [device_class(expression), slice_of(*devices, kinds=kinds)]
    conversion = Conversion(objects)
    converted = conversion.convert(0, objects[0]).objects[0]
    selector = compile_selector(converted["spec"]["selectors"][0]["cel"]["expression"], env="NewExpressions")
    published = ResourceSlice.from_dict(dict(conversion.convert(1, objects[1]).objects[0]))
    return [
        device.name
        for device in published.devices
        if selector.matches(bind_device(published.driver, device.attributes, device.capacity))
    ]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("device.attributes['memory-gb'] >= '40'", f"has({D}.memory_gb) && {D}.memory_gb >= 40"),
        ("'40' <= device.attributes['memory-gb']", f"has({D}.memory_gb) && {D}.memory_gb >= 40"),
        ("device.attributes.memory >= 40", f"has({D}.memory) && {D}.memory >= 40"),
        ("device.attributes['cc'] >= '8.0'", f"has({D}.cc) && {D}.cc.compareTo(semver('8.0.0')) >= 0"),
        ("device.attributes['share'] < '0.5'", "has(device.capacity['legacy.dra-operator.dev'].share) && device.capacity['legacy.dra-operator.dev'].share.compareTo(quantity('0.5')) < 0"),
        ("device.attributes['nv'] == 'true'", f"has({D}.nv) && {D}.nv == true"),
        ("device.attributes['nv'] && !device.attributes['x']", f"has({D}.nv) && {D}.nv && has({D}.x) && !{D}.x"),
        ("device.type == 'a' || device.type == 'b'", f"has({D}.type) && {D}.type == 'a' || has({D}.type) && {D}.type == 'b'"),
        ("device.type in ['a', 'b']", f"has({D}.type) && {D}.type in ['a', 'b']"),
        ("device.attributes['cc'] in ['8.0', '9']", f"has({D}.cc) && {D}.cc.compareTo(semver('8.0.0')) == 0 || has({D}.cc) && {D}.cc.compareTo(semver('9.0.0')) == 0"),
        ("device.attributes['m'].startsWith('A')", f"has({D}.m) && {D}.m.startsWith('A')"),
        ("device.attributes['m'].lowerAscii() == 'a100'", f"has({D}.m) && {D}.m.lowerAscii() == 'a100'"),
        ("size(device.attributes['m']) > 3", f"has({D}.m) && size({D}.m) > 3"),
        ("int(device.attributes['m']) > 3", f"has({D}.m) && {D}.m > 3"),
        ("double(device.attributes['m']) > 3.5", "has(device.capacity['legacy.dra-operator.dev'].m) && device.capacity['legacy.dra-operator.dev'].m.compareTo(quantity('3.5')) > 0"),
        ("semver(device.attributes['v']).isGreaterThan(semver('1.2.3'))", f"has({D}.v) && {D}.v.compareTo(semver('1.2.3')) > 0"),
        ("semver(device.attributes['v']).major() == 1", f"has({D}.v) && {D}.v.major() == 1"),
        ("quantity(device.attributes['m']).isLessThan(quantity('40Gi'))", "has(device.capacity['legacy.dra-operator.dev'].m) && device.capacity['legacy.dra-operator.dev'].m.compareTo(quantity('40Gi')) < 0"),
        ("has(device.attributes.m) && device.attributes.m > '3'", f"has({D}.m) && {D}.m > 3"),
        ("'m' in device.attributes && device.attributes['m'] > '3'", f"has({D}.m) && {D}.m > 3"),
        ("device.attributes.?m.orValue('0') > '3'", f"{D}.?m.orValue(0) > 3"),
        ("device.attributes['example.com/m'] > '3'", "has(device.attributes['example.com'].m) && device.attributes['example.com'].m > 3"),
        ("device.attributes['gpu.nvidia.com'].type == 'gpu' && device.attributes['m'] > '3'", f"has(device.attributes['gpu.nvidia.com'].type) && device.attributes['gpu.nvidia.com'].type == 'gpu' && has({D}.m) && {D}.m > 3"),
        ("device.driver == 'x' && device.type == 'a'", f"device.driver == 'x' && has({D}.type) && {D}.type == 'a'"),
        ("device.attributes['a'] < device.attributes['b'] && device.attributes['b'] < '1.5'", f"has({D}.a) && has({D}.b) && {D}.a.compareTo({D}.b) < 0 && {D}.b.compareTo(semver('1.5.0')) < 0"),
        ("device.attributes['gen'] >= 'A100'", f"has({D}.gen) && {D}.gen >= 'A100'"),
        ("device.type == 'a' # of the first kind\n", f"has({D}.type) && {D}.type == 'a' // of the first kind"),
        ("device.type == '#1' // hash", f"has({D}.type) && {D}.type == '#1' // hash"),
        ("device.attributes['a-very-long-name-of-an-attribute'] == 'x'", f"has({D}.a_very_long_name_of_an_attribute) && {D}.a_very_long_name_of_an_attribute == 'x'"),
        ("device.attributes['a-still-longer-name-of-an-attribute'] == 'x'", f"has({D}.a_still_longer_name_of_an_3b5412) && {D}.a_still_longer_name_of_an_3b5412 == 'x'"),
    ],
)  # fmt: skip
def test_expressions(source: str, wanted: str) -> None:
    assert expression_of(source) == wanted


@pytest.mark.parametrize(
    ("expression", "devices", "wanted"),
    [
        ("device.attributes['m'] >= '40'", [{"m": "100"}, {"m": "8"}, {}, {"m": "40"}], "d0 d3"),
        ("device.attributes['v'] >= '8.0'", [{"v": "10.0"}, {"v": "7.5"}, {"v": "8.0"}, {}], "d0 d2"),
        ("device.attributes['s'] >= '0.25'", [{"s": "0.5"}, {"s": "1"}, {"s": "0.125"}, {}], "d0 d1"),
        ("device.attributes['b'] != 'true'", [{"b": "true"}, {"b": "false"}, {}], "d1"),
        ("!(device.attributes['b'] == 'true')", [{"b": "true"}, {"b": "false"}, {}], "d1"),
        ("device.attributes['m'] >= '40' || device.attributes['b'] == 'true'", [{"m": "80"}, {"b": "true"}, {"m": "8"}, {}], "d0 d1"),
        ("device.attributes['m'] == 'any'", [{"m": "80"}], ""),
        ("device.attributes['m'] != 'any'", [{"m": "80"}, {}], "d0"),
        ("device.attributes['m'] == '80.0'", [{"m": "80"}], "d0"),
        ("device.attributes['m'] < device.attributes['max']", [{"m": "9", "max": "10"}, {"m": "11", "max": "10"}, {"m": "1"}], "d0"),
    ],
)  # fmt: skip
def test_meaning(expression: str, devices: list[dict[str, str]], wanted: str) -> None:
    assert " ".join(matching(expression, *devices)) == wanted


def test_type_of_a_device_is_an_attribute() -> None:
    assert matching("device.type == 'a100'", {}, {}, kinds=("a100", "h100")) == ["d0"]
    assert matching("device.attributes['type'] == 'a100'", {}, {}, kinds=("a100", "h100")) == ["d0"]
    both = ({"type": "gpu"}, {"type": "nic"})
    assert matching("device.type == 'a100' && device.attributes['type'] == 'gpu'", *both, kinds=("a100", "a100")) == [
        "d0"
    ]


@pytest.mark.parametrize(
    ("expression", "devices", "message"),
    [
        ("device.name == 'gpu-0'", [], "a v1 selector cannot see device.name"),
        ("device.attributes['m'] >= '40'", [{"m": "80"}, {"m": "n/a"}], "`m` have no common type ('80' and 'n/a')"),
        ("device.attributes['m'] + '1' == '2'", [], "is used in a way that does not show what it is"),
        ("device.attributes['m'] >= device.driver", [], "compared with something that is not a constant"),
        ("device.attributes.exists(k, k == 'm')", [], "device.attributes is used as a whole"),
        ("device.attributes['b'] > 'true'", [{"b": "true"}], "is a boolean, which has no order"),
        ("device.attributes['m'] && true", [{"m": "80"}], "`m` is used as boolean here, but a device has '80'"),
        ("device.attributes['m'] >= ", [], "unexpected end of input"),
        ("int(device.attributes['m']) >= 3", [{"m": "x"}], "`m` have no common type ('3' and 'x')"),
        ("[1].exists(i, device.attributes['m'] > '3')", [], "a macro whose body reads text attributes"),
    ],
)
def test_no_translation(expression: str, devices: list[dict[str, str]], message: str) -> None:
    with pytest.raises(Untranslatable) as caught:
        expression_of(expression, *devices)
    assert message in str(caught.value)
    assert caught.value.path == ("spec", "selectors", 0)


KEYS = {"size": ["2", "10", "100"], "cc": ["7.5", "8.0", "10.0"], "part": ["0.25", "0.5", "1"], "on": ["true", "false"]}
DEVICES = st.lists(
    st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in KEYS.items()}),
    min_size=1,
    max_size=4,
)
TERMS = st.one_of(
    st.tuples(
        st.sampled_from(["size", "cc", "part"]), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(0, 2)
    ),
    st.tuples(st.just("on"), st.sampled_from(["==", "!="]), st.integers(0, 1)),
)
TREES = st.recursive(
    TERMS,
    lambda inner: st.one_of(st.tuples(st.sampled_from(["&&", "||"]), inner, inner), st.tuples(st.just("!"), inner)),
    max_leaves=6,
)


def text_of(tree: tuple[object, ...]) -> str:
    if tree[0] in ("&&", "||"):
        return f"({text_of(tree[1])} {tree[0]} {text_of(tree[2])})"  # type: ignore[arg-type]
    if tree[0] == "!":
        return f"!({text_of(tree[1])})"  # type: ignore[arg-type]
    key, operator, index = tree
    return f"device.attributes['{key}'] {operator} '{KEYS[str(key)][index]}'"  # type: ignore[call-overload]


def meaning(tree: tuple[object, ...], device: dict[str, str]) -> bool | None:
    """What the dialect means by numbers; None for no answer, as CEL has it."""
    if tree[0] in ("&&", "||"):
        sides = [meaning(tree[1], device), meaning(tree[2], device)]  # type: ignore[arg-type]
        decisive = tree[0] == "||"
        return decisive if decisive in sides else None if None in sides else not decisive
    if tree[0] == "!":
        inner = meaning(tree[1], device)  # type: ignore[arg-type]
        return None if inner is None else not inner
    key, operator, index = tree
    if key not in device:
        return None
    left, right = device[str(key)], KEYS[str(key)][index]  # type: ignore[call-overload]
    one, other = (left == "true", right == "true") if key == "on" else (float(left), float(right))
    return bool(
        {
            "<": one < other,
            "<=": one <= other,
            ">": one > other,
            ">=": one >= other,
            "==": one == other,
            "!=": one != other,
        }[str(operator)]
    )


@settings(deadline=None)
@given(TREES, DEVICES)
def test_selectors_mean_what_they_meant(tree: tuple[object, ...], devices: list[dict[str, str]]) -> None:
    # All values are published somewhere, so that every key has its type.
    examples = [{key: values[i] for key, values in KEYS.items() if i < len(values)} for i in range(3)]
    everything = [*devices, *examples]
    wanted = [f"d{i}" for i, device in enumerate(everything) if meaning(tree, device)]
    assert matching(text_of(tree), *everything) == wanted
