"""What choosing victims costs on a full cluster: `python -m bench.preemption [--nodes 5000] [--json FILE]`.

Every node has 8 devices, all used, each pod's priority and age drawn from a seed. Each row is one kind of preemptor, asked for once
on a fresh preemptor (first: what a plan not seen before costs, without the cluster's index) and then several times; the cluster is
left unchanged in between. Prints a table and, on request, JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from random import Random
from typing import Any

from dra_operator.allocator import Problem, solve
from dra_operator.allocator.joint import JointProblem, JointSolved, Member, NodeTopology, solve_jointly
from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim, quantity
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.gangvictims import Gang, GangVictims, choose_for_gang
from dra_operator.preemption.holders import Holder, HolderIndex, PodRef
from dra_operator.preemption.victims import NoVictims, Victims, choose

DRIVER = "gpu.example.com"
DEVICES = 8
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """`first_ms`: with a plan not seen before; `median_ms` and `worst_ms` of the later calls. `victims`: pods, -1 = none found."""

    case: str
    nodes: int
    devices: int
    holders: int
    victims: int
    first_ms: float
    median_ms: float
    worst_ms: float


class Cluster:
    """Nodes full of pods with one or several devices each. `labels` by pod decide which budgets protect it."""

    def __init__(self, nodes: int, seed: int = 1) -> None:
        self.random = Random(seed)
        self.inventory = Inventory()
        self.index = HolderIndex()
        self.budgets = Budgets()
        self.holders = self.devices = 0
        self.nodes = [f"node-{number:05}" for number in range(nodes)]
        self.inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
        for name in self.nodes:
            self.inventory.apply_node(Node.from_dict({"metadata": {"name": name}}))

    def publish(self, node: str, devices: Sequence[dict[str, Any]], counters: dict[str, int] | None = None) -> None:
        self.devices += len(devices)
        named = [{"name": f"d{number}", **device} for number, device in enumerate(devices)]
        contents: list[dict[str, Any]] = [{"devices": named}]
        if counters:
            values = {key: {"value": str(value)} for key, value in counters.items()}
            contents.append({"sharedCounters": [{"name": "all", "counters": values}]})
        for number, content in enumerate(contents):
            pool = {"name": node, "generation": 1, "resourceSliceCount": len(contents)}
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
            self.inventory.apply_slice(
                ResourceSlice.from_dict({"metadata": {"name": f"{node}-{number}"}, "spec": spec})
            )

    def hold(self, node: str, devices: Sequence[int], share: int = 0) -> None:
        self.holders += 1
        uid = f"pod-{self.holders}"
        consumed = {"memory": quantity(str(share))} if share else {}
        results = tuple(
            DeviceResult("r", DRIVER, node, f"d{number}", share_id=uid if share else None, consumed_capacity=consumed)
            for number in devices
        )
        self.inventory.use(f"claim-{uid}", Allocation(results=results))
        priority = self.random.randrange(0, 1000)
        pod = PodRef("team", uid, uid, {"app": f"app-{self.random.randrange(200)}"}, priority)
        holder = Holder(
            ("pod", uid), uid, (f"claim-{uid}",), (pod,), priority, self.random.uniform(0, 1e6), len(devices)
        )
        self.index.put(holder, [node])

    def protect(self, apps: int) -> None:
        """A budget that is used up for each of the first apps."""
        for number in range(apps):
            self.budgets.apply(
                {
                    "metadata": {"namespace": "team", "name": f"budget-{number}", "generation": 1},
                    "spec": {"selector": {"matchLabels": {"app": f"app-{number}"}}},
                    "status": {"disruptionsAllowed": 0, "observedGeneration": 1},
                }
            )


def ones(nodes: int) -> Cluster:
    """Each device has its own pod."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        cluster.publish(name, [{"attributes": {"numa": {"int": number // 4}}} for number in range(DEVICES)])
        for number in range(DEVICES):
            cluster.hold(name, [number])
    return cluster


def guarded(nodes: int) -> Cluster:
    """As `ones`, three pods of four under a budget that allows nothing."""
    cluster = ones(nodes)
    cluster.protect(150)
    return cluster


def whole_nodes(nodes: int) -> Cluster:
    """Each node's devices are one pod's."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        cluster.publish(name, [{} for _ in range(DEVICES)])
        cluster.hold(name, list(range(DEVICES)))
    return cluster


def mixed(nodes: int) -> Cluster:
    """Pods of 1, 2 or 4 devices."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        cluster.publish(name, [{"attributes": {"numa": {"int": number // 4}}} for number in range(DEVICES)])
        free = list(range(DEVICES))
        while free:
            count = min(len(free), cluster.random.choice((1, 1, 2, 4)))
            cluster.hold(name, free[:count])
            free = free[count:]
    return cluster


