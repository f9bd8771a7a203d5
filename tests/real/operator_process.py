"""`dra-operator run` as a process of its own, under its own service account, against a real control plane."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from devcluster import ControlPlane, eventually

ROOT = Path(__file__).parents[2]
PROBES = re.compile(rb'"probes":(\d+)')


class OperatorProcess:
    """One replica. `start` again after `kill` or `stop`; the log goes on in the same file."""

    def __init__(
        self, kubeconfig: Path, log: Path, arguments: tuple[str, ...] = (), module: str = "dra_operator.cli"
    ) -> None:
        """`module` is run; it takes the arguments of `dra-operator`."""
        self.kubeconfig = kubeconfig
        self.log = log
        self.arguments = arguments
        self.module = module
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True) -> None:
        """Return once it has listed everything (`ready` False: at once)."""
        command = [
            sys.executable,
            "-m",
            self.module,
            "run",
            "--kubeconfig",
            str(self.kubeconfig),
            "--probe-port",
            "0",
        ]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*command, *self.arguments],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        if ready:
            eventually(lambda: self._learn_port(before), what="the operator has started")
            eventually(lambda: self.get("/readyz")[0] == 200, what="the operator is ready")

    def _learn_port(self, before: int) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the operator ended with {self._process.returncode}:\n{self.tail()}"
        found = PROBES.search(self.log.read_bytes()[before:])
        self.port = int(found[1]) if found else 0
        return self.port > 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no time for anything."""
        if self.running:
            assert self._process is not None
            self._process.kill()
            self._process.wait()

    def stop(self, timeout: float = 60.0) -> int:
        """SIGTERM. Its exit code."""
        assert self._process is not None
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the operator did not stop within {timeout} s:\n{self.tail()}") from None

    def restart(self) -> None:
        self.stop()
        self.start()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a probe; status 0 where nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of `dra_operator_NAME` that have these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith((f"dra_operator_{name}{{", f"dra_operator_{name} ")):
                text, value = line.rsplit(" ", 1)
                if all(f'{key}="{wanted}"' in text for key, wanted in labels.items()):
                    total += float(value)
        return total

    @property
    def leads(self) -> bool:
        return self.metric("leader") == 1

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.text().splitlines()[-lines:])


def own_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """A kubeconfig of the operator's service account, with a token of an hour."""
    token = plane.kubectl("create", "token", "dra-operator", "--namespace", "dra-operator", "--duration", "1h").strip()
    config = json.loads(plane.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = folder / f"operator-{time.monotonic_ns()}.kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path
