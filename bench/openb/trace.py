"""The openb trace (Alibaba 2023, Weng et al., USENIX ATC 2023): its files, its arrivals, and other mixes of its pods."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

#: A whole GPU, in the trace's unit.
WHOLE = 1000


class TraceNode(NamedTuple):
    """`cpu` in milli, `memory` in MiB."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """Asks for `gpus` devices, `milli` of each; of one of `models`, if there are any."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def demand(self) -> int:
        """GPU asked for in all, in milli."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Mix:
    """`kind` of pods gets this `share` of the GPU demand (of the CPU-only pods: so many times as many)."""

    kind: str
    share: float


#: Drawn from a number: each kind of pod, and single, shared, several and no GPUs, as often as in the trace, times a random factor.
RANDOM = "random:"

#: By name. The trace itself has about 13 % of its demand in multi-GPU pods and 35 % in shares.
MIXES: dict[str, Mix | None] = {
    "trace": None,
    "multi-20": Mix("multi", 0.2),
    "multi-35": Mix("multi", 0.35),
    "multi-50": Mix("multi", 0.5),
    "multi-80": Mix("multi", 0.8),
    "share-50": Mix("share", 0.5),
    "share-70": Mix("share", 0.7),
    "share-90": Mix("share", 0.9),
    "no-cpu-only": Mix("cpu", 0.0),
    "cpu-only-x2": Mix("cpu", 2.0),
    "cpu-only-x3": Mix("cpu", 3.0),
}


def read_nodes(path: Path) -> list[TraceNode]:
    with path.open(newline="") as file:
        return [
            TraceNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[TracePod]:
    with path.open(newline="") as file:
        return [
            TracePod(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                tuple(sorted(set(filter(None, row["gpu_spec"].split("|"))))),
            )
            for row in csv.DictReader(file)
        ]


def kind_of(pod: TracePod) -> str:
    if not pod.demand:
        return "cpu"
    if pod.gpus > 1:
        return "multi"
    return "share" if pod.milli < WHOLE else "one"


def mixed(pods: Sequence[TracePod], mix: Mix | None) -> list[TracePod]:
    """The pods resampled so that one kind has its share, the other kinds as much as they have relative to each other."""
    if mix is None:
        return list(pods)
    random = Random(0)
    kinds: dict[str, list[TracePod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    alone = kinds.pop("cpu", [])
    if mix.kind == "cpu":
        times = round(mix.share * len(alone))
        return [pod for pod in pods if pod.demand] + [random.choice(alone) for _ in range(times)]
    demand = {kind: sum(pod.demand for pod in members) for kind, members in kinds.items()}
    total = sum(demand.values())
    found = list(alone)
    for kind, members in sorted(kinds.items()):
        others = 1 - demand[mix.kind] / total
        share = mix.share if kind == mix.kind else (1 - mix.share) * demand[kind] / total / others
        wanted = share * total
        while wanted > 0:
            pod = random.choice(members)
            found.append(pod)
            wanted -= pod.demand
    return found


def drawn(pods: Sequence[TracePod], seed: str) -> list[TracePod]:
    """As many pods, of the same kinds, in other proportions."""
    random = Random(f"mix {seed}")
    counts = Counter(pods)
    groups = {group: random.expovariate(1) for group in ("cpu", "multi", "one", "share")}
    weights = [counts[pod] * groups[kind_of(pod)] * random.expovariate(1) for pod in sorted(counts)]
    return random.choices(sorted(counts), weights, k=len(pods))


def named(pods: Sequence[TracePod], mix: str) -> list[TracePod]:
    """Raises KeyError where there is no such mix."""
    return drawn(pods, mix.removeprefix(RANDOM)) if mix.startswith(RANDOM) else mixed(pods, MIXES[mix])


def arrivals(pods: Sequence[TracePod], capacity: int, seed: int) -> Iterator[TracePod]:
    """Pods in a random order, drawn again once there are no more of them, until they have asked for all of the capacity."""
    random = Random(seed)
    order = list(pods)
    random.shuffle(order)
    arrived = 0
    while True:
        pod = order.pop() if order else random.choice(pods)
        arrived += pod.demand
        if arrived > capacity:
            return
        yield pod
