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

from dra_operator.cli.sources import DocumentText, SourceObject
from dra_operator.lint.findings import Edit

#: Plain text that every YAML reader takes for text.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = frozenset("y n yes no on off true false null".split())


@dataclass(frozen=True, slots=True)
class Repaired:
    file: str
    count: int


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    start: int
    end: int
    text: str


def repair(wanted: Iterable[tuple[SourceObject, Sequence[Edit]]]) -> list[Repaired]:
    """Write the files anew that change. Edits of overlapping text are made one at a time: run again for the others."""
    changes: dict[int, tuple[DocumentText, set[_Change]]] = {}
    for source, edits in wanted:
        found = [_change(source, edit) for edit in edits]
        if all(found):
            _, known = changes.setdefault(id(source.text), (source.text, set()))
            known.update(change for change in found if change is not None)
    files: dict[str, list[tuple[DocumentText, list[_Change]]]] = {}
    for text, known in changes.values():
        files.setdefault(text.file, []).append((text, _disjoint(known)))
    return [_write(file, texts) for file, texts in files.items()]


def _change(source: SourceObject, edit: Edit) -> _Change | None:
    found = source.text.node(source.prefix + edit.path)
    if found is None:
        return None
    key, node = found
    if edit.action == "rename":
        return None if key is None else _Change(*_span(key), _scalar(str(edit.value), key))
    if not isinstance(node, yaml.ScalarNode):
        return None
    start, end = _span(node)
    if edit.action == "quote":
        return _Change(start, end, json.dumps(source.text.text[start:end], ensure_ascii=False))
    if node.style in ("|", ">"):
        return _Change(start, end, _block(source.text.text, node, key, str(edit.value)))
    return _Change(start, end, _scalar(edit.value, node))


def _span(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index


def _scalar(value: Any, node: yaml.ScalarNode) -> str:
    """A scalar in the quotes that the old one had."""
    if not isinstance(value, str):
        return json.dumps(value)
    flat = " ".join(value.split("\n"))
    if node.style == "'":
        return "'" + flat.replace("'", "''") + "'"
    if node.style is None and _PLAIN.fullmatch(flat) and flat.lower() not in _WORDS:
        return flat
    return json.dumps(flat, ensure_ascii=False)


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


def _write(file: str, texts: list[tuple[DocumentText, list[_Change]]]) -> Repaired:
    content = Path(file).read_bytes().decode("utf-8-sig")
    count = 0
    for text, changes in sorted(texts, key=lambda item: item[0].start, reverse=True):
        for change in reversed(changes):
            start, end = text.start + change.start, text.start + change.end
            content = content[:start] + change.text + content[end:]
            count += 1
    Path(file).write_text(content, encoding="utf-8", newline="")
    return Repaired(file, count)
