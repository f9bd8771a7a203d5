"""Files that a command cannot use: each command names the file, says what is wrong with it and what to do, and ends with 1.

What would be an answer about nothing ("no claims", "ok") is not printed then.
"""

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
#: What only commands that read manifests can tell from a file that they can use.
NO_MANIFESTS = {
    "list": ("holds no objects", "write it"),
    "service": ("holds nothing that has to do with devices", "name files with"),
    "broken": ("not YAML", "did not find expected"),
    "text": ("expected an object", "apiVersion and kind"),
    "claim": ("has no kind ResourceClam", "did you mean ResourceClaim?"),
    "old": ("v1beta1 is not read here", "write it as resource.k8s.io/v1"),
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
#: These look at files by themselves: findings and texts are what they answer, whatever is in them.
WHATEVER = ("lint", "convert")
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
    (tmp_path / "list").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    (tmp_path / "service").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    (tmp_path / "broken").write_text("a: [1\nb: 2")
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "claim").write_text("apiVersion: resource.k8s.io/v1\nkind: ResourceClam\nmetadata: {name: c}\n")
    (tmp_path / "old").write_text("apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\n")
    (tmp_path / "half").write_text(f"{NODE}---\na: [1\n---\n{NODE.replace('n1', 'n2')}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kubectl-dra"])
    return tmp_path


def call(command: str, file: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of a command line whose FILE is `file`."""
    with pytest.raises(SystemExit) as stop:
        main.run([file if word == "FILE" else word for word in command.split()])
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


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
    code, out, err = call(command, file, capsys)
    told = out + err
    assert code == 1, told
    line = next((line for line in told.splitlines() if file in line), "")
    assert line.startswith(("error: ", file)), told
    assert wrong in told
    assert repair.lower() in told.lower()
    assert "defect" not in told
    if command in MANIFESTS and not command.startswith(WHATEVER):
        assert out == ""


@pytest.mark.parametrize(
    ("command", "file", "wrong", "repair"),
    [
        (command, file, *told)
        for command in (*MANIFESTS, "simulate --compare FILE FILE", "top -o json -f FILE", "simulate -o json -f FILE")
        for file, told in NO_MANIFESTS.items()
        if not command.startswith(WHATEVER) and "--policy" not in command
    ],
)
def test_an_input_of_which_nothing_can_be_used_is_said_and_answered_with_nothing(
    command: str, file: str, wrong: str, repair: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(command, file, capsys)
    assert (code, out) == (1, "")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {file}:")
    assert wrong in errors[0]
    assert repair in errors[0]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        # Two nodes are left, and they are answer enough for some.
        ("top nodes -f half", "n2"),
        ("top queue -f half", ""),
        ("top claims -o json -f half", ""),
        ("simulate -f half", ""),
        ("simulate -o json -f half", ""),
        ("simulate --compare half half", ""),
        ("defrag -f half", ""),
        ("defrag -o json -f half", ""),
        ("portable -f half --cluster good", ""),
        # A verdict on one half would be taken for one on the whole.
        ("migrate plan -f half", ""),
        ("migrate generate -f half", ""),
        ("migrate verify -f half", ""),
        ("migrate verify -o json -f half", ""),
    ],
)
def test_an_input_of_which_a_part_can_be_used_is_answered_where_that_says_something(
    command: str, answer: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(command, "", capsys)
    assert code == 1
    assert "error: half:" in err
    assert answer in out if answer else out == ""
    assert "nothing waits" not in err


def test_what_is_not_found_may_be_in_what_could_not_be_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = call("explain claim/c -f half", "", capsys)
    assert err.splitlines()[-1] == "error: there is no claim default/c in what could be used of the input"


def test_each_of_several_empty_files_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run(["simulate", "-f", "empty", "-f", "comments"])
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == [
        f"error: {name}: holds no objects; write it, or name another file" for name in ("empty", "comments")
    ]