def two_kinds(nodes: int) -> Cluster:
    """Every other device is of a kind the preemptor does not want."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        cluster.publish(name, [{"attributes": {"big": {"bool": number % 2 == 0}}} for number in range(DEVICES)])
        for number in range(DEVICES):
            cluster.hold(name, [number])
    return cluster


def shared(nodes: int) -> Cluster:
    """Each device is shared by some pods."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        cluster.publish(
            name,
            [{"allowMultipleAllocations": True, "capacity": {"memory": {"value": "80"}}} for _ in range(DEVICES)],
        )
        for number in range(DEVICES):
            left = 80
            while left:
                size = min(left, cluster.random.choice((10, 20, 30, 40)))
                cluster.hold(name, [number], share=size)
                left -= size
    return cluster


def partitioned(nodes: int) -> Cluster:
    """A whole device, halves and quarters over the same counters; the quarters are used."""
    cluster = Cluster(nodes)
    for name in cluster.nodes:
        devices = [
            {
                "attributes": {"units": {"int": units}},
                "consumesCounters": [{"counterSet": "all", "counters": {"units": {"value": str(units)}}}],
            }
            for units in (16, 8, 8, 4, 4, 4, 4, 1)
        ]
        cluster.publish(name, devices, {"units": 16})
        for number in (3, 4, 5, 6):
            cluster.hold(name, [number])
    return cluster


def ask(*requests: dict[str, Any], constraints: Sequence[dict[str, Any]] = ()) -> Problem:
    items = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu", **request}}
        for number, request in enumerate(requests)
    ]
    spec = {"devices": {"requests": items, "constraints": list(constraints)}}
    meta = {"namespace": "vip", "name": "wanted", "uid": "wanted"}
    return Problem((ResourceClaim.from_dict({"metadata": meta, "spec": spec}),))


def where(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]
SIZE = f'device.attributes["{DRIVER}"].units == '

#: name, cluster, what is asked for, at which priority.
CASES: list[tuple[str, Callable[[int], Cluster], Problem, int]] = [
    ("1 device", ones, ask({"count": 1}), 10_000),
    ("8 devices", ones, ask({"count": 8}), 10_000),
    ("4 devices", ones, ask({"count": 4}), 10_000),
    ("4 devices of one NUMA node", ones, ask({"count": 4}, constraints=NUMA), 10_000),
    ("1 device, 3/4 under a budget", guarded, ask({"count": 1}), 10_000),
    ("8 devices, 3/4 under a budget", guarded, ask({"count": 8}), 10_000),
    ("4 devices, pods of 1-4", mixed, ask({"count": 4}), 10_000),
    ("8 devices, pods of 1-4", mixed, ask({"count": 8}), 10_000),
    ("2 of one kind in two", two_kinds, ask({"count": 2, **where(f'device.attributes["{DRIVER}"].big')}), 10_000),
    ("1 device, nobody below", ones, ask({"count": 1}), 0),
    ("9 devices: no node has them", ones, ask({"count": 9}), 10_000),
    ("a share of 60 of 80", shared, ask({"count": 1, "capacity": {"requests": {"memory": "60"}}}), 10_000),
    ("a half (counters)", partitioned, ask({"count": 1, **where(SIZE + "8")}), 10_000),
    ("the whole (counters)", partitioned, ask({"count": 1, **where(SIZE + "16")}), 10_000),
]


#: name, cluster, what each member asks for, how many, under one value of a label that so many nodes share (0: anywhere).
GANGS: list[tuple[str, Callable[[int], Cluster], Problem, int, int]] = [
    ("gang of 4 with 8 devices each", whole_nodes, ask({"count": 8}), 4, 0),
    ("gang of 4 with 8, in one domain of 18", whole_nodes, ask({"count": 8}), 4, 18),
    ("gang of 8 with 1 device each", ones, ask({"count": 1}), 8, 0),
    ("gang of 4 with 2 each, pods of 1-4", mixed, ask({"count": 2}), 4, 0),
    ("gang of 4 with 9 each: no node has them", ones, ask({"count": 9}), 4, 0),
]


