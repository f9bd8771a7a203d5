"""`kubectl-dra convert`: manifests of older dialects as v1 on stdout, all of the input or nothing.

What an object becomes is decided in `dra_operator.convert`; here are files, streams and exit codes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from dra_operator.api.fieldpath import FieldPath, path_text
from dra_operator.cli.failures import FAILED, CommandFailed
from dra_operator.cli.output import OutputFormat, error, note, print_data
from dra_operator.cli.sources import DocumentText, SourceObject, Sources, read_sources
from dra_operator.convert.conversion import Conversion, Converted
from dra_operator.convert.remarks import Untranslatable
from dra_operator.convert.yamltext import rewrite


class Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


def convert(
    file: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifests: a file, a directory, or - for stdin."),
    ],
    output: Annotated[
        Form, typer.Option("-o", "--output", help="yaml: the text as it is, changed where it must be; json: one List.")
    ] = Form.YAML,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete/--no-complete",
            help="Fill in what sketches of workloads leave out and the API server insists on (selector, image).",
        ),
    ] = True,
) -> None:
    """Turn manifests of older dialects into resource.k8s.io/v1.

    Takes v1alpha2, v1alpha3, v1beta1 and v1beta2 objects, the string dialect (CELExpression, resourceClassName, devices with text
    attributes) and workloads that ask a device plugin (nvidia.com/gpu: 2). All objects of the input go to stdout, those that need no
    conversion as they are; what was assumed goes to stderr. Where something has no faithful translation nothing is printed to
    stdout, stderr says why, and the exit code is 1.

    Give all files that belong together at once: what a text attribute is (number, version, boolean) shows in all its values.

    Example: kubectl-dra convert -f old/ > new.yaml
    """
    sources = read_sources(file)
    conversion = Conversion([item.value for item in sources.objects], completing=complete)
    results = _results(sources, conversion)
    for reading in conversion.readings():
        note(reading)
    for item, result in zip(sources.objects, results, strict=True):
        for assumption in result.assumptions:
            note(_located(item, assumption.path, assumption.message))
    if output is Form.JSON:
        print_data(_as_list(results), OutputFormat.JSON)
    else:
        sys.stdout.write("".join(_stream(sources, conversion, results)))


def _results(sources: Sources, conversion: Conversion) -> list[Converted]:
    """What each object becomes; raises CommandFailed after all failures are printed."""
    failures = [str(problem) for problem in sources.problems]
    results: list[Converted] = []
    for index, item in enumerate(sources.objects):
        try:
            if not isinstance(item.value, dict) or not item.value.get("kind"):
                raise Untranslatable(
                    (), "this is no object: it has no `kind`; add apiVersion, kind and metadata, or remove it"
                )
            results.append(conversion.convert(index, item.value))
        except Untranslatable as reason:
            failures.append(_located(item, reason.path, reason.message))
    for failure in failures:
        error(failure)
    if failures:
        raise CommandFailed(code=FAILED)
    return results


def _located(item: SourceObject, path: FieldPath, message: str) -> str:
    where = f"{item.text.file}:{item.line_of(path)}"
    title = _title(item.value)
    return f"{where}: {title}: {path_text(path)}: {message}" if path else f"{where}: {title}: {message}"


def _title(value: Any) -> str:
    if not isinstance(value, dict):
        return "document"
    metadata = value.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{value.get('kind') or 'object'} {name or '(no name)'}"


def _as_list(results: Sequence[Converted]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": [item for result in results for item in result.objects]}


def _stream(sources: Sources, conversion: Conversion, results: Sequence[Converted]) -> Iterator[str]:
    """The YAML stream: each text as it was, unless an object in it changed."""
    changes: dict[int, list[tuple[int, SourceObject]]] = {}
    for index, (item, result) in enumerate(zip(sources.objects, results, strict=True)):
        if not result.unchanged:
            changes.setdefault(id(item.text), []).append((index, item))
    begun = False
    for text in sources.texts:
        for document in _documents(text, changes.get(id(text), []), conversion):
            if begun and not document.startswith("---"):
                yield "---\n"
            yield document if document.endswith("\n") or not document else f"{document}\n"
            begun = begun or bool(document.strip())


def _documents(text: DocumentText, changed: list[tuple[int, SourceObject]], conversion: Conversion) -> list[str]:
    if not changed and len(text.documents) < 2:
        return [text.text]
    parts = [(item, partial(_become, conversion, index)) for index, item in changed]
    if len(text.documents) == 1 and not text.is_json:
        return rewrite(text.text, text.documents[0].value, [(item.prefix, become) for item, become in parts])
    found: list[str] = []
    for document in text.documents:
        values = [document.value]
        for item, become in reversed(parts):
            if item.document is document:
                values = _replaced(values, item.prefix, list(become(item.value)))
        found += [json.dumps(value, indent=2, ensure_ascii=False) + "\n" for value in values]
    return found


def _become(conversion: Conversion, index: int, value: Any) -> Sequence[Any]:
    return conversion.convert(index, value).objects


def _replaced(values: list[Any], prefix: FieldPath, objects: list[Any]) -> list[Any]:
    """The one document `values` holds with `objects` in place of the object at `prefix`."""
    if not prefix:
        return objects
    return [_with(values[0], prefix, objects)]


def _with(value: Any, path: FieldPath, objects: list[Any]) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return {**value, step: _with(value[step], rest, objects)}
    return [*value[:step], *(objects if not rest else [_with(value[step], rest, objects)]), *value[step + 1 :]]
