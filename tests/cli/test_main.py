"""The programs themselves: help, exit codes, and failures as one line."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize(
    ("line", "told", "help"),
    [
        ("nonsense", "No such command 'nonsense'", ""),
        ("simulat", "Did you mean 'simulate'?", ""),
        ("--nonsense", "No such option: --nonsense", ""),
        ("simulate --nonsense", "No such option: --nonsense", "simulate"),
        ("simulate", "give manifests, or a cluster with --live", "simulate"),
        ("simulate --compare a", "'--compare' requires 2 arguments", "simulate"),
        ("simulate -f a -o xml", "'xml' is not one of 'table', 'json', 'yaml'", "simulate"),
        ("simulate -f a --seed x", "Invalid value for '--seed'", "simulate"),
        ("top nodez", "'nodez' is not one of 'classes', 'nodes'", "top"),
        ("top -n", "'-n' requires an argument", "top"),
        ("migrate", "Choose from: plan, generate, verify", "migrate"),
        ("migrate generate --phase 4", "less than or equal to 3", "migrate"),
        ("run --probe-port 70000", "less than or equal to 65535", "run"),
        ("lint", "Missing option '-f' / '--filename'", "lint"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, told: str, help: str
) -> None:
    assert call(monkeypatch, *line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert told in err
    assert err.endswith(f"(see {' '.join(filter(None, ('kubectl-dra', help)))} --help)\n")


@pytest.mark.parametrize(
    "line",
    [
        "simulate -f a --context c",
        "simulate -f a --until soon",
        "simulate --compare a b -f c",
        "simulate -f a --add-nodes profile=p4d,count=none",
        "explain node/n1",
        "explain pod/team/p -n other",
        "explain pod/p -f a --context c",
        "cel true",
        "lint --fix -f -",
        "migrate plan --undo",
        "migrate plan --phase 2",
        "defrag --apply -f a",
        "top --watch -f a",
        "run --log-level loud",
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    assert call(monkeypatch, *line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_no_command_is_wrong_usage_with_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: kubectl-dra" in err


def test_a_reader_that_goes_away_in_the_middle_is_141() -> None:
    line = "import sys; from dra_operator.cli import main; sys.argv[0] = 'kubectl-dra'; main.run()"
    process = subprocess.Popen(
        [sys.executable, "-c", line, "convert", "-f", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    big = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n" + "# much\n" * 100_000
    _, err = process.communicate(big.encode())
    assert (process.returncode, err) == (141, b"")


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


@pytest.mark.parametrize("command", main.COMMANDS, ids=lambda command: str(command.name))
def test_options_say_what_they_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: main.Command
) -> None:
    """A name such as FILE, or the words there are to choose from; no types of the language."""
    assert call(monkeypatch, command.name, "--help") == 0
    options = capsys.readouterr().out.partition("Options:")[2]
    assert re.findall(r"<(?:str|path|int|float)\b[^>]*>", options) == []
