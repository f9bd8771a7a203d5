"""Manifests with their text at hand: for commands that point at a field's line, or write the text again.

`manifests` reads objects to be used; here nothing is checked, filled in or left out, so that what is wrong can be shown and
repaired. A line is looked up when asked for: composing a node tree costs more than reading the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import orjson
import yaml  # type: ignore[import-untyped]

from dra_operator.api.fieldpath import FieldPath
from dra_operator.cli.documents import BadDocument, Document, read_documents
from dra_operator.cli.inputs import FILL_IT
from dra_operator.cli.manifests import NOTHING, Manifests, Problem, Source, list_files, read_text

_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentText:
    """The text between two `---` lines (the first of them included): one YAML document, several JSON values, or comments only."""

    def __init__(self, file: str, text: str, line: int, *, start: int = 0, json_only: bool) -> None:
        """`start`: at which character of the file the text begins, `line`: on which of its lines, from 1."""
        self.file, self.text, self.line, self.start = file, text, line, start
        #: By the file's name.
        self.json_only = json_only
        self.documents: list[Document] = []
        self.problems: list[Problem] = []
        for document in read_documents(text, json_only=json_only):
            source = Source(file, line + document.line - 1)
            if isinstance(document, BadDocument):
                self.problems.append(Problem(source, document.message))
            else:
                self.documents.append(document)

    @cached_property
    def is_json(self) -> bool:
        """Whether the text is JSON, which YAML can read but would write in another way."""
        body = self.text.removeprefix("---").lstrip()
        if not body.startswith(("{", "[")):
            return False
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError:
            return self.json_only
        return True

    @cached_property
    def root(self) -> yaml.Node | None:
        """The node tree of the one document in this text; None where there are several, or YAML reads it differently."""
        if len(self.documents) != 1:
            return None
        try:
            return yaml.compose(self.text, Loader=LOADER)
        except yaml.YAMLError:
            return None

    def node(self, path: FieldPath) -> tuple[yaml.Node | None, yaml.Node] | None:
        """(key node, value node) of a field; None where it does not stand in the text as such."""
        key: yaml.Node | None = None
        node = self.root
        for step in path:
            match node:
                case yaml.MappingNode():
                    pairs = [(name, value) for name, value in node.value if _key_text(name) == step]
                    if not pairs:
                        return None
                    key, node = pairs[0]
                case yaml.SequenceNode() if isinstance(step, int) and step < len(node.value):
                    key, node = None, node.value[step]
                case _:
                    return None
        return None if node is None else (key, node)

    def line_of(self, path: FieldPath, otherwise: int) -> int:
        """The line of a field, or of the nearest field around it that stands in the text."""
        for end in range(len(path), 0, -1):
            found = self.node(path[:end])
            if found is not None:
                key, node = found
                return self.line + int((key or node).start_mark.line)
        return otherwise


def _key_text(node: yaml.Node) -> str | None:
    """A key as it is read: `on` is `true`."""
    if not isinstance(node, yaml.ScalarNode):
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return "true" if node.value.lower() in ("true", "yes", "on") else "false"
    return str(node.value)


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object of a text. `prefix` is its path in the document (not empty in a List), `value` as written."""

    text: DocumentText
    document: Document
    prefix: FieldPath
    value: Any
    line: int

    def line_of(self, path: FieldPath) -> int:
        return self.text.line_of(self.prefix + path, self.line)


@dataclass(slots=True)
class Sources:
    texts: list[DocumentText] = field(default_factory=list)
    objects: list[SourceObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_sources(paths: Sequence[str]) -> Sources:
    """The texts of files and directories and of standard input (`-`), in order. Raises nothing."""
    found = Sources()
    unread = Manifests()
    for path in paths:
        for file in list_files(path, unread):
            read = read_text(file, unread)
            if read is not None:
                found.texts += _split(*read)
    found.problems = unread.problems + [problem for text in found.texts for problem in text.problems]
    found.objects = [item for text in found.texts for item in objects_of(text)]
    if not found.objects and not found.problems:
        files = dict.fromkeys(text.file for text in found.texts)
        found.problems = [Problem(Source(file), NOTHING, FILL_IT) for file in files]
    return found


def _split(name: str, content: str) -> Iterator[DocumentText]:
    json_only = name.endswith((".json", ".jsonl"))
    marks = [] if json_only else [match.start() for match in _SEPARATOR.finditer(content) if match.start()]
    line = 1
    for start, end in pairwise([0, *marks, len(content)]):
        yield DocumentText(name, content[start:end], line, start=start, json_only=json_only)
        line += content.count("\n", start, end)


def objects_of(text: DocumentText) -> Iterator[SourceObject]:
    """The objects of a text, Lists opened."""
    for document in text.documents:
        line = text.line + document.line - 1
        for prefix, value in _opened(document.value, ()):
            at = document.lines.get(id(value)) if prefix else None
            yield SourceObject(text, document, prefix, value, text.line + at - 1 if at else line)


def is_list(value: Any) -> bool:
    """Whether a value is a List of objects."""
    return (
        isinstance(value, Mapping) and str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list)
    )


def _opened(value: Any, prefix: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if is_list(value):
        kind = value["kind"].removesuffix("List")
        for index, item in enumerate(value["items"]):
            if kind and isinstance(item, dict) and "kind" not in item:
                # The lists of one kind that the API serves leave kind and apiVersion out of their items.
                item.update({"apiVersion": value.get("apiVersion"), "kind": kind, **item})
            yield from _opened(item, (*prefix, "items", index))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _opened(item, (*prefix, index))
    else:
        yield prefix, value
