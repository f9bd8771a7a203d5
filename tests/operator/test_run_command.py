"""What `dra-operator run` says when it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dra_operator.cli", "run", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "KUBECONFIG": ""},
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 1, "does not exist; name one with --kubeconfig"),
        ("clusters: [", 1, "cannot be used"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: "
            '{server: "http://127.0.0.1:1"}}]}',
            1,
            "GET /version: Cannot connect to host 127.0.0.1:1",
        ),
    ],
)
def test_one_line_and_an_exit_code(tmp_path: Path, content: str | None, code: int, said: str) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    status, text = run("--kubeconfig", str(path))
    assert status == code
    assert said in text
    assert "Traceback" not in text


def test_wrong_usage_is_exit_code_two() -> None:
    status, text = run("--log-level", "loud")
    assert (status, "is none of" in text) == (2, True)
