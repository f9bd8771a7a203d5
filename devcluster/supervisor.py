"""Hold the processes of one instance, so that none ever outlives its owner.

`python -m devcluster.supervisor FOLDER` starts nothing by itself. It does what it is told over `control.sock` (one
JSON object a connection: start, stop, status, detach, shutdown) and knows nothing of Kubernetes. It ends, takes
every process with it and removes the folder

- when its standard input closes, that is when the process that started it ends in whatever way (a test run that is
  killed, Ctrl-C in the middle of a start), unless that process said `detach`;
- on SIGTERM, SIGINT, or `shutdown`.

Should the supervisor itself be killed, the kernel kills its children (PR_SET_PDEATHSIG). It has one thread, because
that signal is sent when the *thread* that forked ends.
"""

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from devcluster import control, instance

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """The processes of one instance by component name; a component runs at most once."""

    def __init__(self, folder: instance.Folder) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.attached = True
        self.ending = False

    def run(self) -> None:
        """Serve until there is a reason to end, then leave nothing behind."""
        awake, alarm = os.pipe()
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with control.listen(self.folder.control_socket) as server, selectors.DefaultSelector() as selector:
                selector.register(server, selectors.EVENT_READ, self._serve)
                selector.register(awake, selectors.EVENT_READ, self._on_wake)
                selector.register(0, selectors.EVENT_READ, self._on_owner)
                self._record()
                print("listening", flush=True)
                while not self.ending:
                    for key, _ in selector.select():
                        act: Callable[[Any], None] = key.data
                        act(key.fileobj)
                    if not self.attached and 0 in selector.get_map():
                        selector.unregister(0)
        finally:
            self._end_all()
            instance.clean(self.folder)

    def _on_signal(self, *_: object) -> None:
        self.ending = True

    def _on_wake(self, fd: int) -> None:
        os.read(fd, 4096)
        for process in self.processes.values():
            process.poll()  # reaps

    def _on_owner(self, fd: int) -> None:
        if self.attached and not os.read(fd, 4096):
            self.ending = True

    def _serve(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            try:
                request = json.loads(connection.makefile("rb").readline())
                answer = self._answer(request)
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return  # the asker has gone

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "start":
                self._start(request["component"], request["argv"], request["env"])
            case "stop":
                self._stop(request["component"], signal.Signals[request["signal"]], float(request["patience"]))
            case "detach":
                self.attached = False
            case "shutdown":
                self.ending = True
            case "status":
                pass
            case other:
                return {"error": f"unknown op {other!r}"}
        return {"components": {name: [process.pid, process.poll()] for name, process in self.processes.items()}}

    def _start(self, component: str, argv: list[str], env: dict[str, str]) -> None:
        known = self.processes.get(component)
        if known is not None and known.poll() is None:
            raise ValueError(f"{component} runs already (pid {known.pid})")
        log = self.folder.log(component)
        log.parent.mkdir(exist_ok=True)
        parent = os.getpid()
        with open(log, "ab") as output:
            self.processes[component] = subprocess.Popen(
                argv,
                cwd=self.folder.path,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=lambda: _die_with(parent),
            )
        self._record()

    def _stop(self, component: str, number: signal.Signals, patience: float) -> None:
        process = self.processes.pop(component, None)
        if process is None:
            return
        _signal_group(process, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            _signal_group(process, signal.SIGKILL)
            process.wait()
        self._record()

    def _record(self) -> None:
        running = {name: process.pid for name, process in self.processes.items() if process.poll() is None}
        instance.record_processes(self.folder, {instance.SUPERVISOR: os.getpid(), **running})

    def _end_all(self) -> None:
        # All state goes with the folder, so there is nothing to end gracefully; an API server with open watches
        # would take a minute over it.
        for process in self.processes.values():
            _signal_group(process, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()


def _die_with(parent: int) -> None:
    """In the child: be killed when the parent ends, and see to it that it has not ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def main() -> None:
    """Entry point; the lock of the folder is inherited, and kept by being open."""
    Supervisor(instance.Folder(Path(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
