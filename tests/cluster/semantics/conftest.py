"""Both worlds for every behaviour: `place` is a fresh namespace, first of the embedded cluster, then of a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import ControlPlane
from tests.cluster.semantics.worlds import ClusterWorld, Place, RealWorld, install, memory_world


@pytest.fixture(scope="session")
def real_world() -> Iterator[RealWorld]:
    """A control plane of its own: the policies gate every pod with claims, and no operator runs here."""
    with ControlPlane.start() as plane:
        yield install(plane)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> ClusterWorld:
    if request.param == "memory":
        return memory_world()
    found: RealWorld = request.getfixturevalue("real_world")
    return found


@pytest.fixture
def place(world: ClusterWorld) -> Place:
    return Place(world)


@pytest.fixture
def exempt(world: ClusterWorld) -> Place:
    return Place(world, exempt=True)
