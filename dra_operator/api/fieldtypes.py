"""Whether an object has the shape its kind has: what an API server's decoder refuses, and which fields it does not know.

The types are those the API server publishes (OpenAPI of 1.37, without descriptions), in `fieldtypes.json`, which
`python -m devcluster.fieldtypes` makes. Values and their relations are not looked at: that is validation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from dra_operator.api.errors import InvalidField, described
from dra_operator.api.meta import parse_time
from dra_operator.api.quantity import Quantity

#: Deeper than any type of the API that refers to itself is used.
_MAX_DEPTH = 60
_INTEGERS = {"int32": 2**31, "int64": 2**63}


@dataclass(slots=True)
class Findings:
    """`errors`: what cannot be decoded. `unknown`: paths of fields the kind does not have, with a hint."""

    errors: list[InvalidField] = field(default_factory=list)
    unknown: list[InvalidField] = field(default_factory=list)


def check_fields(group: str, version: str, kind: str, data: Mapping[str, Any]) -> Findings:
    """Findings about an object; none for a kind whose types are not known here (CRDs)."""
    findings = Findings()
    tables = _tables()
    name = tables["kinds"].get(f"{kind}.{version}.{group}".rstrip("."))
    if name is not None:
        _Checker(tables["types"], findings).structure(data, name, "", 0)
    return findings


@cache
def _tables() -> Mapping[str, Any]:
    text = files("dra_operator.api").joinpath("fieldtypes.json").read_text()
    tables: Mapping[str, Any] = json.loads(text)
    return tables


class _Checker:
    def __init__(self, types: Mapping[str, Mapping[str, str]], findings: Findings) -> None:
        self.types = types
        self.findings = findings

    def structure(self, value: Any, type: str, path: str, depth: int) -> None:
        if not isinstance(value, dict):
            self._wrong(path, "a mapping", value)
            return
        if depth > _MAX_DEPTH:
            self.findings.errors.append(InvalidField("is nested too deeply", path))
            return
        fields = self.types[type]
        for name, item in value.items():
            wanted = fields.get(name)
            if wanted is None:
                self._unknown(path, str(name), fields)
            elif item is not None:
                self.value(item, wanted, f"{path}.{name}" if path else name, depth)

    def value(self, value: Any, type: str, path: str, depth: int) -> None:
        check = _SCALARS.get(type)
        if check is not None:
            if not check(value):
                self._wrong(path, _CALLED[type], value)
        elif type in self.types:
            self.structure(value, type, path, depth + 1)
        elif type.startswith("[]"):
            if not isinstance(value, list):
                self._wrong(path, "a list", value)
                return
            for index, item in enumerate(value):
                self._inside(item, type[2:], f"{path}[{index}]", depth)
        elif type.startswith("{}"):
            if not isinstance(value, dict):
                self._wrong(path, "a mapping", value)
                return
            for name, item in value.items():
                self._inside(item, type[2:], f"{path}[{name}]", depth)

    def _inside(self, item: Any, type: str, path: str, depth: int) -> None:
        """An item of a list or map: null has no meaning there."""
        if item is None:
            self.findings.errors.append(InvalidField("is empty; fill it in or take it out", path))
            return
        self.value(item, type, path, depth)

    def _wrong(self, path: str, expected: str, value: Any) -> None:
        repair = ""
        if expected == _CALLED["string"] and isinstance(value, bool | int | float):
            repair = "; put it in quotes"
        elif isinstance(value, str) and expected in (_CALLED["int32"], _CALLED["int64"], _CALLED["boolean"]):
            repair = "; write it without quotes"
        self.findings.errors.append(InvalidField(f"expected {expected}, found {described(value)}{repair}", path))

    def _unknown(self, path: str, name: str, fields: Mapping[str, str]) -> None:
        near = get_close_matches(name, fields, 1)
        hint = f"is not known; did you mean {near[0]}?" if near else "is not known"
        self.findings.unknown.append(InvalidField(hint, f"{path}.{name}" if path else name))


def _integer(type: str) -> Callable[[Any], bool]:
    limit = _INTEGERS[type]
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _quantity(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and _is_quantity(str(value))


@lru_cache(maxsize=4096)
def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _time(value: Any) -> bool:
    try:
        return isinstance(value, str) and (value == "" or parse_time(value) is not None)
    except InvalidField:
        return False


_SCALARS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "quantity": _quantity,
    "int-or-string": lambda value: isinstance(value, int | str) and not isinstance(value, bool),
    "time": _time,
    "any": lambda value: True,
}
_CALLED = {
    "string": "text",
    "boolean": "true or false",
    "number": "a number",
    "int32": "a whole number of 32 bits",
    "int64": "a whole number of 64 bits",
    "quantity": "a quantity such as 500m or 40Gi",
    "int-or-string": "a whole number or text",
    "time": "a time such as 2027-01-01T00:00:00Z",
}
