"""A recorded run as one HTML page that needs nothing else: style, script and data are in it. `page.html` is its frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

_FRAME = Path(__file__).with_name("page.html")
_PLACE = "/*DATA*/null"


def page(record: Mapping[str, Any]) -> str:
    """`record` as `recording.Recorder` makes it. Names in it can hold anything: none of it can end the script."""
    data = orjson.dumps(record).decode()
    for character, escape in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        data = data.replace(character, escape)
    frame = _FRAME.read_text(encoding="utf-8")
    before, _, after = frame.partition(_PLACE)
    return f"{before}{data}{after}"


def write_page(path: Path, record: Mapping[str, Any]) -> None:
    """Raises OSError."""
    path.write_text(page(record), encoding="utf-8")
