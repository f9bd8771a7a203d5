"""How the cost of one ordinary claim grows: with nodes, devices a node, claims in the system, requests a claim, constraints, and claims
that wait.

    python -m bench.complexity [--axis NAME ...] [-o table|json]

Each axis is doubled while the others stay at their defaults. At each size a cluster is half filled, and then one more claim of a kind that
was seen before is allocated and given back, over and over: the median of that, in CPU time. The exponent is the slope of a
least-squares line through the logarithms: 0 is flat, 1 linear. What a kind costs that was not seen before, which looks at each distinct
state of a node once, is given beside it (`first`). For claims that wait see `bench.complexity.waiting`: what the engine does when one more
comes, and when a device comes free (`freed`).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

from bench.allocator.shapes import claim, exactly, gpus, node, selected_class
from bench.complexity.waiting import FullCluster
from dra_operator.allocator import Problem, RecentDemand, Solved, solve
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory

REPEATS = 60


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int = 500
    devices: int = 8
    claims: int = 1_000
    requests: int = 1
    constraints: int = 0


AXES: dict[str, tuple[int, ...]] = {
    "nodes": (250, 500, 1_000, 2_000, 4_000),
    "devices": (4, 8, 16, 32, 64),
    "claims": (150, 300, 600, 1_200, 2_400),
    "requests": (1, 2, 4, 8),
    "constraints": (0, 1, 2, 4),
    "waiting": (0, 500, 1_000, 2_000, 4_000),
}
#: With several requests or constraints there must be devices for them.
BASES = {"requests": Size(devices=32), "constraints": Size(devices=32, requests=8)}
_MATCHES = ("resource.kubernetes.io/numaNode", "gpu.example.com/productName", "gpu.example.com/driverVersion")


def asking(number: int, size: Size) -> ResourceClaim:
    item = claim(number, {"exactly": exactly(1, 24)})
    devices = item["spec"]["devices"]
    devices["requests"] = [{"name": f"gpu-{index}", "exactly": exactly(1, 24)} for index in range(size.requests)]
    names = [f"gpu-{index}" for index in range(size.requests)]
    devices["constraints"] = [
        {"matchAttribute": _MATCHES[index % len(_MATCHES)], "requests": names[index // len(_MATCHES) :]}
        for index in range(size.constraints)
    ]
    return ResourceClaim.from_dict(item)


class Cluster:
    """Three models of GPUs, filled with claims for one and two devices."""

    def __init__(self, size: Size) -> None:
        self.size, self.inventory, self.recent, self.number = size, Inventory(), RecentDemand(), 0
        self.inventory.apply_class(DeviceClass.from_dict(selected_class()))
        for at in range(size.nodes):
            name, memory = f"node-{at:05}", (24, 40, 80)[at % 3]
            self.inventory.apply_node(Node.from_dict(node(name)))
            self.inventory.apply_slice(ResourceSlice.from_dict(gpus(name, f"m{memory}", memory, size.devices)))
        for _ in range(size.claims):
            self.number += 1
            self.allocate(ResourceClaim.from_dict(claim(self.number, {"exactly": exactly(1 + self.number % 2, 24)})))

    def allocate(self, item: ResourceClaim) -> bool:
        self.recent.note(item.spec)
        answer = solve(Problem((item,), demand=self.recent.demand), self.inventory.snapshot())
        if isinstance(answer, Solved):
            self.inventory.use(item.meta.uid, answer.allocations[0])
        return isinstance(answer, Solved)

    def measure(self) -> tuple[float, float]:
        """Seconds of CPU for the first claim of the size's kind, and the median of the later ones."""
        times = []
        for number in range(REPEATS):
            item = asking(1_000_000 + number, self.size)
            began = time.process_time()
            if not self.allocate(item):
                raise AssertionError(f"{self.size}: the claim did not fit, so this is no measure of allocating it")
            times.append(time.process_time() - began)
            self.inventory.release(item.meta.uid)
        return times[0], statistics.median(times[1:])


def exponent(values: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    points = [(log(value), log(second)) for value, second in zip(values, seconds, strict=True) if value]
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def measured(axis: str, value: int) -> tuple[float, float]:
    cluster = FullCluster(value) if axis == "waiting" else Cluster(replace(BASES.get(axis, Size()), **{axis: value}))
    gc.collect()
    gc.freeze()
    try:
        return cluster.measure()
    finally:
        gc.unfreeze()


def run(axis: str) -> dict[str, Any]:
    values = AXES[axis]
    times = [measured(axis, value) for value in values]
    first, second = zip(*times, strict=True)
    series = {"": first, "freed": second} if axis == "waiting" else {"": second, "first": first}
    row: dict[str, Any] = {"axis": axis, "values": list(values)}
    for name, seconds in series.items():
        row[_key(name, "Microseconds")] = [round(each * 1e6, 1) for each in seconds]
        row[_key(name, "Exponent")] = round(exponent(values, seconds), 2)
    return row


def _key(name: str, what: str) -> str:
    return name + what if name else what.lower()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.complexity", description="how the cost of one claim grows")
    parser.add_argument("--axis", choices=tuple(AXES), action="append", help="default: all")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    rows = []
    for axis in options.axis or AXES:
        row = run(axis)
        rows.append(row)
        if options.output == "table":
            print(f"{axis:<12} " + " ".join(f"{value:>9,}" for value in row["values"]))
            for name in ("", "first", "freed"):
                if _key(name, "Exponent") in row:
                    values, slope = row[_key(name, "Microseconds")], row[_key(name, "Exponent")]
                    print(f"  {name or 'µs a claim':<10} {_line(values)}   exponent {slope:+.2f}", flush=True)
    if options.output == "json":
        print(json.dumps(rows, indent=2))
    return 0


def _line(values: Sequence[float]) -> str:
    return " ".join(f"{value:>9,.0f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
