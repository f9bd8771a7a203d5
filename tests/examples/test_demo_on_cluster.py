"""`make cluster-demo` plays on a real control plane, under the operator's own account, and ends as told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_the_story_ends_as_told() -> None:
    command = [sys.executable, "-m", "examples.demo.run_on_cluster"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok   ") == 4
    assert "Queued: " in done.stdout
