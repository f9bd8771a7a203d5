"""A whole embedded cluster from its parts."""

from __future__ import annotations

from dra_operator.cluster.memory.actors.actor import Actor
from dra_operator.cluster.memory.actors.bridge import Bridge
from dra_operator.cluster.memory.actors.claims import ClaimController
from dra_operator.cluster.memory.actors.daemon_sets import DaemonSetController
from dra_operator.cluster.memory.actors.disruption import DisruptionController
from dra_operator.cluster.memory.actors.garbage import GarbageCollector
from dra_operator.cluster.memory.actors.jobs import JobController
from dra_operator.cluster.memory.actors.kubelets import Kubelets
from dra_operator.cluster.memory.actors.nodes import DeviceTaintEviction, NamespaceController, NodeLifecycle
from dra_operator.cluster.memory.actors.replicas import DeploymentController, ReplicaSetController
from dra_operator.cluster.memory.actors.scheduler import FirstFit, Scheduler
from dra_operator.cluster.memory.actors.stateful_sets import StatefulSetController
from dra_operator.cluster.memory.admission import Policies
from dra_operator.cluster.memory.first_fit import InTreeAllocator
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.memory.world import EPOCH, Clock, World


def standard_actors(first_fit: FirstFit | None = None) -> list[Actor]:
    """Everybody whom a cluster with simulated nodes has, in the order they act on one instant."""
    return [
        GarbageCollector(),
        NamespaceController(),
        NodeLifecycle(),
        Bridge(),
        DeviceTaintEviction(),
        DeploymentController(),
        ReplicaSetController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        ClaimController(),
        DisruptionController(),
        Scheduler(first_fit),
        Kubelets(),
    ]


def embedded_cluster(
    *,
    seed: int = 0,
    policies: Policies | None = None,
    first_fit: FirstFit | None = None,
    allocates: bool = True,
    start: float = EPOCH,
) -> World:
    """A world with an empty cluster in it, standing at `start` (seconds since the epoch).

    The scheduler allocates unmanaged claims with `first_fit` (default: as the in-tree allocator). With `allocates` False it
    never does: pods with unmanaged, unallocated claims stay pending.
    """
    clock = Clock(start)
    server = MemoryServer(clock, seed=seed, policies=policies)
    return World(server, standard_actors((first_fit or InTreeAllocator()) if allocates else None), clock)
