"""When all that lived in a cluster is gone, the engine holds no more than one that never saw it: nothing leaks.

Looks at every container below the engine, whoever added it; only what is bounded by itself is left out, with the reason.
"""

from __future__ import annotations

import pytest

from bench.churn.containers import entries, lasting
from dra_operator.cluster.memory.faults import Faults, SeededFaults
from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.rest import (
    DAEMON_SETS,
    DEPLOYMENTS,
    ENGINE_KINDS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    Request,
    Resource,
)
from dra_operator.engine.engine import Engine
from tests.simulation.story import Story

LIVING = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, REPLICA_SETS, PODS, RESOURCE_CLAIMS)


@pytest.mark.parametrize(("seed", "faults"), [(0, None), (1, None), (2, SeededFaults(2)), (3, SeededFaults(3))])
def test_the_engine_is_as_empty_as_a_new_one(seed: int, faults: Faults | None) -> None:
    story = Story(seed, faults).play(40).calm()
    for resource in LIVING:
        remove_all(story, resource)
    pass_time(story, 4000.0)
    assert isinstance(story.runner.engine, Engine)
    assert more(story, story.runner.engine) == {}


def test_nodes_that_go_leave_nothing() -> None:
    story = Story(4).play(30).calm()
    for resource in (*LIVING, RESOURCE_SLICES, NODES):
        remove_all(story, resource)
    pass_time(story, 4000.0)
    assert isinstance(story.runner.engine, Engine)
    assert more(story, story.runner.engine) == {}


def test_what_remains_is_found() -> None:
    story = Story(0).play(5).calm()
    assert isinstance(story.runner.engine, Engine)
    held = entries(story.runner.engine)
    assert held["engine._state.view.claims"] == len(list(story.world.server.store.listed(RESOURCE_CLAIMS)))


def remove_all(story: Story, resource: Resource) -> None:
    for item in list(story.world.server.store.listed(resource)):
        metadata = item["metadata"]
        request = Request("DELETE", resource.path(metadata.get("namespace", ""), metadata["name"]))
        story.world.server.handle(request, ADMIN)
    story.world.run_until(story.world.now + 60)


def pass_time(story: Story, seconds: float) -> None:
    """Every age and grace time runs out; the operator's loop reads the journal meanwhile."""
    story.world.run_until(story.world.now + seconds)
    engine = story.runner.engine
    assert isinstance(engine, Engine)
    engine.decide(story.world.now)
    engine.journal()


def more(story: Story, engine: Engine) -> dict[str, tuple[int, int]]:
    """Where it holds more than a new engine that lists the same cluster, bounded memories left out."""
    fresh = Engine()
    for resource in ENGINE_KINDS:
        for item in story.world.server.store.listed(resource):
            fresh.observe(resource.kind, "ADDED", item, story.world.now)
        fresh.synced(resource.kind)
    fresh.decide(story.world.now)
    held, usual = lasting(entries(engine)), lasting(entries(fresh))
    return {path: (count, usual[path]) for path, count in held.items() if count > usual[path]}
