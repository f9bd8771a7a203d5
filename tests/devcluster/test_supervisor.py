"""No process of an instance outlives its owner, whoever is killed. Played with `sleep` for the programs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster import control, instance
from devcluster.instance import Folder, InstanceError
from devcluster.waiting import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# Ignores SIGTERM, and says so by a file once it does.
STUBBORN = (
    "import pathlib, signal, time; signal.signal(15, signal.SIG_IGN); pathlib.Path('deaf').touch(); time.sleep(600)"
)


@dataclass
class Supervised:
    folder: Folder
    process: "subprocess.Popen[bytes]"

    def ask(self, op: str, **more: Any) -> dict[str, tuple[int, int | None]]:
        return control.ask(self.folder, {"op": op, **more}, timeout=10)

    def start(self, component: str = "sleeper", argv: list[str] = SLEEP) -> int:
        return self.ask("start", component=component, argv=argv, env=dict(os.environ))[component][0]

    def is_gone(self) -> bool:
        return self.process.poll() is not None and not self.folder.path.exists()


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    # A path longer than the 108 bytes of a socket address.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("long" * 25)))
    folder = instance.folder("a")
    with instance.acquire(folder) as lock:
        process = subprocess.Popen(
            [sys.executable, "-m", "devcluster.supervisor", str(folder.path)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[lock.fileno()],
        )
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    with process:
        yield Supervised(folder, process)
        process.kill()


def alive(pid: int) -> bool:
    return instance.start_time(pid) is not None


def test_it_holds_the_lock_and_what_it_was_told_to_start(supervised: Supervised) -> None:
    pid = supervised.start()
    assert instance.is_alive(supervised.folder)
    assert alive(pid)
    assert supervised.ask("status") == {"sleeper": (pid, None)}
    assert instance.recorded_processes(supervised.folder) == {"supervisor": supervised.process.pid, "sleeper": pid}


@pytest.mark.parametrize("end", ["owner gone", "SIGTERM", "SIGINT", "shutdown"])
def test_everything_ends_with_it(supervised: Supervised, end: str) -> None:
    pids = [supervised.start("a"), supervised.start("b")]
    match end:
        case "owner gone":
            assert supervised.process.stdin is not None
            supervised.process.stdin.close()
        case "shutdown":
            supervised.ask("shutdown")
        case number:
            supervised.process.send_signal(signal.Signals[number])
    eventually(supervised.is_gone, 10)
    assert not any(alive(pid) for pid in pids)


def test_a_detached_one_outlives_its_owner(supervised: Supervised) -> None:
    pid = supervised.start()
    supervised.ask("detach")
    assert supervised.process.stdin is not None
    supervised.process.stdin.close()
    assert supervised.ask("status") == {"sleeper": (pid, None)}
    supervised.ask("shutdown")
    eventually(supervised.is_gone, 10)
    assert not alive(pid)


def test_when_it_is_killed_the_kernel_kills_the_rest(supervised: Supervised) -> None:
    pid = supervised.start()
    supervised.process.kill()
    eventually(lambda: not alive(pid), 10)
    assert not instance.is_alive(supervised.folder)
    with instance.acquire(supervised.folder):
        assert [path.name for path in supervised.folder.path.iterdir()] == ["lock"]


def test_stop_waits_until_the_process_is_gone_and_start_starts_it_again(supervised: Supervised) -> None:
    first = supervised.start()
    supervised.ask("stop", component="sleeper", signal="SIGTERM", patience=10)
    assert not alive(first)
    assert supervised.ask("status") == {}
    second = supervised.start()
    assert second != first
    assert alive(second)


def test_what_does_not_stop_is_killed(supervised: Supervised) -> None:
    pid = supervised.start("deaf", [sys.executable, "-c", STUBBORN])
    eventually((supervised.folder.path / "deaf").exists)
    supervised.ask("stop", component="deaf", signal="SIGTERM", patience=0.1)
    assert not alive(pid)


def test_an_exit_code_is_told_and_the_output_kept(supervised: Supervised) -> None:
    supervised.start("bad", ["sh", "-c", "echo broken flag >&2; exit 7"])
    eventually(lambda: supervised.ask("status")["bad"][1] == 7)
    assert supervised.folder.log("bad").read_text() == "broken flag\n"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"op": "start", "component": "sleeper", "argv": SLEEP, "env": {}}, "sleeper runs already"),
        ({"op": "start", "component": "x", "argv": ["/no/such/program"], "env": {}}, "No such file"),
        ({"op": "dance"}, "unknown op 'dance'"),
        ({}, "KeyError"),
    ],
)
def test_what_it_cannot_do_is_an_answer_and_it_goes_on(
    supervised: Supervised, request_: dict[str, Any], said: str
) -> None:
    pid = supervised.start()
    with pytest.raises(InstanceError, match=said):
        control.ask(supervised.folder, request_)
    assert alive(pid)
    assert supervised.ask("status")["sleeper"] == (pid, None)


def test_asking_where_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(InstanceError, match="instance nobody does not answer"):
        control.ask(instance.folder("nobody"), {"op": "status"})
