"""Bursts of pods from nothing to bound: kube-scheduler alone, then with the operator, one after the other on real control planes.

    python -m bench.endtoend [--nodes N ...] [--kind bare|replicaset ...] [--pods 1000] [-o table|json]

Plays each kind at each number of nodes. Every pod has a claim for one device, from a template; every node has 8 devices. Both runs start a
control plane of their own (kube-scheduler is the unmodified one in both), and everything shares this machine. The simulated kubelet is
stopped once the nodes are Ready: what is measured ends with the binding. After each run it is checked that every pod is bound to the node
of its own device and that no device is used twice; otherwise the exit code is 1.

CPU seconds are those of the control plane's processes and the operator during the burst: where the machine is busy with other work,
rates say little and these still compare. Latency: from a pod's creation to its binding, as two watches show it. Requests: from the
operator's metrics, without watches and Lease. Writes by everybody: from the metrics of the API server, until the last binding.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from bench.endtoend.burst import DEVICES, Burst, Incorrect, Kind, Measured, make_class, make_namespace, make_nodes
from bench.endtoend.limits import TookTooLong, limit
from bench.endtoend.processors import since, used
from bench.endtoend.requests import Probes, allocation_writes, served_writes
from devcluster import (
    ApiError,
    BuildError,
    ControlPlane,
    InstanceError,
    KubectlError,
    NeverHappened,
    StartError,
    eventually,
)
from devcluster.install import install, operator


@dataclass(frozen=True, slots=True)
class Alone:
    """`cpu`: seconds by process; `writes`: of all components together."""

    measured: Measured
    cpu: dict[str, float]
    writes: int


@dataclass(frozen=True, slots=True)
class WithOperator:
    """As Alone; `requests`: the operator's up to the last binding; `reports`: those until every claim has its report."""

    measured: Measured
    cpu: dict[str, float]
    writes: int
    requests: Counter[str]
    reports: Counter[str]


