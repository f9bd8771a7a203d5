"""The schemas of `crds/` and the models of `dra_operator.api` say the same: fields, defaults, enums, bounds, what is required."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import pytest
from pydantic import BaseModel, StringConstraints
from ruamel.yaml import YAML

from dra_operator.api import reports, schema
from dra_operator.api.duration import PATTERN, parse_duration
from dra_operator.api.errors import InvalidObject
from dra_operator.api.group import ClaimGroup, ClaimGroupSpec
from dra_operator.api.networkclass import NetworkDeviceClass, NetworkDeviceClassSpec
from dra_operator.api.policy import AllocationPolicy, AllocationPolicySpec
from dra_operator.cluster.rest import BY_KIND

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"
KINDS = ("AllocationPolicy", "ClaimGroup", "ClaimReport", "DeviceClassReport", "NetworkDeviceClass")
MODELS = {
    "AllocationPolicy": AllocationPolicySpec,
    "ClaimGroup": ClaimGroupSpec,
    "NetworkDeviceClass": NetworkDeviceClassSpec,
}
READERS = {"policies": AllocationPolicy, "groups": ClaimGroup, "networks": NetworkDeviceClass}


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


CRDS = {
    crd["spec"]["names"]["kind"]: crd
    for path in sorted((ROOT / "crds").glob("*.yaml"))
    if (crd := load(path))["kind"] == "CustomResourceDefinition"
}


def properties(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def schemas(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below a schema."""
    yield path, node
    for name, child in (node.get("properties") or {}).items():
        yield from schemas(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from schemas(node[name], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_those_the_client_uses(kind: str) -> None:
    resource, spec = BY_KIND[kind], CRDS[kind]["spec"]
    assert spec["group"] == resource.group
    assert spec["names"]["plural"] == resource.plural
    assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
    assert [version["name"] for version in spec["versions"]] == [resource.version]
    assert CRDS[kind]["metadata"]["name"] == f"{resource.plural}.{resource.group}"


def test_short_names_are_distinct() -> None:
    short = [name for crd in CRDS.values() for name in crd["spec"]["names"]["shortNames"]]
    assert len(set(short)) == len(KINDS)


@pytest.mark.parametrize("kind", ["ClaimReport", "DeviceClassReport"])
def test_reports_are_one_write(kind: str) -> None:
    assert "subresources" not in CRDS[kind]["spec"]["versions"][0]
    assert "spec" not in properties(kind)


def test_claim_report_columns() -> None:
    columns = CRDS["ClaimReport"]["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"].upper() for column in columns if not column.get("priority")]
    assert shown == ["PHASE", "NODE", "DEVICES", "PRIORITY", "POSITION", "AGE", "REASON"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_show_fields_that_exist(kind: str) -> None:
    known = {path for path, _ in schemas({"properties": properties(kind)})} | {".metadata.creationTimestamp"}
    for column in CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]:
        assert column["jsonPath"] in known, column["name"]


@pytest.mark.parametrize("kind", MODELS)
def test_model_and_schema_agree(kind: str) -> None:
    assert differences(MODELS[kind], properties(kind)["spec"], "spec") == []


def differences(model: type[BaseModel], node: dict[str, Any], path: str) -> list[str]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    wrong = [f"{path}.{name}: only in one of model and schema" for name in fields.keys() ^ node["properties"].keys()]
    required = {name for name, field in fields.items() if field.is_required()}
    if required != set(node.get("required", ())):
        wrong.append(f"{path}: required {sorted(required)} in the model, {node.get('required')} in the schema")
    for name in fields.keys() & node["properties"].keys():
        field, child, here = fields[name], node["properties"][name], f"{path}.{name}"
        annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        wrong += typed(annotation, child, here)
        if not field.is_required() and "default" in child:
            usual = field.default
            if isinstance(usual, BaseModel):
                if type(usual).read(child["default"]) != usual:
                    wrong.append(f"{here}: default {child['default']}")
            elif (parse_duration(child["default"]) if child.get("pattern") == PATTERN else child["default"]) != (
                list(usual) if isinstance(usual, tuple) else usual
            ):
                wrong.append(f"{here}: default {usual!r} in the model, {child['default']!r} in the schema")
        elif not field.is_required() and field.default is not None:
            wrong.append(f"{here}: default {field.default!r} only in the model")
    return wrong


def typed(annotation: Any, node: dict[str, Any], path: str) -> list[str]:
    """Differences between a field's type, with its constraints, and its schema."""
    constraints: dict[str, Any] = {}
    unique = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *metadata = get_args(annotation)
            unique |= schema.Unique in metadata
            for item in metadata:
                constraints |= bounds(item)
        elif origin in (Union, types.UnionType):
            (annotation,) = [option for option in get_args(annotation) if option is not type(None)]
        else:
            break
    if annotation is schema.LabelSelector:
        names = {"matchLabels", "matchExpressions"}
        return [] if node["properties"].keys() == names else [f"{path}: not a label selector in the schema"]
    if annotation is schema.Quantity:
        return [] if node.get("x-kubernetes-int-or-string") else [f"{path}: not a quantity in the schema"]
    if annotation is float:
        agree = node.get("pattern") == PATTERN and node.get("type") == "string" and "x-kubernetes-validations" in node
        return [] if agree else [f"{path}: not a duration in the schema"]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return differences(annotation, node, path)
    wrong = []
    if get_origin(annotation) is Literal:
        if list(get_args(annotation)) != node.get("enum"):
            wrong.append(f"{path}: {get_args(annotation)} in the model, {node.get('enum')} in the schema")
        return wrong
    word = {bool: "boolean", int: "integer", str: "string", tuple: "array", Mapping: "object"}
    kind = next(
        (name for type_, name in word.items() if annotation is type_ or same(get_origin(annotation), type_)), None
    )
    if kind != node["type"]:
        wrong.append(f"{path}: {annotation} in the model, {node['type']} in the schema")
    suffix = {"array": "Items", "object": "Properties"}.get(kind or "", "Length")
    names = {"ge": "minimum", "le": "maximum", "min": f"min{suffix}", "max": f"max{suffix}", "pattern": "pattern"}
    expected = {names[name]: value for name, value in constraints.items()}
    stated = {name: node[name] for name in names.values() if name in node}
    if expected != stated:
        wrong.append(f"{path}: {expected} in the model, {stated} in the schema")
    if kind == "array":
        if unique != (node.get("x-kubernetes-list-type") == "set"):
            wrong.append(f"{path}: unique in one of model and schema")
        wrong += typed(get_args(annotation)[0], node["items"], f"{path}[]")
    if kind == "object" and get_args(annotation)[1] is not Any:
        wrong += typed(get_args(annotation)[1], node["additionalProperties"], f"{path}[]")
    return wrong


def same(origin: Any, wanted: type) -> bool:
    import collections.abc

    return origin is wanted or (wanted is Mapping and origin is collections.abc.Mapping)


def bounds(item: Any) -> dict[str, Any]:
    """Constraints in one annotation, by short names."""
    match item:
        case annotated_types.Ge(ge=value):
            return {"ge": value}
        case annotated_types.Le(le=value):
            return {"le": value}
        case annotated_types.MinLen(min_length=value):
            return {"min": value}
        case annotated_types.MaxLen(max_length=value):
            return {"max": value}
        case StringConstraints(pattern=str(value)):
            return {"pattern": value}
        case _ if getattr(item, "metadata", None) is not None:  # Field(...) inside Annotated
            found: dict[str, Any] = {}
            for inner in item.metadata:
                found |= bounds(inner)
            return found
        case _:
            pattern = getattr(item, "pattern", None)
            return {"pattern": pattern} if isinstance(pattern, str) else {}


TYPED_DICTS = [
    ("ClaimReport", "", reports.ClaimStatusDict),
    ("ClaimReport", ".queue", reports.QueueDict),
    ("ClaimReport", ".devices[]", reports.DeviceDict),
    ("ClaimReport", ".preemption", reports.PreemptionDict),
    ("ClaimReport", ".preemption.victims[]", reports.VictimDict),
    ("ClaimReport", ".hold", reports.HoldDict),
    ("ClaimReport", ".avoid[]", reports.AvoidDict),
    ("ClaimReport", ".usedBy", reports.UserDict),
    ("ClaimReport", ".classes[]", reports.ClassDict),
    ("DeviceClassReport", "", reports.ClassStatusDict),
]


@pytest.mark.parametrize(("kind", "path", "shape"), TYPED_DICTS, ids=[f"{kind}{path}" for kind, path, _ in TYPED_DICTS])
def test_reports_have_the_fields_of_their_schema(kind: str, path: str, shape: Any) -> None:
    node = dict(schemas(properties(kind)["status"]))[path]
    assert set(shape.__annotations__) == set(node["properties"])
    assert set(node.get("required", ())) <= set(shape.__required_keys__)


def test_phases() -> None:
    assert properties("ClaimReport")["status"]["properties"]["phase"]["enum"] == [str(phase) for phase in reports.Phase]


def cases(file: str) -> list[Any]:
    return [pytest.param(case, id=case["name"].replace(" ", "-")) for case in load(CASES / f"{file}.yaml")]


@pytest.mark.parametrize("case", cases("policies"))
def test_policies(case: dict[str, Any]) -> None:
    check("policies", case)


@pytest.mark.parametrize("case", cases("groups"))
def test_groups(case: dict[str, Any]) -> None:
    check("groups", case)


@pytest.mark.parametrize("case", cases("networks"))
def test_network_classes(case: dict[str, Any]) -> None:
    check("networks", case)


def check(file: str, case: dict[str, Any]) -> None:
    data = {"metadata": {"name": "sample"}, "spec": case["spec"]}
    if "error" not in case:
        READERS[file].from_dict(data)
        return
    with pytest.raises(InvalidObject, match=re.escape("sample: spec")) as refused:
        READERS[file].from_dict(data)
    assert refused.value.field.path == ("spec." + case["error"]).rstrip(".")
