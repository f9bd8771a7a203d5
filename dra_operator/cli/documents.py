"""YAML and JSON text as plain values, one document at a time, with the line each begins on.

Reads what kubectl reads, the same way (its YAML is 1.1: `on` is a boolean, `010` is eight), and fast: libyaml's events,
no node tree. A document that cannot be read becomes a `BadDocument`, and the ones after it are read all the same.
Knows nothing of Kubernetes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import orjson
import yaml  # type: ignore[import-untyped]

#: Objects of the API nest about 20 deep, schemas of CRDs somewhat more.
MAX_DEPTH = 200
#: Values that aliases may copy in one document; more is a bomb, not a manifest.
MAX_ALIASED = 200_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_NOTHING = re.compile(r"(?:[ \t]*(?:#.*|%.*|---[ \t]*(?:#.*)?|\.\.\.[ \t]*)?\r?(?:\n|\Z))*\Z")
_QUOTED_KEY = re.compile(r'\s*[{\[]\s*["{\[]')
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_BASED = re.compile(r"[-+]?0(x[0-9a-fA-F_]+|b[01_]+|o?[0-7_]+)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOAT = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_WORDS: Mapping[str, bool | None] = MappingProxyType(
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
    | dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
)
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + name for name in ("int", "float", "bool", "null", "timestamp"))


@dataclass(frozen=True, slots=True)
class Document:
    """`lines` holds the line of each mapping in the top-level lists of the document, by `id` (the items of a List)."""

    value: Any
    line: int
    lines: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadDocument:
    line: int
    message: str


class _Unreadable(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def read_documents(text: str, *, json_only: bool = False) -> Iterator[Document | BadDocument]:
    """The documents of `text` in order, empty ones left out. `json_only`: the file's name says that it is JSON."""
    for part, line in [(text, 1)] if json_only else _parts(text):
        body = part[3:] if part.startswith("---") else part
        if not json_only and body.lstrip()[:1] not in ("{", "["):
            yield from _yaml_documents(part, line)
            continue
        found = _json_documents(body, line)
        if not json_only and isinstance(found[0], BadDocument):
            # Text in braces may be YAML in flow style. Where it is neither, quoted keys say which of the two was meant.
            as_yaml = list(_yaml_documents(part, line))
            if not _QUOTED_KEY.match(body) or not any(isinstance(item, BadDocument) for item in as_yaml):
                found = as_yaml
        yield from found


def _json_documents(text: str, first_line: int) -> list[Document | BadDocument]:
    """One JSON value, or several one after another (JSON Lines, `kubectl get -o json` in a loop)."""
    start = len(text) - len(text.lstrip())
    try:
        value = orjson.loads(text)
        return [_json_document(value, first_line + text.count("\n", 0, start))]
    except orjson.JSONDecodeError:
        pass
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    found: list[Document | BadDocument] = []
    counted, line, position = 0, first_line, start
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            found.append(BadDocument(first_line + error.lineno - 1, f"not JSON: {error.msg} (column {error.colno})"))
            break
        except (ValueError, RecursionError) as error:
            message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            found.append(BadDocument(line, f"not JSON: {message}"))
            break
        found.append(_json_document(value, line))
        position = end
        while position < len(text) and text[position].isspace():
            position += 1
    return found or [BadDocument(first_line, "not JSON: the file is empty")]