def main() -> int:
    """Run both, print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench.endtoend", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 3000])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--kind", nargs="+", choices=["bare", "replicaset"], default=["bare", "replicaset"])
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    fewest = min(options.nodes)
    if not 2 <= options.pods <= fewest * DEVICES:
        parser.error(f"--pods must be from 2 to {fewest * DEVICES}, the devices of {fewest} nodes")
    documents = []
    try:
        for nodes, kind in product(options.nodes, options.kind):
            busy = os.getloadavg()[0]
            alone = run_alone(nodes, options.pods, kind)
            ours = run_with_operator(nodes, options.pods, kind)
            documents.append(document(nodes, options.pods, kind, busy, alone, ours))
            if options.output == "table":
                print(table(nodes, options.pods, kind, busy, alone, ours), end="\n\n", flush=True)
    except (ApiError, BuildError, InstanceError, KubectlError, OSError, StartError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except (NeverHappened, Incorrect, TookTooLong) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.output == "json":
        print(json.dumps(documents, indent=2))
    return 0


def run_alone(nodes: int, pods: int, kind: Kind) -> Alone:
    """kube-scheduler without our policies.

    Raises Incorrect, NeverHappened, TookTooLong, and what devcluster raises where the control plane fails.
    """
    with ControlPlane.start(report=say) as plane:
        prepare(plane, nodes)
        say(f"kube-scheduler alone: {pods} pods on {nodes} nodes")
        measured, cpu, writes, _ = burst(plane, pods, kind, plane.pids())
        return Alone(measured, cpu, writes)


def run_with_operator(nodes: int, pods: int, kind: Kind) -> WithOperator:
    """The same with policies and operator. Raises as `run_alone`."""
    with ControlPlane.start(report=say) as plane:
        with limit(300, "installing the operator"):
            install(plane)
        prepare(plane, nodes)
        with operator(plane) as running:
            probes = Probes(running.log)
            probes.wait_until_leading()
            before = probes.requests()
            say(f"with the operator: {pods} pods on {nodes} nodes")
            processes = plane.pids() | {"dra-operator": running.process.pid}
            measured, cpu, writes, namespace = burst(plane, pods, kind, processes)
            requests = probes.requests() - before
            say("all pods are bound; waiting for the reports")
            path = f"/apis/dra-operator.dev/v1alpha1/namespaces/{namespace}/claimreports"
            reported = lambda: len(plane.client.get(path)["items"]) == pods  # noqa: E731
            eventually(reported, 300, every=1, what="every claim has its report")
            return WithOperator(measured, cpu, writes, requests, probes.requests() - before)


def prepare(plane: ControlPlane, nodes: int) -> None:
    """Class and nodes; from now on nothing runs on them."""
    with limit(600, f"making {nodes} nodes"):
        make_class(plane)
        make_nodes(plane, nodes)
        plane.stop_kubelet()
    say(f"{nodes} nodes are ready")


def burst(
    plane: ControlPlane, pods: int, kind: Kind, processes: dict[str, int]
) -> tuple[Measured, dict[str, float], int, str]:
    """The burst, checked; CPU seconds; writes by everybody; and the namespace it is in."""
    with limit(600, f"the burst of {pods} pods"):
        namespace = make_namespace(plane)
        made = Burst(plane, namespace, pods, kind)
        written = served_writes(plane)
        before = used(processes)
        measured = made.run()
        cpu = since(before, processes)
        written = served_writes(plane) - written
        made.check()
        return measured, cpu, written, namespace


def table(nodes: int, pods: int, kind: Kind, busy: float, alone: Alone, ours: WithOperator) -> str:
    plain, mine = alone.measured, ours.measured
    rows = [
        ("pods/s", plain.rate, mine.rate),
        ("latency p50, s", plain.p50, mine.p50),
        ("latency p99, s", plain.p99, mine.p99),
        ("CPU seconds", sum(alone.cpu.values()), sum(ours.cpu.values())),
        *((f"  {name}", alone.cpu.get(name, 0.0), seconds) for name, seconds in sorted(ours.cpu.items())),
    ]
    lines = [
        f"{pods} {kind} pods with a claim each, {nodes} nodes x {DEVICES} devices, "
        f"{os.cpu_count()} CPUs, load {busy:.1f} at the start",
        f"{'':26}{'kube-scheduler alone':>22}{'with the operator':>20}{'ratio':>8}",
        *(
            f"{name:26}{before:22.2f}{after:20.2f}" + (f"{after / before:7.2f}x" if before else "")
            for name, before, after in rows
        ),
        f"writes to the API server per pod, by everybody: {alone.writes / pods:.2f} with kube-scheduler alone, "
        f"{ours.writes / pods:.2f} with the operator",
        f"requests of the operator per pod: {allocation_writes(ours.requests) / pods:.2f} writes to claims and pods, "
        f"{ours.requests.total() / pods:.2f} in all until the last binding, {ours.reports.total() / pods:.2f} with all reports",
        "all pods bound to the node of their device, no device twice: checked in both runs",
    ]
    return "\n".join(lines)


def document(nodes: int, pods: int, kind: Kind, busy: float, alone: Alone, ours: WithOperator) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "pods": pods,
        "kind": kind,
        "load": busy,
        "alone": asdict(alone.measured)
        | {"rate": alone.measured.rate, "cpu": alone.cpu, "allWritesPerPod": alone.writes / pods},
        "operator": asdict(ours.measured)
        | {
            "rate": ours.measured.rate,
            "cpu": ours.cpu,
            "allWritesPerPod": ours.writes / pods,
            "writesPerPod": allocation_writes(ours.requests) / pods,
            "requests": dict(sorted(ours.requests.items())),
            "requestsWithReports": dict(sorted(ours.reports.items())),
        },
        "ratio": ours.measured.rate / alone.measured.rate,
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
