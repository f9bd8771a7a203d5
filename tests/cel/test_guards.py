"""Guarded selectors: no device fails for a missing attribute, and the same devices match as before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import EvaluationError, bind_device, compile_selector
from dra_operator.cel.guards import Access, guarded, unguarded
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import unparse

D = "device.attributes['d']"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (f"{D}.a == 1", f"has({D}.a) && {D}.a == 1"),
        (f"{D}['a'] == 1", f"has({D}.a) && {D}['a'] == 1"),
        (f"{D}.a", f"has({D}.a) && {D}.a"),
        (f"!{D}.a", f"has({D}.a) && !{D}.a"),
        (f"{D}.a != 1", f"has({D}.a) && {D}.a != 1"),
        (f"{D}.a > 1 && {D}.a < 5", f"has({D}.a) && {D}.a > 1 && {D}.a < 5"),
        (f"{D}.a == 1 || {D}.b == 2", f"has({D}.a) && {D}.a == 1 || has({D}.b) && {D}.b == 2"),
        (f"!({D}.a == 1 || {D}.b == 2)", f"has({D}.a) && !({D}.a == 1) && has({D}.b) && !({D}.b == 2)"),
        (f"!({D}.a == 1 && {D}.b == 2)", f"has({D}.a) && !({D}.a == 1) || has({D}.b) && !({D}.b == 2)"),
        (f"{D}.a == {D}.b", f"has({D}.a) && has({D}.b) && {D}.a == {D}.b"),
        ("device.capacity['d'].m.compareTo(quantity('1Gi')) >= 0", "has(device.capacity['d'].m) && device.capacity['d'].m.compareTo(quantity('1Gi')) >= 0"),
        (f"{D}.l.exists(v, v == {D}.a)", f"has({D}.l) && has({D}.a) && {D}.l.exists(v, v == {D}.a)"),
        (f"true ? {D}.a == 1 : {D}.b == 1", f"true && has({D}.a) && {D}.a == 1 || !true && has({D}.b) && {D}.b == 1"),
    ],
)  # fmt: skip
def test_guards(source: str, wanted: str) -> None:
    assert unparse(guarded(parse(source))) == wanted


@pytest.mark.parametrize(
    "source",
    [
        f"has({D}.a) && {D}.a == 1",
        f"{D}.a == 1 && has({D}.a)",
        f"'a' in {D} && {D}.a == 1",
        f"!has({D}.a) || {D}.a == 1",
        f"has({D}.a) ? {D}.a == 1 : false",
        f"!has({D}.a) ? false : {D}.a == 1",
        f"{D}.?a.orValue(0) == 1",
        f"{D}[?'a'].orValue(0) == 1",
        "device.driver == 'd'",
        f"{D}.exists(k, k == 'a')",
    ],
)
def test_what_is_guarded_stays(source: str) -> None:
    tree = parse(source)
    assert guarded(tree) is tree
    assert unguarded(tree) == ()


def test_unguarded_names_each_access_once() -> None:
    tree = parse(f"{D}.b == 1 && {D}.a == {D}.b && device.capacity.d.c == quantity('1')")
    assert unguarded(tree) == (
        Access("attributes", "d", "b"),
        Access("attributes", "d", "a"),
        Access("capacity", "d", "c"),
    )


NAMES = ("a", "b", "c")
ATOMS = st.one_of(
    st.sampled_from([f"{D}.{name} {op} {value}" for name in NAMES for op in ("==", "!=", ">") for value in (0, 1)]),
    st.sampled_from([f"has({D}.{name})" for name in NAMES] + [f"'{name}' in {D}" for name in NAMES]),
    st.sampled_from(["true", "false", f"{D}.a == {D}.b", f"{D}.?c.orValue(1) == 1"]),
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} && {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} || {pair[1]})"),
        st.tuples(inner, inner, inner).map(lambda three: f"({three[0]} ? {three[1]} : {three[2]})"),
        inner.map(lambda one: f"!({one})"),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1)))
def test_same_answers_without_errors(source: str, attributes: dict[str, int]) -> None:
    device = bind_device("d", attributes, {})
    try:
        wanted = compile_selector(source).matches(device)
    except EvaluationError:
        wanted = False
    assert compile_selector(unparse(guarded(parse(source)))).matches(device) is wanted
