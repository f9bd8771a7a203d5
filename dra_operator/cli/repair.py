"""Certain repairs, made in the text of the files: only the characters concerned change.

A repair that does not stand in the text as such (an alias, several JSON values in one text) is left to a person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from dra_operator.cli.sources import LOADER, DocumentText, SourceObject
from dra_operator.lint.findings import Edit

_RESOLVER = yaml.SafeLoader("")
#: Words that some YAML readers take for something else than text.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    start: int
    end: int
    text: str


def repair(wanted: Iterable[tuple[SourceObject, Sequence[Edit]]]) -> dict[str, int]:
    """Write the files anew that change, and say how many places in each.

    Of edits of overlapping text the first is made: run again for the others.
    """
    changes: dict[int, tuple[DocumentText, set[_Change]]] = {}
    for source, edits in wanted:
        found = [_change(source, edit) for edit in edits]
        if all(found):
            _, known = changes.setdefault(id(source.text), (source.text, set()))
            known.update(change for change in found if change is not None)
    files: dict[str, list[tuple[DocumentText, list[_Change]]]] = {}
    for text, known in changes.values():
        files.setdefault(text.file, []).append((text, _disjoint(known)))
    return {file: _write(file, texts) for file, texts in files.items()}


def _change(source: SourceObject, edit: Edit) -> _Change | None:
    found = source.text.node(source.prefix + edit.path)
    if found is None:
        return None
    key, node = found
    text = source.text.text
    if edit.action == "rename":
        return None if key is None else _Change(*_span(key), _scalar(text, str(edit.value), key))
    if not isinstance(node, yaml.ScalarNode):
        return None
    start, end = _span(node)
    if edit.action == "quote":
        return _Change(start, end, json.dumps(text[start:end], ensure_ascii=False))
    if node.style in ("|", ">"):
        return _Change(start, end, _block(text, node, key, str(edit.value)))
    return _Change(start, end, _scalar(text, edit.value, node))


def _span(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index


def _scalar(text: str, value: Any, node: yaml.ScalarNode) -> str:
    """A scalar in the quotes that the old one had, or in quotes where it would not be text without them."""
    if not isinstance(value, str):
        return json.dumps(value)
    flat = " ".join(value.split("\n"))
    if node.style == "'":
        return "'" + flat.replace("'", "''") + "'"
    if not node.style and _is_plain(text, flat, node):
        return flat
    return json.dumps(flat, ensure_ascii=False)


def _is_plain(text: str, value: str, node: yaml.ScalarNode) -> bool:
    """Whether a text can stand without quotes where the node stands."""
    if value.lower() in _WORDS:
        return False
    start, end = _span(node)
    try:
        events = yaml.parse(text[:start] + value + text[end:], Loader=LOADER)
        return any(
            isinstance(event, yaml.ScalarEvent)
            and event.start_mark.index == start
            and event.value == value
            and _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
            for event in events
        )
    except yaml.YAMLError:
        return False


def _block(text: str, node: yaml.ScalarNode, key: yaml.Node | None, value: str) -> str:
    """A block scalar with the header and the indentation of the old one."""
    start, end = _span(node)
    old = text[start:end]
    header, _, body = old.partition("\n")
    indent = re.match(r"\n*( +)", body)
    column = key.start_mark.column if key is not None else node.start_mark.column
    spaces = indent[1] if indent else " " * (column + 2)
    lines = "\n".join(f"{spaces}{line}" if line else "" for line in value.rstrip("\n").split("\n"))
    tail = old[len(old.rstrip("\n")) :]
    return f"{header.replace('>', '|')}\n{lines}{tail or ''}"


def _disjoint(changes: Iterable[_Change]) -> list[_Change]:
    kept: list[_Change] = []
    for change in sorted(changes):
        if not kept or change.start >= kept[-1].end:
            kept.append(change)
    return kept


def _write(file: str, texts: list[tuple[DocumentText, list[_Change]]]) -> int:
    content = Path(file).read_bytes().decode("utf-8-sig")
    count = 0
    for text, changes in sorted(texts, key=lambda item: item[0].start, reverse=True):
        for change in reversed(changes):
            start, end = text.start + change.start, text.start + change.end
            content = content[:start] + change.text + content[end:]
            count += 1
    Path(file).write_text(content, encoding="utf-8", newline="")
    return count
