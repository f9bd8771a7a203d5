"""pytest fixtures on a real control plane: one a session, a fresh namespace and fresh nodes a test.

Load it with `pytest_plugins = ["devcluster.pytest_plugin"]` in the top conftest. Nothing starts before the first
test asks for it; nothing skips: without the programs and without Go the tests fail and say what to install. The
control plane ends with the test run, also when that is killed.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from devcluster import binaries
from devcluster.binaries import BuildError
from devcluster.client import ApiError, Client
from devcluster.control_plane import ControlPlane, StartError
from devcluster.waiting import eventually

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
_PODS = "/api/v1/namespaces/{}/pods"


class Nodes(Protocol):
    """Adds simulated nodes that go away after the test; `mix` as in `p4d` or `p4d:2,l4:3`."""

    def __call__(self, mix: str, count: int | None = None) -> list[str]:
        """Give the names of the new nodes, which are Ready."""
        ...


class Kubectl(Protocol):
    """Runs kubectl as administrator in the namespace of the test."""

    def __call__(self, *args: str, input: str | None = None) -> str:
        """Give its stdout. Raises `KubectlError`."""
        ...


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test where one will need it: a build takes longer than a test may."""
    wanted = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    with contextlib.suppress(BuildError):  # the tests that need it will say so
        binaries.ensure(_reporter(session.config))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane of this test session, with scheduler and simulated kubelet and without nodes."""
    try:
        plane = ControlPlane.start(report=_reporter(request.config))
    except (BuildError, StartError) as error:
        pytest.fail(str(error), pytrace=False)
    with plane:
        yield plane


@pytest.fixture
def nodes(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """Make nodes for this test only; they are removed after it, with their slices."""
    added: list[str] = []
    prefix = _label(request.node.name)

    def add(mix: str, count: int | None = None) -> list[str]:
        names = control_plane.add_nodes(mix, count=count, prefix=prefix)
        added.extend(names)
        return names

    yield add
    control_plane.remove_nodes(added)


@pytest.fixture
def namespace(control_plane: ControlPlane, nodes: Nodes, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace with its service account. After the test nothing in it uses a device any more.

    It depends on `nodes` so that it goes first: its pods end before their nodes do.
    """
    client = control_plane.client
    wanted = {"metadata": {"generateName": f"{_label(request.node.name)}-"}}
    name: str = client.post("/api/v1/namespaces", wanted)["metadata"]["name"]
    eventually(lambda: client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    empty_namespace(client, name)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """kubectl in the namespace of the test."""

    def run(*args: str, input: str | None = None) -> str:
        return control_plane.kubectl("--namespace", namespace, *args, input=input)

    return run


def empty_namespace(client: Client, name: str, timeout: float = 120.0) -> None:
    """Delete a namespace and wait until its pods and claims are gone (the rest goes in its own time)."""
    client.delete(f"/api/v1/namespaces/{name}")  # from now on controllers cannot make new pods in it

    def empty() -> bool:
        left = 0
        for path in (_PODS.format(name), _CLAIMS.format(name)):
            found = client.get(path)["items"]
            left += len(found)
            if found:
                client.delete(path, {"gracePeriodSeconds": 0})
        return left == 0

    eventually(_tolerant(empty), timeout, every=0.1, what=f"namespace {name} is empty")


def _reporter(config: pytest.Config) -> Callable[[str], None]:
    terminal = config.pluginmanager.get_plugin("terminalreporter")

    def report(line: str) -> None:
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"devcluster: {line}")

    return report


def _tolerant(check: Callable[[], bool]) -> Callable[[], bool]:
    """A deletion may meet one that is under way."""

    def checked() -> bool:
        try:
            return check()
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False

    return checked


def _label(test: str) -> str:
    """A DNS label from the name of a test, short enough for a prefix."""
    return re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:30].rstrip("-") or "test"
