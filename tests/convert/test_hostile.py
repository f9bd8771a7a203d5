"""Whatever stands where in an object: it is converted, left alone, or refused with a reason; and lint finds its words for it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_operator.convert.conversion import Conversion
from dra_operator.convert.remarks import Untranslatable
from dra_operator.lint.checking import check

CASES = Path(__file__).parent / "cases"
SHAPES: list[Any] = [None, 3, True, "x", [], [3], [None], {}, {"a": 1}, [{}], [[1]]]


def objects() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted(CASES.glob("*.yaml")):
        for value in yaml.safe_load_all(file.read_text()):
            found += value["items"] if value["kind"] == "List" else [value]
    return found


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield (*path, key)
        yield from paths(item, (*path, key))


def spoilt(value: dict[str, Any], path: tuple[Any, ...], shape: Any) -> dict[str, Any]:
    copy = deepcopy(value)
    holder: Any = copy
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = shape
    return copy


@pytest.mark.parametrize("index", range(len(objects())))
def test_any_field_can_be_anything(index: int) -> None:
    original = objects()[index]
    told: list[str] = []
    for number, path in enumerate(paths(original)):
        for shape in SHAPES[number % 3 :: 3]:
            value = spoilt(original, path, shape)
            check([value], inventory=True)
            try:
                converted = Conversion([value]).convert(0, value)
            except Untranslatable as reason:
                told.append(reason.message)
            else:
                assert converted.objects
    assert all(told)
