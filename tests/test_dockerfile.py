"""What the image must keep, checked on the text: hash-locked, nothing but the program in it, not root."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNFOLDED = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
INSTRUCTIONS = [
    (word.upper(), " ".join(rest.split()))
    for line in UNFOLDED.splitlines()
    if line.strip() and not line.startswith("#")
    for word, _, rest in [line.partition(" ")]
]
STAGES = [index for index, (word, _) in enumerate(INSTRUCTIONS) if word == "FROM"]
LAST = INSTRUCTIONS[STAGES[-1] :]


def test_two_stages_of_one_python() -> None:
    bases = [text.partition(" AS ")[0] for word, text in INSTRUCTIONS if word == "FROM"]
    assert bases == ["python:${PYTHON}-slim"] * 2


def test_the_last_stage_takes_only_the_environment() -> None:
    assert [text for word, text in LAST if word in ("COPY", "ADD")] == [
        "--from=build /opt/dra-operator /opt/dra-operator"
    ]
    assert not [word for word, _ in LAST if word == "RUN"]


def test_it_runs_as_the_user_that_the_manifests_name() -> None:
    (user,) = [text for word, text in LAST if word == "USER"]
    deployment = (ROOT / "manifests" / "base" / "deployment.yaml").read_text()
    assert user == "65532:65532"
    assert "runAsUser: 65532" in deployment
    assert "runAsGroup: 65532" in deployment


def test_it_starts_the_operator() -> None:
    assert ("ENTRYPOINT", '["dra-operator"]') in LAST
    assert ("CMD", '["run"]') in LAST
    assert "args: [run]" in (ROOT / "manifests" / "base" / "deployment.yaml").read_text()


def test_every_download_is_checked_by_hash() -> None:
    commands = [part.strip() for word, text in INSTRUCTIONS if word == "RUN" for part in text.split("&&")]
    installs = [command for command in commands if re.search(r"pip (install|wheel|download)", command)]
    assert len(installs) == 4
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command, command


def test_the_build_context_holds_what_is_copied_and_no_more() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for word, text in INSTRUCTIONS
        if word == "COPY" and not text.startswith("--from")
        for source in text.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_build_lock_is_of_what_the_project_builds_with() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert (ROOT / "requirements" / "build.in").read_text().split() == wanted
