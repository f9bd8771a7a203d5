"""One tree with every number of the operator. A docstring under each field: unit, default, reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dra_operator.cluster.kubernetes.settings import ClientSettings, WatchSettings
from dra_operator.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The allocation loop and its writes."""

    settle_events: float = 0.01
    """Seconds from the end of one decision to the next, under load. Default 0.01: a pod and its claim arrive as several
    events within a few milliseconds; deciding between them is work for nothing. Idle, it decides at once."""

    settle_backlog: float = 0.05
    """The same while writes wait for their turn: what is decided joins them at the end, so deciding sooner gets nothing
    written sooner. Default 0.05: the writes in flight keep the API server busy for longer than that, so it never waits
    for a decision; and a burst takes a tenth of the passes."""

    turn: float = 0.03
    """Seconds in which events are taken in before others get a turn on the event loop. Default 0.03: answers and probes come through
    also while the objects of a large cluster are read on a busy machine."""

    backlog: int = 500
    """Objects that may wait to be taken in before the next page of a list is asked for. Default 500, one page: as they
    are decoded, 20,000 pods take as much memory as all that is kept of a cluster of 5,000 nodes."""

    heartbeat: float = 1.0
    """Seconds after which the loop turns without a reason. Default 1: what the health probe measures."""

    writes: int = 32
    """Claim, pod and eviction writes in flight at once. Default 32: the API server answers a status write in some
    5 ms, so that 32 keep it busy; more only lengthen its queue."""

    background_writes: int = 4
    """Reports and Events in flight at once, and only while nothing more urgent waits. Default 4: they must not slow
    allocation down."""

    background_patience: float = 5.0
    """Seconds after which a report or Event goes out although something urgent waits. Default 5: a long burst must not
    leave people without any report."""

    ahead: int = 256
    """Urgent writes that may wait before nothing more is placed. Default 256, some seconds of work: what is decided late is
    decided on fresh state. Pods that have their devices are let go all the same."""

    stop_grace: float = 10.0
    """Seconds that writes in flight get to finish on a graceful stop. Default 10, of the pod's 30."""

    crash_pause: float = 1.0
    """Seconds before a crashed engine is replaced, doubled with every crash in a row. Default 1."""

    longest_crash_pause: float = 60.0
    """Seconds the doubling ends at. Default 60: a poisonous object may be repaired any minute."""


@dataclass(frozen=True, slots=True)
class LeadershipSettings:
    """The Lease, with client-go's meaning of the three durations."""

    enabled: bool = True
    """False: this process writes without asking. Only for a single replica outside a cluster."""

    lease_name: str = "dra-operator"
    """Name of the Lease. Default `dra-operator`, which the manifests grant."""

    namespace: str = "dra-operator"
    """Namespace of the Lease. Default: the operator's own."""

    lease_duration: float = 15.0
    """Seconds after the last renewal seen before a follower takes over. Default 15, as kube-scheduler."""

    renew_deadline: float = 10.0
    """Seconds after our last successful renewal before we stop writing. Default 10: the 5 seconds to the lease duration
    cover a request that is already on its way."""

    retry_period: float = 2.0
    """Seconds between attempts to get or keep the Lease, up to 20 % more. Default 2."""

    longest_stall: float = 60.0
    """Seconds without a turn of the allocation loop after which the Lease is not renewed any more. Default 60: above any decision a
    large cluster needs; a replica whose loop has got stuck must not keep the others from taking over."""


@dataclass(frozen=True, slots=True)
class KopfSettings:
    """Kopf, which watches claims, templates, classes and our own kinds."""

    worker_idle: float = 0.5
    """Seconds after which Kopf's task for an object ends. Default 0.5 (Kopf: 5): a burst of 10,000 claims would keep
    10,000 idle tasks for five seconds. The number of workers is not limited: Kopf's watcher would stand still until
    idle ones time out."""

    inactivity: float = 90.0
    """Seconds of silence after which Kopf watches again. Default 90, as for our own watches."""

    restart_pause: float = 1.0
    """Seconds before Kopf is started again after it ended (HTTP 410, an error inside a watch, a 401), doubled each time
    in a row. Default 1."""

    longest_restart_pause: float = 15.0
    """Seconds the doubling ends at. Default 15."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """HTTP on which kubelet and Prometheus ask."""

    port: int = 8080
    """TCP port of `/healthz`, `/readyz` and `/metrics`; 0 picks a free one. Default 8080."""

    stale: float = 30.0
    """Seconds without a turn of the loop after which `/healthz` fails. Default 30: above any decision a large cluster
    needs, below what a person would notice later than kubelet."""


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Kubernetes Events."""

    repeat: float = 300.0
    """Seconds in which the same Event about the same object is not written again. Default 300."""

    rate: float = 20.0
    """Events a second on average; the rest is dropped and counted. Default 20: they are for people, and etcd pays."""

    burst: int = 200
    """Events that may be written at once after a quiet time. Default 200."""


@dataclass(frozen=True, slots=True)
class Settings:
    mode: Literal["allocate", "observe"] = "allocate"
    """`observe` writes nothing but reports and metrics."""

    bridge: bool = False
    """Publish ResourceSlices for labelled nodes that have a device plugin and no driver. Default off: it takes rights
    that the operator does not have otherwise (`manifests/bridge`)."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    leadership: LeadershipSettings = field(default_factory=LeadershipSettings)
    kopf: KopfSettings = field(default_factory=KopfSettings)
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    events: EventSettings = field(default_factory=EventSettings)
