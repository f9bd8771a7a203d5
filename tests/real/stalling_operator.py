"""`dra-operator` with a pass of the engine that takes longer than the Lease lasts: the next one after `STALL_FILE` is there.

Nothing else runs on the event loop meanwhile, and the interpreter is busy.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from dra_operator.cli.main import run
from dra_operator.engine.decisions import Decision
from dra_operator.engine.engine import Engine
from dra_operator.operator.settings import LeadershipSettings

STALL_FILE = "STALL_FILE"

#: Seconds.
STALL = LeadershipSettings().lease_duration + 1

quick = Engine.decide


def slow(self: Engine, now: float) -> list[Decision]:
    """As the engine decides, after a while."""
    wish = Path(os.environ[STALL_FILE])
    if wish.exists():
        end = time.monotonic() + STALL
        while time.monotonic() < end:
            pass
        wish.unlink()
    return quick(self, now)


if __name__ == "__main__":
    Engine.decide = slow  # type: ignore[method-assign]
    run()
