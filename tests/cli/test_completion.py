"""Shell completion, also of `kubectl dra` by the script that the documentation gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import ROOT

PROGRAM = Path(sys.executable).parent / "kubectl-dra"


def complete(words: str, at: int) -> list[str]:
    environment = {"_KUBECTL_DRA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    done = subprocess.run(
        [PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "at", "wanted"),
    [
        ("kubectl-dra ex", 1, ["explain"]),
        ("kubectl-dra top ", 2, ["classes", "nodes", "claims", "queue", "namespaces"]),
        ("kubectl-dra simulate --li", 2, ["--live"]),
        ("kubectl-dra lint -o s", 3, ["sarif"]),
    ],
)
def test_words(words: str, at: int, wanted: list[str]) -> None:
    assert complete(words, at) == wanted


def test_the_script_for_kubectl(tmp_path: Path) -> None:
    lines = (ROOT / "docs" / "cli.md").read_text().partition("kubectl_complete-dra")[2].splitlines()
    text = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    script = tmp_path / "kubectl_complete-dra"
    script.write_text(f"{text}\n")
    done = subprocess.run(
        ["sh", script, "top", "na"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.stdout.split() == ["namespaces", ":4"]
