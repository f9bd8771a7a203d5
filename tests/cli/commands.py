"""Command lines in a process of their own, as a shell would call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo"


def call(*arguments: object, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dra_operator.cli", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def data(*arguments: object, **options: Any) -> Any:
    """Of a command that must succeed, its JSON."""
    done = call(*arguments, "-o", "json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expect(found: str, file: Path) -> None:
    """Compare with a golden file; `UPDATE_EXPECTED=1` writes it anew."""
    if os.environ.get("UPDATE_EXPECTED"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found)
    assert found == file.read_text()
