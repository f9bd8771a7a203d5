"""Start, use and stop one real control plane: the API that tests, benchmarks and the command line share.

The order of a start and what counts as ready are decided here; the processes themselves are held by `supervisor`.
"""

import contextlib
import http.client
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from devcluster import binaries, components, control, instance, nodes
from devcluster.client import ApiError, Client
from devcluster.instance import Description, Folder, InstanceError

_START_SECONDS: Final = 120.0  # a loaded machine; usually under 5 s
_STOP_SECONDS: Final = 10.0
_KILLS: Final = 3
_POLL_SECONDS: Final = 0.02
_LOG_LINES: Final = 15
_counter = itertools.count(1)


class StartError(Exception):
    """A component ended or did not become ready; the text has its name and the end of its log."""


class KubectlError(Exception):
    """kubectl gave an exit code other than 0; the text is what it wrote to stderr."""


class ControlPlane:
    """One instance. Make it with `start` or `attach`; as a context manager it stops at the end of the block."""

    def __init__(self, folder: Folder, description: Description, owned: "subprocess.Popen[bytes] | None") -> None:
        self._folder = folder
        self._description = description
        self._owned = owned
        self.name = folder.name
        self.kubeconfig: Path = folder.kubeconfig
        self.server = components.server(description)
        self._client: Client | None = None

    @classmethod
    def start(
        cls,
        name: str | None = None,
        *,
        scheduler: bool = True,
        kubelet: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        extra_args: Mapping[str, Sequence[str]] | None = None,
        detach: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> Self:
        """Start an instance and wait until it is ready for work.

        It ends with this process, in whatever way this process ends, unless `detach` is set. `extra_args` are more
        arguments by component (`kube-apiserver`, …). Without a name it gets one of its own.

        Raises `BuildError` (no programs), `InstanceError` (runs already, bad name), `StartError`. Whatever it
        raises, Ctrl-C included, nothing of the instance is left.
        """
        programs = binaries.ensure(report)
        folder = instance.folder(name or f"p{os.getpid()}-{next(_counter)}")
        lock = instance.acquire(folder)
        try:
            with instance.free_ports() as ports:
                description = Description(
                    name=folder.name,
                    version=binaries.kubernetes_version(),
                    binaries=str(programs),
                    ports=ports,
                    scheduler=scheduler,
                    kubelet=kubelet,
                    feature_gates=dict(feature_gates or {}),
                    extra_args={component: list(args) for component, args in (extra_args or {}).items()},
                )
                folder.write(description)
            owned = _start_supervisor(folder, lock.fileno())
        except BaseException:
            instance.clean(folder)
            raise
        finally:
            lock.close()
        plane = cls(folder, description, owned)
        try:
            plane._start_components()
            served: str = plane.client.get("/version")["gitVersion"]
            plane._description = replace(description, version=served, ready=True)
            folder.write(plane._description)
            if detach:
                control.ask(folder, {"op": "detach"})
                plane._let_go()
        except BaseException:
            plane.stop()
            raise
        return plane

    @classmethod
    def attach(cls, name: str) -> Self:
        """Use an instance that another process started. Raises `InstanceError` where it is not up."""
        folder = instance.folder(name)
        description = folder.read() if instance.is_alive(folder) else None
        if description is None or not description.ready:
            raise InstanceError(
                f"instance {name} is not up: `python -m devcluster status` lists those that are, "
                f"`python -m devcluster up --name {name}` starts it"
            )
        return cls(folder, description, None)

    @classmethod
    def for_stopping(cls, name: str) -> Self:
        """An instance of which only `stop` is wanted: it may still be starting, or degraded."""
        folder = instance.folder(name)
        described = folder.read() or Description(name, "", "", instance.Ports(0, 0, 0, 0, 0))
        return cls(folder, described, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def client(self) -> Client:
        """An administrator's access to the API."""
        if self._client is None:
            self._client = Client.from_kubeconfig(self.kubeconfig)
        return self._client

    def stop(self) -> None:
        """End all processes and remove the folder; returns when they are gone. Does nothing the second time."""
        if self._owned is not None:
            assert self._owned.stdin is not None
            self._owned.stdin.close()
            _end(self._owned)
            self._owned = None
        else:
            with contextlib.suppress(InstanceError):
                control.ask(self._folder, {"op": "shutdown"}, timeout=_STOP_SECONDS)
        _wait_until_free(self._folder)

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 120.0) -> str:
        """Run kubectl as administrator and give what it wrote to stdout. Raises `KubectlError`."""
        done = subprocess.run(
            self._kubectl_command(args),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(args)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    @property
    def kubectl_program(self) -> str:
        """For callers that need more of kubectl than its answers, such as its plugins."""
        return str(Path(self._description.binaries) / "kubectl")

    def exec_kubectl(self, args: Sequence[str]) -> NoReturn:
        """Become kubectl."""
        command = self._kubectl_command([arg for position, arg in enumerate(args) if (position, arg) != (0, "--")])
        os.execv(command[0], command)

    def _kubectl_command(self, args: Sequence[str]) -> list[str]:
        # kubectl remembers for ten minutes what a host and port serve, and ports come back with other instances.
        cache = self._folder.path / "kubectl-cache"
        return [self.kubectl_program, f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}", *args]

    def log(self, component: str) -> str:
        """What a component (`kube-scheduler`, `kubelet`, …) has written so far."""
        try:
            return self._folder.log(component).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def pids(self) -> dict[str, int]:
        """Component → process id of those that run."""
        asked = control.ask(self._folder, {"op": "status"})
        return {component: pid for component, (pid, code) in asked.items() if code is None}

    def restart_apiserver(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the API server and start it again on its port; returns when it is ready."""
        self.stop_apiserver(number)
        self.start_apiserver()

    def stop_apiserver(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the API server; by default as a crash would."""
        self._stop(components.APISERVER, number)

    def start_apiserver(self) -> None:
        """Start the API server again on its port; returns when it is ready."""
        self._run(components.APISERVER)
        self._wait(components.APISERVER, self._apiserver_ready)

    def stop_scheduler(self) -> None:
        """End kube-scheduler: pods stay unbound until it is started again."""
        self._stop(components.SCHEDULER)

    def start_scheduler(self) -> None:
        """Start kube-scheduler (again); returns when its caches are filled."""
        self._run(components.SCHEDULER)
        self._wait(components.SCHEDULER, self._scheduler_ready)

    def stop_kubelet(self) -> None:
        """End the simulated kubelet: pods neither run, finish, nor go away until it is started again."""
        self._stop(components.KUBELET)

    def start_kubelet(self) -> None:
        """Start the simulated kubelet (again); it picks up what has happened meanwhile."""
        self._run(components.KUBELET)

    def add_nodes(self, mix: str, *, count: int | None = None, prefix: str | None = None) -> list[str]:
        """Add simulated nodes and their ResourceSlices, and give the names; `mix` as `p4d` or `p4d:2,l4:3`.

        Returns when the nodes are Ready and untainted. Raises `ProfileError`.
        """
        return nodes.add(self.client, mix, count=count, prefix=prefix)

    def remove_nodes(self, names: Sequence[str]) -> None:
        """Remove nodes and their slices."""
        nodes.remove(self.client, names)

    def _start_components(self) -> None:
        components.write_tokens(self._folder)
        self._run(components.ETCD)
        self._wait(components.ETCD, self._etcd_ready)
        self._run(components.APISERVER)
        self._wait(components.APISERVER, lambda: components.has_certificate(self._folder))
        components.write_configuration(self._folder, self._description)
        self._wait(components.APISERVER, self._apiserver_ready)
        self._run(components.CONTROLLER_MANAGER)
        if self._description.scheduler:
            self._run(components.SCHEDULER)
        if self._description.kubelet:
            self._run(components.KUBELET)
        self._wait(components.CONTROLLER_MANAGER, self._controller_manager_ready)
        if self._description.scheduler:
            self._wait(components.SCHEDULER, self._scheduler_ready)

    def _run(self, component: str) -> None:
        argv = components.command(component, self._folder, self._description)
        code = str(Path(__file__).resolve().parent.parent)
        paths = [code, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(paths)}
        control.ask(self._folder, {"op": "start", "component": component, "argv": argv, "env": env})

    def _stop(self, component: str, number: signal.Signals = signal.SIGKILL) -> None:
        request = {"op": "stop", "component": component, "signal": number.name, "patience": 30}
        control.ask(self._folder, request)

    def _wait(self, component: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            code = control.ask(self._folder, {"op": "status"}).get(component, (0, None))[1]
            if code is not None:
                raise StartError(f"{component} ended with exit code {code}; {self._log_end(component)}")
            if time.monotonic() > deadline:
                raise StartError(f"{component} is not ready after {_START_SECONDS:.0f} s; {self._log_end(component)}")
            time.sleep(_POLL_SECONDS)

    def _log_end(self, component: str) -> str:
        lines = self.log(component).splitlines()[-_LOG_LINES:]
        return "\n".join(["its log ends with", *(f"    {line}" for line in lines)])

    def _etcd_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._description.ports.etcd, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def _apiserver_ready(self) -> bool:
        return _answers(self.client, "/readyz")

    def _controller_manager_ready(self) -> bool:
        return _answers(self.client, "/api/v1/namespaces/default/serviceaccounts/default")

    def _scheduler_ready(self) -> bool:
        authority = components.certificate(self._folder).read_bytes()
        return _answers(Client(f"https://127.0.0.1:{self._description.ports.scheduler}", "", authority), "/readyz")

    def _let_go(self) -> None:
        """Stop being the owner: the supervisor no longer watches this process."""
        if self._owned is not None and self._owned.stdin is not None:
            self._owned.stdin.close()
            self._owned.returncode = 0  # it goes on: nothing to wait for, nothing to warn of
        self._owned = None


def remove_leftovers(name: str) -> bool:
    """Clean what a killed run has left of an instance; gives whether there was anything."""
    folder = instance.folder(name)
    if not folder.path.exists():
        return False
    lock = instance.acquire(folder)
    instance.clean(folder)
    lock.close()
    return True


def _start_supervisor(folder: Folder, lock: int) -> "subprocess.Popen[bytes]":
    """The supervisor, listening; it inherits the lock and lives until our end of its standard input closes."""
    code = str(Path(__file__).resolve().parent.parent)
    folder.log("supervisor").parent.mkdir()
    with open(folder.log("supervisor"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "devcluster.supervisor", str(folder.path)],
            env=dict(os.environ) | {"PYTHONPATH": code},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C is for its owner, who then ends it in order
        )
    assert process.stdout is not None
    with process.stdout as said:
        if said.readline() != b"listening\n":
            process.kill()
            process.wait()
            raise StartError(f"the supervisor did not start:\n{folder.log('supervisor').read_text()}")
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_free(folder: Folder) -> None:
    """Raises InstanceError where not even killing helps."""
    deadline, killed = time.monotonic() + _STOP_SECONDS, 0
    while instance.is_alive(folder):
        if time.monotonic() > deadline:  # it hangs (stopped by a debugger, say): its death takes the rest along
            supervisor = instance.recorded_processes(folder).get(instance.SUPERVISOR)
            if killed >= _KILLS:
                raise InstanceError(f"instance {folder.name} does not end; its supervisor is process {supervisor}")
            if supervisor is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor, signal.SIGKILL)
            killed += 1
            deadline += _STOP_SECONDS
        time.sleep(_POLL_SECONDS)
    remove_leftovers(folder.name)


def _answers(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except (ApiError, OSError):
        return False
    return True