def gang_of(cluster: Cluster, problem: Problem, members: int, domain: int) -> Gang:
    """As the engine asks: all members solved together, with these victims' claims released."""
    values = {name: str(number // domain) for number, name in enumerate(cluster.nodes)} if domain else {}
    topology = NodeTopology("Same", values.get) if domain else None

    def fits(gone: Sequence[Holder], nodes: Sequence[str] | None) -> tuple[str, ...] | None:
        joint = JointProblem(tuple(Member(replace(problem, nodes=nodes), "alike") for _ in range(members)), topology)
        snapshot = cluster.inventory.snapshot()
        with snapshot:
            for holder in gone:
                for claim in holder.claims:
                    snapshot.release(claim)
            found = solve_jointly(joint, snapshot)
        return tuple({str(item.node): None for item in found.members}) if isinstance(found, JointSolved) else None

    domains: dict[str, list[str]] = {}
    for name, value in values.items():
        domains.setdefault(value, []).append(name)
    return Gang(((problem, members),), tuple(map(tuple, domains.values())) or (None,), fits)


def measure_gang(case: str, cluster: Cluster, problem: Problem, members: int, domain: int) -> Row:
    gang = gang_of(cluster, problem, members, domain)
    # Whoever preempts was turned away by the allocator before, which knows the claims then.
    gang.fits((), None)
    return timed(
        case,
        cluster,
        lambda: choose_for_gang(
            gang,
            cluster.inventory,
            cluster.index,
            priority=10_000,
            min_delta=1,
            max_victims=8,
            budgets=cluster.budgets,
        ),
    )


def measure(case: str, cluster: Cluster, problem: Problem, priority: int) -> Row:
    # Whoever preempts was turned away by the allocator before, which knows the claim then.
    solve(problem, cluster.inventory.snapshot())
    return timed(
        case,
        cluster,
        lambda: choose(
            problem,
            cluster.inventory.snapshot(),
            cluster.index,
            priority=priority,
            min_delta=1,
            max_victims=8,
            budgets=cluster.budgets,
            fits=lambda node, gone: True,
        ),
    )


def timed(case: str, cluster: Cluster, choice: Callable[[], Victims | GangVictims | NoVictims]) -> Row:
    def once() -> tuple[float, Victims | GangVictims | NoVictims]:
        gc.collect()
        began = time.perf_counter()
        found = choice()
        return (time.perf_counter() - began) * 1000, found

    first, found = once()
    later = [once()[0] for _ in range(REPEATS)]
    victims = -1 if isinstance(found, NoVictims) else sum(len(holder.pods) for holder in found.holders)
    return Row(
        case=case,
        nodes=len(cluster.nodes),
        devices=cluster.devices,
        holders=cluster.holders,
        victims=victims,
        first_ms=round(first, 1),
        median_ms=round(statistics.median(later), 1),
        worst_ms=round(max(later), 1),
    )


def _one(row: tuple[str, Callable[[int], Cluster], Problem, int], cluster: Cluster) -> Row:
    return measure(row[0], cluster, *row[2:])


def _gang(row: tuple[str, Callable[[int], Cluster], Problem, int, int], cluster: Cluster) -> Row:
    return measure_gang(row[0], cluster, *row[2:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.preemption", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--json", metavar="FILE", help="also write the rows there; - = stdout instead of the table")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    options = parser.parse_args()
    rows: list[Row] = []
    clusters: dict[Callable[[int], Cluster], Cluster] = {}
    tasks: list[tuple[str, Callable[[int], Cluster], Callable[[Cluster], Row]]] = [
        *((row[0], row[1], partial(_one, row)) for row in CASES),
        *((row[0], row[1], partial(_gang, row)) for row in GANGS),
    ]
    for case, build, task in tasks:
        if options.only not in case:
            continue
        if build not in clusters:
            clusters.clear()
            clusters[build] = build(options.nodes)
        rows.append(task(clusters[build]))
        if options.json != "-":
            if len(rows) == 1:
                print(f"{'case':40} {'holders':>8} {'victims':>8} {'first ms':>9} {'median ms':>10} {'worst ms':>9}")
            row = rows[-1]
            victims = "none" if row.victims < 0 else str(row.victims)
            print(
                f"{row.case:40} {row.holders:8} {victims:>8} {row.first_ms:9.1f} {row.median_ms:10.1f} {row.worst_ms:9.1f}",
                flush=True,
            )
    if options.json:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        if options.json == "-":
            print(text)
        else:
            with open(options.json, "w") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
