"""Where log lines go and how they look: one JSON object a line on pods, coloured columns on a terminal; on stderr.

Lines of libraries (Kopf, aiohttp, asyncio) take the same way.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import orjson
import structlog

LEVELS = ("debug", "info", "warning", "error")

#: Kopf tells of every event and handler at INFO.
QUIET = {"kopf": logging.WARNING, "aiohttp": logging.WARNING, "asyncio": logging.WARNING}


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """`level` is one of LEVELS. Raises ValueError."""
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    threshold = getattr(logging, level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[Any]
    if stream.isatty():
        # Plain: rich would print every local variable, and ours hold whole clusters.
        final = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dumps)]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for name, at_least in QUIET.items():
        logging.getLogger(name).setLevel(max(at_least, threshold) if level != "debug" else logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _dumps(value: Any, default: Any = None, **_: Any) -> str:
    return orjson.dumps(value, default=default or str, option=orjson.OPT_NON_STR_KEYS).decode()
