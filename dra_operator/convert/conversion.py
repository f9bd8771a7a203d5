"""The way in: all objects of an input, each converted in the light of the others.

`Conversion(objects)` looks at everything once. `convert` then gives what one object becomes; it can be asked again with the same object
in another form (a YAML tree with comments) and gives the same answer in that form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_operator.api.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dra_operator.api.errors import InvalidObject, described
from dra_operator.api.fieldpath import FieldPath
from dra_operator.api.networkclass import NetworkDeviceClass
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.cel import CompileError, compile_selector
from dra_operator.convert.completion import complete
from dra_operator.convert.deviceplugins import convert_plugins
from dra_operator.convert.dialect import (
    convert_claim,
    convert_class,
    convert_selectors,
    convert_slice,
    is_claim_spec,
    is_slice,
    observe_types,
    publish,
    selectors,
    survey_selectors,
)
from dra_operator.convert.plan import Notes, Plan
from dra_operator.convert.podspecs import convert_pods
from dra_operator.convert.remarks import Assumption, Untranslatable
from dra_operator.convert.values import Object, dig, mapping, mappings_below
from dra_operator.convert.versions import GROUP, convert_version, is_old, pool_of, splits

__all__ = ["Conversion", "Converted"]

_READERS: Mapping[str, Any] = {
    reader.__name__: reader.from_dict
    for reader in (
        DeviceClass,
        DeviceTaintRule,
        NetworkDeviceClass,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
    )
}


@dataclass(frozen=True, slots=True)
class Converted:
    """What an object became: `objects`, in the order to be applied. `unchanged`: it is the one object, as it was."""

    objects: tuple[Object, ...]
    assumptions: tuple[Assumption, ...] = ()
    unchanged: bool = False


class Conversion:
    """Of `objects`: plain values as read from YAML or JSON. Values that are no objects pass unchanged."""

    def __init__(self, objects: Sequence[Any], *, completing: bool = True) -> None:
        """`completing`: fill in what sketches of workloads leave out, see `completion`."""
        self._completing = completing
        self._plan = Plan()
        self._failed: dict[int, Untranslatable] = {}
        for index, value in enumerate(objects):
            if isinstance(value, Mapping):
                try:
                    _identify(value)
                    self._survey(value)
                except Untranslatable as error:
                    self._failed[index] = error
        self._plan.dictionary.settle()

    def _survey(self, value: Object) -> None:
        plan, kind = self._plan, value.get("kind")
        name = str(dig(value, "metadata", "name"))
        if _group(value) == GROUP:
            if kind == "ResourceSlice" and is_slice(value):
                publish(value, plan)
            elif kind == "ResourceSlice" and is_old(value):
                plan.slices_in[pool_of(value)] += 1
                plan.split_in[pool_of(value)] += splits(value)
            elif kind == "ResourceClaimTemplate":
                plan.templates.add((dig(value, "metadata", "namespace") or "", name))
            elif kind in ("DeviceClass", "ResourceClass"):
                plan.classes.add(name)
                if resource := dig(value, "spec", "extendedResourceName"):
                    plan.classes_for[str(resource)] = name
        survey_selectors(value, plan)

    def readings(self) -> Iterator[str]:
        """What the text attributes of the input were taken for, in words."""
        return observe_types(self._plan.dictionary)

    def convert(self, index: int, value: Any) -> Converted:
        """What the object with this index becomes. Raises Untranslatable."""
        if not isinstance(value, Mapping):
            return Converted((value,), unchanged=True)
        if index in self._failed:
            raise self._failed[index]
        notes = Notes()
        objects = self._converted(value, notes)
        if len(objects) == 1 and objects[0] is value:
            return Converted((value,), unchanged=True)
        for item in objects:
            _check(item)
        return Converted(tuple(objects), tuple(notes.assumptions))

    def _converted(self, value: Object, notes: Notes) -> list[Object]:
        plan, kind = self._plan, value.get("kind")
        if _group(value) == GROUP:
            if kind == "ResourceSlice" and is_slice(value):
                return [convert_slice(value, plan, notes)]
            if kind in ("ResourceClaim", "ResourceClaimTemplate") and _names_class(value):
                return [convert_claim(value, plan, notes)]
            if kind == "NetworkDeviceClass" or (kind == "DeviceClass" and any(True for _ in selectors(value))):
                return [convert_class(value, plan, notes)]
            value = convert_selectors(value, plan, notes)
            return convert_version(value, plan, notes) if is_old(value) else [value]
        original, value = value, convert_selectors(value, plan, notes)
        value, templates = convert_pods(value, plan, notes)
        value, more = convert_plugins(value, plan, notes)
        if value is not original and self._completing:
            value = complete(value, notes)
        return [*templates, *more, value]


def _identify(value: Object) -> None:
    """Kind, version and name must be text before anything else can be said of an object."""
    metadata = mapping(value.get("metadata"), ("metadata",))
    fields: dict[FieldPath, Any] = {("kind",): value.get("kind"), ("apiVersion",): value.get("apiVersion")}
    fields |= {("metadata", field): metadata.get(field) for field in ("name", "generateName", "namespace")}
    for path, item in fields.items():
        if item is not None and not isinstance(item, str):
            raise Untranslatable(path, f"expected text, found {described(item)}; put it in quotes")


def _group(value: Object) -> str:
    return str(value.get("apiVersion")).rpartition("/")[0]


def _names_class(value: Object) -> bool:
    return is_claim_spec(value.get("spec")) or is_claim_spec(dig(value, "spec", "spec"))


def _check(value: Object) -> None:
    """A translation that v1 would not take is none."""
    reader = _READERS.get(str(value.get("kind")))
    if reader is None:
        return
    try:
        reader(value)
    except InvalidObject as error:
        raise Untranslatable(
            (), f"the translation would not be valid: {error.field}; repair the original there"
        ) from None
    for path, item in mappings_below(value.get("spec"), ("spec",)):
        expression = dig(item, "cel", "expression")
        if path[-2:-1] == ("selectors",) and not isinstance(expression, str):
            raise Untranslatable(
                path, "the selector has no expression; write one as cel: {expression: …}, or remove it"
            )
        if isinstance(expression, str):
            try:
                compile_selector(expression, env="NewExpressions")
            except CompileError as error:
                raise Untranslatable(path, f"the expression would not be valid in v1: {error}") from None
