"""How our own custom resources are read: strict models whose errors name the field and the repair.

The API server checks the same rules from `crds/`; these models are for what never met it (files), for other versions
of the CRDs, and for the typed access of the engine. A null counts as absent, as it does there.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from dra_operator.api.claims import quantity
from dra_operator.api.duration import parse_duration
from dra_operator.api.errors import SHAPE_ERRORS, InvalidField, describe
from dra_operator.api.quantity import Quantity
from dra_operator.api.selectors import LabelSelector

INT32 = 2**31 - 1

#: Fully qualified attribute name, as in `matchAttribute`.
ATTRIBUTE = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z_][A-Za-z0-9_]*$"


class Model(BaseModel):
    """Base of all: immutable, camelCase outside, no field that the schema does not have."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _shape(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = {name: value for name, value in data.items() if value is not None}
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for name in given:
            if name not in known and name not in cls.model_fields:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
                raise InvalidField(f"unknown field, {hint}", str(name))
        return given

    @classmethod
    def read(cls, data: Any) -> Self:
        """Raises InvalidField with the path of the first error; the message counts the others."""
        try:
            return cls.model_validate({} if data is None else data)
        except ValidationError as error:
            first, *others = error.errors(include_url=False)
            more = f" (and {len(others)} more error{'s' if len(others) > 1 else ''} in it)" if others else ""
            raise _field_error(first, more) from None


def _field_error(error: Mapping[str, Any], more: str) -> InvalidField:
    path = ""
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, InvalidField):
        found = InvalidField(cause.message + more, cause.path)
        return found.within(path) if path else found
    if error["type"] == "missing":
        return InvalidField("is required" + more, path)
    return InvalidField(f"{_expectation(error)}, found {error['input']!r:.60}{more}", path)


def _expectation(error: Mapping[str, Any]) -> str:
    if error["type"] == "model_type":
        return "expected an object"
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == ATTRIBUTE:
        return "expected an attribute with its domain, such as resource.kubernetes.io/numaNode"
    return str(error["msg"]).replace("Input should be", "expected")


def read_label_selector(data: Any) -> LabelSelector:
    """A `metav1.LabelSelector`. Raises InvalidField."""
    if isinstance(data, LabelSelector):
        return data
    if not isinstance(data, dict):
        raise InvalidField(f"expected a label selector, found {data!r:.60}")
    if unknown := data.keys() - {"matchLabels", "matchExpressions"}:
        raise InvalidField("unknown field, known are matchLabels and matchExpressions", sorted(map(str, unknown))[0])
    try:
        selector = LabelSelector.from_dict(data)
    except InvalidField:
        raise
    except SHAPE_ERRORS as error:
        raise InvalidField(f"cannot be read ({describe(error, data)})") from None
    offset = len(data.get("matchLabels") or {})
    for index, requirement in enumerate(selector.requirements):
        path = "matchLabels" if index < offset else f"matchExpressions[{index - offset}]"
        if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise InvalidField(f"{requirement.operator} is for nodes: use In, NotIn, Exists or DoesNotExist", path)
        if not all(isinstance(value, str) for value in requirement.values):
            raise InvalidField(f"values are text, found {requirement.values!r:.60}: quote them", path)
        if (requirement.operator in ("In", "NotIn")) != bool(requirement.values):
            raise InvalidField("In and NotIn need values, Exists and DoesNotExist take none", path)
    return selector


def _unique(values: Any) -> Any:
    if isinstance(values, list | tuple):
        for index, value in enumerate(values):
            if value in values[:index]:
                raise InvalidField(f"{value!r} stands there twice", f"[{index}]")
    return values


def _quantity(data: Any) -> Quantity:
    if isinstance(data, Quantity):
        return data
    if isinstance(data, bool) or not isinstance(data, str | int):
        raise InvalidField(f"{data!r:.60} is not a quantity")
    amount = quantity(data)
    if amount.nano < 0:
        raise InvalidField(f"{data} is negative")
    return amount


def _seconds(data: Any) -> float:
    # A float only comes from this program (defaults, copies); JSON and YAML hold durations as text.
    return data if isinstance(data, float) else parse_duration(data)


Seconds = Annotated[float, PlainValidator(_seconds)]
Labels = Annotated[LabelSelector, PlainValidator(read_label_selector)]
Amount = Annotated[Quantity, PlainValidator(_quantity)]
Flag = Annotated[bool, Field(strict=True)]
Int = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=INT32)]
Text = Annotated[str, Field(strict=True)]
ClassName = Annotated[str, Field(strict=True, min_length=1, max_length=253)]
Attribute = Annotated[str, Field(strict=True, max_length=96, pattern=ATTRIBUTE)]
LabelKey = Annotated[str, Field(strict=True, min_length=1, max_length=317)]
Unique = BeforeValidator(_unique)


class CELSelector(Model):
    expression: Annotated[str, Field(strict=True, min_length=1, max_length=10240)]


class DeviceSelector(Model):
    """As in a DeviceClass: `{cel: {expression}}`."""

    cel: CELSelector
