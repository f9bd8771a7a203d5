from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from dra_operator.operator import structured_logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    structured_logs.configure("info", stream)
    yield stream
    structured_logs.configure("info")


def test_every_line_is_one_json_object_whoever_writes_it(lines: io.StringIO) -> None:
    structlog.get_logger("ours").info("allocated", claim="ns/c", devices=[1])
    logging.getLogger("some.library").warning("careful: %s", "text\nof two lines")
    logging.getLogger("kopf.objects").info("Handler 'x' succeeded.")
    structlog.get_logger("ours").debug("too quiet")
    first, second = map(json.loads, lines.getvalue().splitlines())
    assert (first["event"], first["claim"], first["devices"], first["level"]) == ("allocated", "ns/c", [1], "info")
    assert (second["event"], second["logger"]) == ("careful: text\nof two lines", "some.library")
    assert first["timestamp"].endswith("Z")


def test_an_error_carries_its_traceback(lines: io.StringIO) -> None:
    structlog.get_logger("ours").error("crashed", exc_info=ValueError("bad"))
    assert "ValueError: bad" in json.loads(lines.getvalue())["exception"]


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="'loud' is none of debug, info, warning, error"):
        structured_logs.configure("loud")
