"""`make demo` keeps its promises, and the README shows what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_lines_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo.run_offline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tour = re.search(r"`make demo` plays this.*?```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert tour is not None
    shown = tour[1].splitlines()
    assert len(shown) >= 10
    printed = done.stdout.splitlines()
    for line in shown:
        # "…" stands for what was cut.
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(each) for each in printed), f"not printed any more: {line}"
