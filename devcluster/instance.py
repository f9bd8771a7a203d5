"""The folder that an instance lives in: names, files, ports, and whether it is alive.

An instance is alive as long as its supervisor holds the lock on `lock`. The kernel drops that lock when the
process ends, however it ends, so nothing here trusts a pid file: a folder whose lock is free is left over from a
killed run and may be cleaned.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

PORT_RANGE: Final = (20_000, 32_767)  # below the ephemeral range, where outgoing connections would take them
SUPERVISOR: Final = "supervisor"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class InstanceError(Exception):
    """An instance is not in the state that the call needs; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of one instance on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class Description:
    """What `instance.json` says: enough to reach and restart an instance from another process."""

    name: str
    version: str
    binaries: str
    ports: Ports
    scheduler: bool = True
    kubelet: bool = True
    feature_gates: dict[str, bool] = field(default_factory=dict)
    extra_args: dict[str, list[str]] = field(default_factory=dict)
    ready: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one instance. Nothing outside this folder belongs to it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def control_socket(self) -> Path:
        return self.path / "control.sock"

    @property
    def processes(self) -> Path:
        return self.path / "processes.json"

    @property
    def certificates(self) -> Path:
        return self.path / "certificates"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    def log(self, component: str) -> Path:
        return self.path / "logs" / f"{component}.log"

    def write(self, description: Description) -> None:
        """Replace `instance.json` in one step, so that a reader never sees half of it."""
        fresh = self.path / "instance.json.tmp"
        fresh.write_text(json.dumps(asdict(description), indent=2))
        fresh.rename(self.path / "instance.json")

    def read(self) -> Description | None:
        """The description, or None where there is none yet (or no longer)."""
        try:
            said = json.loads((self.path / "instance.json").read_text())
        except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
            return None
        said["ports"] = Ports(**said["ports"])
        return Description(**said)


def root() -> Path:
    """The folder that holds one folder an instance."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "dra-operator" / "devcluster"


def folder(name: str) -> Folder:
    """Raises `InstanceError` for a name that is no DNS label of at most 40 characters."""
    if not _NAME.fullmatch(name):
        raise InstanceError(f"{name!r} is no instance name: use up to 40 of a-z, 0-9 and -, not - at the ends")
    return Folder(root() / name)


def all_folders() -> list[Folder]:
    """Every instance there is, alive or left over, by name."""
    if not root().is_dir():
        return []
    return [Folder(path) for path in sorted(root().iterdir()) if path.is_dir() and _NAME.fullmatch(path.name)]


def is_alive(instance: Folder) -> bool:
    """Whether a supervisor runs this instance now."""
    try:
        with open(instance.lock, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def acquire(instance: Folder) -> IO[bytes]:
    """Make the folder, empty, and take its lock; what a killed run has left there is cleaned first.

    The lock goes with the open file: hand it to the supervisor. Raises `InstanceError` where it is alive.
    """
    while True:
        instance.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open(instance.lock, "ab")  # noqa: SIM115 - it is handed out open
        if not _lock_soon(lock):
            lock.close()
            raise InstanceError(
                f"instance {instance.name} runs already: `python -m devcluster down --name {instance.name}` ends it, "
                "another --name starts a second one"
            )
        # Between open and flock the folder may have been removed by its last owner: then the lock is on nothing.
        if _same_file(lock, instance.lock):
            break
        lock.close()
    clean(instance, keep={instance.lock.name})
    return lock


def clean(instance: Folder, *, keep: frozenset[str] | set[str] = frozenset()) -> None:
    """End what is left of an instance's processes and remove its files. Only for the holder of its lock."""
    _end_processes(instance)
    if keep:
        for entry in list(instance.path.iterdir()):
            if entry.name in keep:
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    else:
        shutil.rmtree(instance.path, ignore_errors=True)


def record_processes(instance: Folder, pids: dict[str, int]) -> None:
    """Note who runs, with the start time that tells a process from a later one with the same pid."""
    fresh = instance.path / "processes.json.tmp"
    fresh.write_text(json.dumps({name: [pid, start_time(pid)] for name, pid in pids.items()}))
    fresh.rename(instance.processes)


def recorded_processes(instance: Folder) -> dict[str, int]:
    """Component → pid of those recorded that still run (and are the same processes)."""
    try:
        said: dict[str, tuple[int, str | None]] = json.loads(instance.processes.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return {name: pid for name, (pid, start) in said.items() if start is not None and start_time(pid) == start}


def start_time(pid: int) -> str | None:
    """The kernel's start time of a process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        # The command name in parentheses may hold anything, spaces and parentheses included.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


@contextmanager
def free_ports() -> Iterator[Ports]:
    """Five ports that nobody listens on and no other instance has been given.

    Held against other starts of this user until the block ends: write the description inside it.
    """
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / ".ports.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = [said for other in all_folders() if (said := other.read()) is not None]
        given = {port for said in known for port in asdict(said.ports).values()}
        candidates = random.SystemRandom().sample(range(*PORT_RANGE), 1000)
        free = (port for port in candidates if port not in given and _is_free(port))
        yield Ports(*(next(free) for _ in range(5)))


def _lock_soon(lock: IO[bytes]) -> bool:
    """Take a lock that at most a passing `is_alive` holds; a supervisor would hold it for good."""
    for _ in range(10):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the Go programs do it: a port in TIME_WAIT can be listened on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _end_processes(instance: Folder) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [pid for name, pid in recorded_processes(instance).items() if name != SUPERVISOR]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)


def _same_file(opened: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except FileNotFoundError:
        return False
