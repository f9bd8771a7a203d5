"""The programs themselves: help, exit codes, and failures as one line."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from dra_operator.cli import main
from dra_operator.cli.failures import CommandFailed


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str, program: str = "kubectl-dra") -> int:
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{program}"])
    with pytest.raises(SystemExit) as stop:
        main.run(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize(("program", "first"), [("dra-operator", "run"), ("kubectl-dra", "simulate")])
def test_help_lists_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str, first: str
) -> None:
    assert call(monkeypatch, "--help", program=program) == 0
    text = capsys.readouterr().out
    assert f"Usage: {program}" in text
    listed = [line.split()[0] for line in text.split("Commands:")[1].splitlines() if line.strip()]
    assert listed[0] == first
    assert set(listed) == {command.name for command in main.COMMANDS}


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == main.dra_operator.__version__


@pytest.mark.parametrize("arguments", [("nonsense",), ("simulate", "--nonsense"), ("simulate",)])
def test_wrong_usage_is_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert call(monkeypatch, *arguments) == 2
    assert "Error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        (CommandFailed("f.yaml: is empty"), 1, "error: f.yaml: is empty\n"),
        (CommandFailed("no such thing", code=2), 2, "error: no such thing\n"),
        (CommandFailed(), 1, ""),
        (FileNotFoundError(2, "No such file or directory", "x.json"), 1, "error: x.json: No such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (
            RuntimeError("odd\n\x1b[31m"),
            1,
            "error: RuntimeError: odd \\x1b[31m (a defect; DRA_OPERATOR_DEBUG=1 shows where)\n",
        ),
    ],
)
def test_failures_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: BaseException, code: int, line: str
) -> None:
    def solve() -> None:
        raise failure

    monkeypatch.setattr(main, "import_module", lambda name: SimpleNamespace(solve=solve))
    assert call(monkeypatch, "solve") == code
    assert capsys.readouterr() == ("", line)


def test_the_help_imports_no_command() -> None:
    check = (
        "import sys; sys.argv[0] = 'kubectl-dra'\nfrom dra_operator.cli import main\n"
        "try: main.run(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'kopf', 'aiohttp', 'pydantic', 'rich', 'dra_operator.engine', 'dra_operator.allocator'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False).stderr == ""


def test_a_program_collects_garbage_rarely_and_whoever_calls_it_as_a_function_keeps_their_own_setting() -> None:
    check = (
        "import gc, sys; from dra_operator.cli import main\n"
        "for arguments in (['--version'], None):\n"
        "    sys.argv = ['kubectl-dra', '--version']\n"
        "    try: main.run(arguments)\n"
        "    except SystemExit: print(gc.get_threshold() == main.GARBAGE_COLLECTION)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [main.dra_operator.__version__, "False", main.dra_operator.__version__, "True"]


@pytest.mark.parametrize("command", main.COMMANDS, ids=lambda command: str(command.name))
def test_every_command_has_help_with_an_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: main.Command
) -> None:
    assert call(monkeypatch, command.name, "--help") == 0
    assert "Example: " in capsys.readouterr().out
