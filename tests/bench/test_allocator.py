"""The allocator's bench: what it prints of what was measured. The measurements themselves are the bench's, stood in for here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.allocator import __main__ as bench


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The in-tree side takes 4 seconds, ours 2; one answer takes it a moment."""

    def in_tree(command: str, path: Path) -> dict[str, Any]:
        return {"seconds": 4.0, "allocated": 7} if command == "fill" else {"results": None, "timeout": True}

    rows = (
        bench.Row("fill something", lambda: bench.shapes.filling(2, 8), True),
        bench.Row("an answer", lambda: bench.shapes.groups(2, 2, 3), False),
    )
    monkeypatch.setattr(bench, "ROWS", rows)
    monkeypatch.setattr(bench, "program", lambda: Path("unused"))
    monkeypatch.setattr(bench, "in_tree", in_tree)
    monkeypatch.setattr(bench, "ours_filling", lambda path: (8, 6, 0.5, 2.0))


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["-o", "json"]) == 0
    filled, answered = json.loads(capsys.readouterr().out)["results"]
    assert filled == {
        "name": "fill something",
        "claims": 8,
        "inTree": {"claimsPerSecond": 2.0, "allocated": 7},
        "ours": {"claimsPerSecond": 4.0, "allocated": 6, "loadSeconds": 0.5},
        "timesAsFast": 2.0,
    }
    assert (answered["name"], answered["inTree"]["cutOff"]) == ("an answer", True)
    assert answered["ours"]["millis"] > 0


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["something"]) == 0
    (_, name, theirs, ours) = capsys.readouterr().out.splitlines()
    assert name == "fill something"
    assert theirs.split() == ["in-tree", "2", "claims/s,", "7", "allocated"]
    assert ours.split()[:8] == ["ours", "4", "claims/s,", "6", "allocated", "2.0", "times", "as"]


def test_words_that_no_row_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["nothing of the kind"])
    assert "fill something; an answer" in capsys.readouterr().err
