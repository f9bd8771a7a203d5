"""The way to a field of an object, and how messages write it."""

from __future__ import annotations

import re

#: Keys and indices.
FieldPath = tuple[str | int, ...]

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def path_text(path: FieldPath) -> str:
    """As API errors write it: `spec.devices[0].name`; keys that are no plain names in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def parse_path(text: str) -> FieldPath:
    """The path that `path_text` wrote."""
    steps = (match[1] if match[1] is not None else match[2] for match in _STEP.finditer(text))
    return tuple(int(step) if step.isdigit() else step for step in steps)
