"""Kopf's storages, emptied: it keeps no state about any object, least of all in the object's annotations.

Silent `on.event` handlers need none. Kopf would still copy every object to compare it with what it handled before, a
third of what an event costs; and a handler added by mistake would write annotations to claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """There is never anything to compare with."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> Any:
        return {}

    def fetch(self, *, body: kopf.Body) -> None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:
        return None


class NoProgress(kopf.ProgressStorage):
    """No handler is ever half done."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        return None

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        return None

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        return None

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return cast(Any, essence)
