"""Patch formats, beyond what the semantics suite shows on both worlds."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.cluster.memory.patches import json_patch, merge_patch, strategic_patch
from dra_operator.cluster.memory.refusals import Refused


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, want: Any) -> None:
    """The examples of RFC 7386, appendix A."""
    assert merge_patch(target, patch) == want


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        (
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "b"}]},
            {"env": [{"name": "a", "value": "1"}, {"name": "b"}]},
        ),
        (
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "a", "value": "2"}]},
            {"env": [{"name": "a", "value": "2"}]},
        ),
        (
            {"env": [{"name": "a"}, {"name": "b"}]},
            {"env": [{"name": "a", "$patch": "delete"}]},
            {"env": [{"name": "b"}]},
        ),
        ({"env": [{"name": "a"}]}, {"env": [{"$patch": "replace"}, {"name": "c"}]}, {"env": [{"name": "c"}]}),
        ({"tolerations": [1]}, {"tolerations": [2]}, {"tolerations": [2]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"$patch": "replace", "a": 3}}, {"spec": {"a": 3}}),
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"$retainKeys": ["a"], "a": 3}}, {"spec": {"a": 3}}),
        ({"x": [{"name": "a"}]}, {"$setElementOrder/x": [], "x": []}, {"x": []}),
        ({"a": 1}, {"a": None}, {}),
    ],
)
def test_strategic_patch(target: Any, patch: Any, want: Any) -> None:
    assert strategic_patch(target, patch) == want


def test_strategic_patch_needs_the_merge_key() -> None:
    with pytest.raises(Refused, match="merge key: name"):
        strategic_patch({}, {"env": [{"value": "1"}]})


@pytest.mark.parametrize(
    ("operations", "want"),
    [
        ([{"op": "add", "path": "/list/-", "value": 3}], {"list": [1, 2, 3], "map": {"a/b": 1}}),
        ([{"op": "add", "path": "/list/0", "value": 0}], {"list": [0, 1, 2], "map": {"a/b": 1}}),
        ([{"op": "remove", "path": "/list/0"}], {"list": [2], "map": {"a/b": 1}}),
        ([{"op": "replace", "path": "/map/a~1b", "value": 2}], {"list": [1, 2], "map": {"a/b": 2}}),
        ([{"op": "move", "from": "/map/a~1b", "path": "/map/c"}], {"list": [1, 2], "map": {"c": 1}}),
        ([{"op": "copy", "from": "/list/0", "path": "/map/c"}], {"list": [1, 2], "map": {"a/b": 1, "c": 1}}),
        ([{"op": "test", "path": "/list", "value": [1, 2]}], {"list": [1, 2], "map": {"a/b": 1}}),
    ],
)
def test_json_patch(operations: list[dict[str, Any]], want: Any) -> None:
    target = {"list": [1, 2], "map": {"a/b": 1}}
    assert json_patch(target, operations) == want
    assert target == {"list": [1, 2], "map": {"a/b": 1}}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        ([{"op": "add"}], 400),
        ([{"op": "leap", "path": "/list"}], 400),
        ([{"op": "remove", "path": "/nothing"}], 422),
        ([{"op": "add", "path": "/list/9", "value": 1}], 422),
        ([{"op": "replace", "path": "/nothing", "value": 1}], 422),
        ([{"op": "test", "path": "/list", "value": [1]}], 422),
        ([{"op": "replace", "path": "", "value": 1}], 422),
    ],
)
def test_json_patch_refusals(operations: Any, code: int) -> None:
    with pytest.raises(Refused) as refusal:
        json_patch({"list": []}, operations)
    assert refusal.value.code == code