def _json_document(value: Any, line: int) -> Document | BadDocument:
    """The value, unless it nests deeper than whoever walks over it can follow."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return Document(value, line)
    return BadDocument(line, f"nested more than {MAX_DEPTH} deep")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Text between `---` lines and the line it begins on; split so that one broken document leaves the others whole."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text) if match.start()), len(text)]
    line = 1
    for start, end in pairwise(starts):
        part = text[start:end]
        if not _NOTHING.match(part):
            yield part, line
        line += part.count("\n")


def _yaml_documents(text: str, first_line: int) -> Iterator[Document | BadDocument]:
    try:
        yield from _Composer(first_line).documents(yaml.parse(text, Loader=_LOADER))
    except _Unreadable as error:
        yield BadDocument(error.line, error.message + _hint(text, error.line - first_line))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" (column {mark.column + 1})" if mark else ""
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        line = mark.line if mark else 0
        yield BadDocument(first_line + line, f"not YAML: {reason}{place}{_hint(text, line)}")
    except yaml.YAMLError as error:
        yield BadDocument(first_line, f"not YAML: {' '.join(str(error).split())}")


def _hint(text: str, number: int) -> str:
    """The repair, for two mistakes that are common enough to be named. `number` counts lines from 0."""
    lines = text.split("\n")
    line = lines[number] if number < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "; indent with spaces, not tabs"
    if "{{" in line:
        return "; this is a template, render it first"
    return ""


class _Composer:
    """Builds values from parse events, with a stack of its own: `MAX_DEPTH` bounds the depth, not Python."""

    def __init__(self, first_line: int) -> None:
        self.first_line = first_line
        self.lines: dict[int, int] = {}
        self.anchors: dict[str, Any] = {}
        self.aliased = 0
        self.scalars: dict[str, Any] = {}

    def documents(self, events: Iterable[Any]) -> Iterator[Document]:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                value, line = self._document(iter(events))
                if value is not None:
                    yield Document(value, line, self.lines)

    def _document(self, events: Iterator[Any]) -> tuple[Any, int]:
        """The one value up to the document's end. `parents` are (container, key waiting for its value, anchor)."""
        self.lines, self.anchors, self.aliased = {}, {}, 0
        scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
        mapping, sequence = yaml.MappingStartEvent, yaml.SequenceStartEvent
        ends = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
        parents: list[tuple[Any, Any, str | None]] = []
        container: Any = None
        key: Any = None
        anchor: str | None = None
        first = 0
        for event in events:
            kind = type(event)
            if not parents and container is None:
                first = event.start_mark.line + self.first_line
            if kind is mapping or kind is sequence:
                if len(parents) >= MAX_DEPTH:
                    raise self._error(event, f"nested more than {MAX_DEPTH} deep")
                if isinstance(container, dict) and key is None:
                    raise self._error(event, "a key must be plain text, not a list or mapping")
                if event.tag and not event.tag.startswith(_TAG):
                    raise self._error(event, f"the tag {event.tag} is not known")
                parents.append((container, key, anchor))
                container, key, anchor = {} if kind is mapping else [], None, event.anchor
                if len(parents) == 3:
                    self.lines[id(container)] = event.start_mark.line + self.first_line
                continue
            if kind is scalar:
                if isinstance(container, dict) and key is None:
                    key = self._key(event, container)
                    continue
                value = self._scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = value
            elif kind in ends:
                value = self._merged(event, container) if isinstance(container, dict) else container
                if anchor:
                    self.anchors[anchor] = value
                container, key, anchor = parents.pop()
            elif kind is alias:
                value = self._alias(event)
                if isinstance(container, dict) and key is None:
                    key = _key_text(value)
                    continue
            else:  # the end of an empty document
                return None, first
            if container is None:
                return value, first
            if isinstance(container, list):
                container.append(value)
            else:
                container[key] = value
                key = None
        return None, first

    def _key(self, event: Any, container: dict[str, Any]) -> str:
        text: str = event.value
        if event.implicit[0] and text in _WORDS and text:
            text = _key_text(_WORDS[text])
        if text in container:
            apart = "; objects are kept apart by a line ---" if text in ("apiVersion", "kind") else ""
            raise self._error(event, f"the key {text!r} is given twice{apart}")
        return text

    def _merged(self, event: Any, mapping: dict[str, Any]) -> dict[str, Any]:
        """`<<` resolved: what the mapping says itself comes first."""
        if "<<" not in mapping:
            return mapping
        value = mapping.pop("<<")
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(event, "<< merges mappings only")
            for name, item in source.items():
                mapping.setdefault(name, item)
        return mapping

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        tag = event.tag
        if event.implicit[0] or tag in _PLAIN_TAGS:
            try:
                return self.scalars[text]
            except KeyError:
                value = self.scalars[text] = self._plain(event, text)
                return value
        if tag and tag not in ("!", _TAG + "str") and not event.implicit[1]:
            raise self._error(event, f"the tag {tag} is not known")
        return text

    def _plain(self, event: Any, text: str) -> Any:
        """What an unquoted scalar stands for, as kubectl resolves it. Times stay text."""
        if text in _WORDS:
            return _WORDS[text]
        if text[0] in "0123456789+-.":
            if _INTEGER.match(text):
                return int(text)
            if match := _BASED.match(text):
                digits = text if match[1][0] in "xbo" else text.replace("0", "0o", 1)
                try:
                    return int(digits, 0)
                except ValueError:
                    return text
            if _FLOAT.match(text):
                return float(text)
            if _SPECIAL_FLOAT.match(text):
                raise self._error(event, f"{text} is not a JSON value; quote it if text is meant")
        return text

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            raise self._error(event, f"nothing is anchored as &{event.anchor}")
        value = self.anchors[event.anchor]
        self.aliased += _size(value, MAX_ALIASED)
        if self.aliased > MAX_ALIASED:
            raise self._error(event, f"aliases copy more than {MAX_ALIASED} values")
        return deepcopy(value)

    def _error(self, event: Any, message: str) -> _Unreadable:
        return _Unreadable(event.start_mark.line + self.first_line, message)


def _key_text(value: Any) -> str:
    """A key that is no text, as JSON would write it."""
    return value if isinstance(value, str) else json.dumps(value)


def _size(value: Any, limit: int) -> int:
    """How many values are in `value`; counting ends above `limit`."""
    count, todo = 0, [value]
    while todo and count <= limit:
        item = todo.pop()
        count += 1
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return count
