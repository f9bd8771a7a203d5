"""What documents show after `$ kubectl-dra … -f examples/…` is what that command prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import call

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]


def shown() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Document, command line, and the lines shown below it."""
    for path in DOCUMENTS:
        for block in re.findall(r"^```(?:console)?\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            for piece in re.split(r"^\$ ", re.sub(r"\\\n\s*", "", block), flags=re.MULTILINE)[1:]:
                line, *below = piece.splitlines()
                if line.startswith("kubectl-dra ") and "examples/" in line and below:
                    yield path.relative_to(ROOT).as_posix(), line, tuple(below)


@pytest.mark.parametrize(("document", "line", "below"), list(shown()))
def test_it_prints_what_is_shown(document: str, line: str, below: tuple[str, ...]) -> None:
    words = shlex.split(line, comments=True)[1:]
    done = call(*words)
    assert done.returncode in (0, 1), done.stderr
    printed = done.stdout.splitlines()
    # "…" stands for what was cut.
    missing = [each for each in below if each != "…" and not any(fits(each, candidate) for candidate in printed)]
    assert missing == [], done.stdout


def fits(line: str, printed: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, line.split("…"))), printed) is not None


def test_something_is_shown() -> None:
    assert {document for document, _, _ in shown()} >= {"README.md", "examples/defrag/README.md"}
