"""`kubectl-dra cel`: one selector against devices, or a file of cases.

Evaluates as the allocator does: no estimate is enforced when compiling, the cost limit is when running. Answers are JSON Lines
on stdout: {"name", "match"}, {"name", "compileError"} or {"name", "error"}.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import orjson
import typer

from dra_operator.api.errors import SHAPE_ERRORS, describe, described
from dra_operator.api.slices import Device as SliceDevice
from dra_operator.cel import CelFeatures, CompileError, Device, EvaluationError, bind_device, cached_selector
from dra_operator.cli.documents import BadDocument, read_documents
from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.inputs import FILL_IT, Unreadable, name_of, read_text
from dra_operator.cli.output import error

__all__ = ["answer", "cel"]

_DEVICE_FIELDS = frozenset({"driver", "name", "attributes", "capacity"})
_ENVIRONMENTS = ("StoredExpressions", "NewExpressions")


def cel(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help='A selector, such as: device.driver == "gpu.example.com"')
    ] = "",
    device: Annotated[
        str,
        typer.Option(
            metavar="FILE|-",
            help="The device: driver, attributes, capacity, allowMultipleAllocations as YAML or JSON. "
            "A ResourceSlice gives one answer for each of its devices.",
        ),
    ] = "",
    cases: Annotated[
        str,
        typer.Option(
            metavar="FILE|-",
            help="JSON Lines of {name, expression, device, features?, envType?}; one answer a line.",
        ),
    ] = "",
    new: Annotated[
        bool, typer.Option("--new", help="Check as the API server checks new objects (NewExpressions).")
    ] = False,
) -> None:
    """Evaluate device selectors as the allocator would.

    Exit code 1 if a case or device could not be read; an expression that does not compile or fails is an answer.

    Example: kubectl-dra cel 'device.attributes["gpu.example.com"].index > 0' --device slice.yaml
    """
    if bool(expression) == bool(cases) or (bool(expression) != bool(device)):
        raise CommandFailed("give either an expression and --device FILE, or --cases FILE", USAGE)
    bad, nothing, source = False, True, name_of(cases or device)
    for line in _from_cases(cases) if cases else _from_devices(expression, device, new):
        bad, nothing = bad or "unreadable" in line, False
        if "unreadable" in line:
            name = str(line["name"])
            where = "" if name.startswith(source) else f"{source}: "
            error(f"{where}{name}: {line['unreadable']}")
            line = {"name": line["name"], "error": line["unreadable"]}
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
    sys.stdout.flush()
    if nothing:
        raise CommandFailed(f"{source}: holds no {'case' if cases else 'device'}; {FILL_IT}")
    if bad:
        raise CommandFailed("", FAILED)


def answer(case: dict[str, Any], name: str) -> dict[str, Any]:
    """The answer to one case. A case that cannot be read gets {"name", "unreadable"} with the reason."""
    try:
        target = _device(case["device"])
        features, environment, expression = _features(case.get("features")), case.get("envType"), case["expression"]
    except SHAPE_ERRORS as problem:
        return {"name": name, "unreadable": describe(problem, case)}
    if not isinstance(expression, str):
        return {"name": name, "unreadable": "expression must be text"}
    if environment not in (None, *_ENVIRONMENTS):
        return {"name": name, "unreadable": f"envType must be one of {', '.join(_ENVIRONMENTS)}"}
    return _evaluate(name, expression, target, features, environment or _ENVIRONMENTS[0])


def _evaluate(name: str, expression: str, target: Device, features: CelFeatures, environment: Any) -> dict[str, Any]:
    try:
        return {"name": name, "match": cached_selector(expression, features, environment).matches(target)}
    except CompileError as problem:
        return {"name": name, "compileError": problem.message}
    except EvaluationError as problem:
        return {"name": name, "error": problem.message}


def _features(data: dict[str, Any] | None) -> CelFeatures:
    """From a case's map, by the names of the Go struct or of the feature gates; what is absent is as in 1.37."""
    features = {key.removeprefix("Enable").removeprefix("DRA"): bool(value) for key, value in (data or {}).items()}
    defaults = CelFeatures()
    return CelFeatures(
        list_type_attributes=features.get("ListTypeAttributes", defaults.list_type_attributes),
        consumable_capacity=features.get("ConsumableCapacity", defaults.consumable_capacity),
    )


def _device(data: dict[str, Any], driver: str | None = None) -> Device:
    """Raises ValueError, KeyError and their like for what is no device."""
    if not isinstance(data, dict):
        raise ValueError(f"a device must be a map, found {described(data)}")
    # Inside a slice a device is named and its driver is the slice's; a bare one brings its driver and needs no name.
    published = SliceDevice.from_dict({"name": "device", **data})
    own = data.get("driver") if driver is None else driver
    return bind_device(str(own or ""), published.attributes, published.capacity, published.allow_multiple)


def _text(path: str) -> str:
    try:
        return read_text(path)
    except Unreadable as problem:
        raise CommandFailed(str(problem)) from None


def _from_cases(path: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            reason = f"not JSON: {problem.msg} (column {problem.colno}); a case is one line of JSON"
            yield {"name": f"line {number}", "unreadable": reason}
            continue
        if not isinstance(case, dict):
            yield {"name": f"line {number}", "unreadable": f"expected an object, found {described(case)}"}
            continue
        yield answer(case, str(case.get("name", f"line {number}")))


def _from_devices(expression: str, path: str, new: bool) -> Iterator[dict[str, Any]]:
    environment = _ENVIRONMENTS[new]
    for document in read_documents(_text(path), json_only=path.endswith(".json")):
        if isinstance(document, BadDocument):
            yield {"name": f"{name_of(path)}:{document.line}", "unreadable": document.message}
            continue
        for name, driver, data in _devices_of(document.value, path):
            if reason := _why_none(data, driver):
                yield {"name": name, "unreadable": reason}
                continue
            try:
                target = _device(data, driver)
            except SHAPE_ERRORS as problem:
                yield {"name": name, "unreadable": describe(problem, data)}
                continue
            yield _evaluate(name, expression, target, CelFeatures(), environment)


def _why_none(data: Any, driver: str | None) -> str:
    """Why a file's document is plainly no device, and would match or not by accident; "" where it may be one."""
    if not isinstance(data, dict):
        return f"a device must be a map, found {described(data)}"
    if driver is None and not _DEVICE_FIELDS & data.keys():
        return f"is no device: it has none of {', '.join(sorted(_DEVICE_FIELDS))}"
    return ""


def _devices_of(value: Any, path: str) -> Iterator[tuple[str, str | None, Any]]:
    """(name, driver of the slice or None, device) of every device in a document. Objects of other kinds have none."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind is not None and kind not in ("ResourceSlice", "ResourceSliceList", "List"):
        return  # what else is in a snapshot
    if kind is None:
        name = value.get("name") if isinstance(value, dict) else None
        yield str(name or name_of(path)), None, value
        return
    if value["kind"] != "ResourceSlice":
        for item in value.get("items") or ():
            yield from _devices_of(item, path)
        return
    spec = value.get("spec") or {}
    driver = str(spec.get("driver") or "")
    pool = (spec.get("pool") or {}).get("name") or ""
    for data in spec.get("devices") or ():
        name = data.get("name") if isinstance(data, dict) else None
        yield f"{driver}/{pool}/{name}", driver, data
