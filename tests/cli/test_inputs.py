"""Files that a command cannot use: each command names the file, says what is wrong with it and what to do, and ends with 1."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dra_operator.cli import main

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"

#: By name, what is wrong and what to do: as told by commands that read manifests, by those that read one file of their own, and by those
#: that ask a cluster.
FILES = {
    "empty": (("holds no objects", "write it"), ("holds no", "write it"), ("is empty", "name another file")),
    "comments": (("holds no objects", "write it"), ("holds no", "write it"), ("is empty", "name another file")),
    "directory": (("in this directory", "name one that has some"), *[("is a directory", "name a file")] * 2),
    "binary": (*[("not UTF-8 text", "save it as UTF-8")] * 2, ("not UTF-8 text", "name another file")),
    "missing": (
        *[("No such file", "name a file that can be read")] * 2,
        ("does not exist", "name one with --kubeconfig"),
    ),
    "unreadable": (*[("cannot be read", "name a file that can be read")] * 2, ("does not exist", "name one with")),
}

MANIFESTS = [
    "simulate -f FILE",
    "simulate -f good --policy FILE",
    "explain claim/c -f FILE",
    "lint -f FILE",
    "lint --inventory -f FILE",
    "convert -f FILE",
    "top nodes -f FILE",
    "defrag -f FILE",
    "migrate plan -f FILE",
    "migrate generate -f FILE",
    "migrate verify -f FILE",
    "portable -f FILE --cluster good",
    "portable -f good --cluster FILE",
]
SINGLE = ["solve FILE", "solve --fill FILE", "cel true --device FILE", "cel --cases FILE"]
KUBECONFIG = ["top nodes --kubeconfig FILE", "snapshot --kubeconfig FILE"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "good").write_text(NODE)
    (tmp_path / "empty").write_text("")
    (tmp_path / "comments").write_text("# to come\n---\n# and more\n")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "README").write_text("no manifest\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01\n")
    (tmp_path / "unreadable").symlink_to("unreadable")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kubectl-dra"])
    return tmp_path


def cases() -> list[tuple[str, str, str, str]]:
    return [
        (command, file, *told[kind])
        for kind, commands in enumerate((MANIFESTS, SINGLE, KUBECONFIG))
        for command in commands
        for file, told in FILES.items()
        if (command, file) != ("cel --cases FILE", "comments")  # its lines are cases, and no JSON
    ]


@pytest.mark.parametrize(("command", "file", "wrong", "repair"), cases())
def test_what_is_wrong_with_a_file_is_said(
    command: str, file: str, wrong: str, repair: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--policy" in command:
        wrong = wrong.replace("holds no objects", "holds no AllocationPolicy")
    with pytest.raises(SystemExit) as stop:
        main.run([file if word == "FILE" else word for word in command.split()])
    captured = capsys.readouterr()
    told = captured.out + captured.err
    assert stop.value.code == 1, told
    line = next((line for line in told.splitlines() if file in line), "")
    assert line.startswith(("error: ", file)), told
    assert wrong in told
    assert repair.lower() in told.lower()
    assert "defect" not in told


def test_each_of_several_empty_files_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run(["simulate", "-f", "empty", "-f", "comments"])
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == [
        f"error: {name}: holds no objects; write it, or name another file" for name in ("empty", "comments")
    ]
