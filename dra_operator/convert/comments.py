"""The comments of a YAML text, and those that a rewritten text has lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import yaml  # type: ignore[import-untyped]

_COMMENT = re.compile(r"(?:^|(?<=[ \t\n]))#[^\n]*")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def comments(text: str) -> list[str]:
    """All comments, without their marks, in order. Text that is not YAML has none."""
    try:
        spans = list(_scalars(text))
    except yaml.YAMLError:
        return []
    found: list[str] = []
    position = 0
    for match in _COMMENT.finditer(text):
        while position < len(spans) and spans[position][1] <= match.start():
            position += 1
        if position < len(spans) and spans[position][0] <= match.start():
            continue
        if words := match[0].strip("# \t\r"):
            found.append(words)
    return found


def _scalars(text: str) -> Iterator[tuple[int, int]]:
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            yield event.start_mark.index, event.end_mark.index


def lost(before: str, after: Sequence[str]) -> list[str]:
    """Comments of `before` that stand in none of the texts of `after`."""
    kept = Counter(comment for text in after for comment in comments(text))
    # A comment within an expression is part of the text to YAML and stays in it.
    whole = "\n".join(after)
    missing: list[str] = []
    for comment in comments(before):
        if kept[comment] > 0:
            kept[comment] -= 1
        elif f"// {comment}" not in whole:
            missing.append(comment)
    return missing
