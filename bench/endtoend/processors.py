"""CPU seconds of processes, from /proc: unlike rates, hardly touched by what else runs on the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def used(processes: Mapping[str, int]) -> dict[str, float]:
    """User and system seconds so far by name; a process that is gone, or a system without /proc, is left out."""
    seconds = {}
    for name, pid in processes.items():
        try:
            # The second field is the program's name in parentheses, which may hold blanks.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds[name] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def since(before: Mapping[str, float], processes: Mapping[str, int]) -> dict[str, float]:
    """What they used since `before` was taken."""
    return {name: round(value - before[name], 2) for name, value in used(processes).items() if name in before}
