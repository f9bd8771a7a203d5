"""Tables, data and text from strangers."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.output import OutputFormat, Printer, check_writable, harmless, print_data, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_are_plain_in_a_pipe() -> None:
    stream = io.StringIO()
    print_table(
        Printer(stream), ("NAME", "WHY"), [("a", "x y"), ("longer", ""), ("日本", "wide")], {"NAME": lambda _: "red"}
    )
    assert stream.getvalue() == "NAME     WHY\na        x y\nlonger   -\n日本     wide\n"


def test_tables_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    print_table(Printer(stream), ("NAME",), [("a",)], {"NAME": lambda cell: "red" if cell == "a" else ""})
    assert "\x1b[31ma" in stream.getvalue()


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    stream = Terminal()
    Printer(stream).line(("a", "red"))
    assert stream.getvalue() == "a\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", "two lines"),
        ("\x1b[2Jx", "\\x1b[2Jx"),
        ("a\u202eb", "a\\x202eb"),
        ("\x9b", "\\x9b"),
    ],
)
def test_no_text_steers_the_terminal(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (OutputFormat.JSON, '{\n  "b": [\n    1\n  ],\n  "a": null\n}\n'),
        (OutputFormat.YAML, "b:\n- 1\na: null\n"),
    ],
)
def test_data_keeps_its_order(capsys: pytest.CaptureFixture[str], form: OutputFormat, text: str) -> None:
    print_data({"b": [1], "a": None}, form)
    assert capsys.readouterr().out == text


def test_a_file_that_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path, f"{tmp_path}: is a directory; name a file in it"),
        (tmp_path / "none" / "x", f"there is no directory {tmp_path / 'none'}; make it, or name another"),
    ):
        with pytest.raises(CommandFailed, match=re.escape(said)):
            check_writable(path)
    check_writable(tmp_path / "new")
