"""Builds the Go program that tests compare with, once, into a per-user cache; and talks to it.

The program is `go/` beside this file: the in-tree code of `k8s.io/dynamic-resource-allocation`, unchanged, behind JSON Lines.
The cache is keyed by a hash of its sources and of go.sum, so a change of either builds anew. Tests skip where there is no Go.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

MODULE: Final = Path(__file__).with_name("go")
GO_MINIMUM: Final = (1, 26)


class Unavailable(Exception):
    """The program is not there and cannot be built; the text says what to install."""


def program() -> Path:
    """The built program, building it first where need be (a minute or two on two cores). Raises Unavailable."""
    built = _cache_folder() / "differential"
    if os.access(built, os.X_OK):
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    with open(built.parent / "lock", "w") as lock:
        # A second test process waits for the first one's build.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(built, os.X_OK):
            _build(built)
    return built


def _cache_folder() -> Path:
    digest = hashlib.sha256()
    for source in sorted([MODULE / "go.mod", MODULE / "go.sum", *MODULE.glob("*.go")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dra-operator" / "differential" / digest.hexdigest()[:16]


def _build(target: Path) -> None:
    fresh = target.with_name(f"differential.{os.getpid()}.tmp")
    # -trimpath as the control plane is built, so that both share one Go build cache.
    command = [_go(), "build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-o", str(fresh), "."]
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"the Go program in {MODULE.name}/ does not build:\n{done.stderr[-4000:]}")
    fresh.rename(target)


def _go() -> str:
    wanted = ".".join(map(str, GO_MINIMUM))
    go = shutil.which("go")
    if go is None:
        raise Unavailable(f"there is no Go on the PATH: install Go {wanted} or newer (https://go.dev/dl)")
    said = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd="/",
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
    ).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        raise Unavailable(f"{go} is {said.strip() or 'of unknown version'}: install Go {wanted} or newer")
    return go


class Peer:
    """A running command of the program, answering one question at a time."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(program()), self._command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question: Any) -> Any:
        """The answer to one question; a program that died on the last one is started again."""
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the Go program died on {question!r}")
        return json.loads(line)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)


@contextmanager
def peer(command: str) -> Iterator[Peer]:
    """A running command for a block of tests. Raises Unavailable."""
    running = Peer(command)
    try:
        yield running
    finally:
        running.close()


def ask_all(command: str, questions: Iterable[Any]) -> list[Any]:
    """Many questions in one run of the program. Raises Unavailable."""
    text = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([str(program()), command], input=text.encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
