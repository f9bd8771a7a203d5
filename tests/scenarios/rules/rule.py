"""What it takes to break a rule, and who must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Rule:
    """`without` breaks it; then each of `scenarios` must fail."""

    name: str
    without: Callable[[pytest.MonkeyPatch], None]
    scenarios: tuple[str, ...]
