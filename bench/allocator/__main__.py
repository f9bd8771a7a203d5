"""What allocating costs, beside the in-tree allocator in the same run: claims a second, and the shapes on which it stalls.

    python -m bench.allocator [NAME...]

A fill allocates claims one after another, each on top of the last. The in-tree side makes a new allocator for each claim, as the
scheduler does, and looks for a node where the last claim was placed; only the claims are timed on both sides. Ours is
`kubectl-dra solve --fill` with its default strategy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from dra_operator.allocator import Problem, Strategy, solve
from dra_operator.allocator.document import read_document
from tests.differential.gobuild import Unavailable, program

DRIVER = "gpu.example.com"
FEATURES = [
    "AdminAccess",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "PartitionableDevices",
    "PrioritizedList",
]
#: Model, memory in Gi, and how many of ten nodes have it.
MODELS = (("L4", 24, 4), ("A100", 40, 3), ("H100", 80, 3))
#: A search that takes the in-tree allocator longer is cut off and counts as that long.
PATIENCE_MILLIS = 60_000


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    problem: Callable[[], dict[str, Any]]
    fill: bool


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def gpus(name: str, model: str, memory: int, count: int = 8) -> dict[str, Any]:
    """The slice of a node with `count` GPUs on two NUMA nodes."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "uuid": {"string": f"GPU-{name}-{index}"},
                "productName": {"string": model},
                "index": {"int": index},
                "driverVersion": {"version": "580.126.9"},
                "resource.kubernetes.io/numaNode": {"int": index * 2 // count},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02d}"},
            },
            "capacity": {"memory": {"value": f"{memory}Gi"}},
        }
        for index in range(count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{name}-gpus"}, "spec": spec}


def claim(number: int, request: dict[str, Any], match: str | None = None) -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": [{"name": "gpu", **request}]}
    if match is not None:
        devices["constraints"] = [{"matchAttribute": match}]
    meta = {"name": f"claim-{number:05d}", "namespace": "default", "uid": f"uid-{number}"}
    return {"metadata": meta, "spec": {"devices": devices}}


def exactly(count: int, memory: int | None = None, model: str | None = None) -> dict[str, Any]:
    selectors = []
    if memory is not None:
        selectors.append(f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}Gi")) >= 0')
    if model is not None:
        selectors.append(f'device.attributes["{DRIVER}"].productName == "{model}"')
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": text}} for text in selectors],
    }


def mixed(number: int, random: Random) -> dict[str, Any]:
    """One of some twenty kinds of claims, most of them for one device."""
    chosen = random.random()
    if chosen < 0.45:
        return claim(number, {"exactly": exactly(1, random.choice((16, 24, 40, 80)))})
    if chosen < 0.6:
        return claim(number, {"exactly": exactly(1, model=random.choice(MODELS)[0])})
    if chosen < 0.8:
        match = random.choice((None, "resource.kubernetes.io/numaNode"))
        return claim(number, {"exactly": exactly(2, random.choice((24, 40)))}, match)
    if chosen < 0.95:
        return claim(number, {"exactly": exactly(4, 24)}, "resource.kubernetes.io/numaNode")
    options = [{"name": "big", **exactly(1, 80)}, {"name": "small", **exactly(2, 40)}]
    return claim(number, {"firstAvailable": options})


def cluster(nodes: int, claims: list[dict[str, Any]]) -> dict[str, Any]:
    models = [model for model in MODELS for _ in range(model[2])]
    names = [f"node-{number:05d}" for number in range(nodes)]
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "name": "bench",
        "features": FEATURES,
        "nodes": [node(name) for name in names],
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "slices": [gpus(name, *models[at % len(models)][:2]) for at, name in enumerate(names)],
        "allocated": {},
        "claims": claims,
    }


def filling(nodes: int, claims: int) -> dict[str, Any]:
    random = Random(1)
    return cluster(nodes, [mixed(number, random) for number in range(claims)])


def running_out(nodes: int, claims: int) -> dict[str, Any]:
    """All ask for the one model of which there are far too few."""
    return cluster(nodes, [claim(number, {"exactly": exactly(4, model="H100")}) for number in range(claims)])


def groups(count: int, size: int, wanted: int) -> dict[str, Any]:
    """One claim for more devices with one attribute value than any value has, a request for each."""
    devices = [{"name": f"d{index}", "attributes": {"group": {"int": index % count}}} for index in range(count * size)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "node", "pool": pool, "devices": devices}
    return {
        "name": "bench",
        "features": FEATURES,
        "node": node("node"),
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "slices": [{"metadata": {"name": "slice"}, "spec": spec}],
        "allocated": {},
        "claims": [
            {
                "metadata": {"name": "claim", "namespace": "default", "uid": "uid"},
                "spec": {
                    "devices": {
                        "requests": [{"name": f"gpu-{i}", "exactly": exactly(1)} for i in range(wanted)],
                        "constraints": [{"matchAttribute": f"{DRIVER}/group"}],
                    }
                },
            }
        ],
        "timeoutMillis": PATIENCE_MILLIS,
    }


ROWS = (
    Row("fill 500 nodes x 8, 2,000 mixed claims", lambda: filling(500, 2_000), True),
    Row("fill 5,000 nodes x 8, 3,000 mixed claims", lambda: filling(5_000, 3_000), True),
    Row("fill 500 nodes x 8, most claims do not fit", lambda: running_out(500, 1_000), True),
    Row("9 of 32 devices with one value, 4 groups of 8", lambda: groups(4, 8, 9), False),
    Row("9 of 64 devices with one value, 8 groups of 8", lambda: groups(8, 8, 9), False),
)


def in_tree(command: str, path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    done = subprocess.run([str(program()), command], input=text, capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def ours_filling(path: Path) -> tuple[int, int, float, float]:
    """Claims, allocated, seconds to load, seconds."""
    command = [sys.executable, "-m", "dra_operator.cli", "solve", "--fill", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.fullmatch(
        r"claims=(\d+) allocated=(\d+) load_seconds=([\d.]+) seconds=([\d.]+)", done.stdout.splitlines()[-1]
    )
    assert found is not None
    return int(found[1]), int(found[2]), float(found[3]), float(found[4])


def fill(row: Row, path: Path) -> str:
    rounds = [ours_filling(path) for _ in range(3)]
    claims, allocated, load, seconds = min(rounds, key=lambda item: item[3])
    go = in_tree("fill", path)
    ratio = go["seconds"] / seconds
    return (
        f"{row.name}\n  in-tree {claims / go['seconds']:>9,.0f} claims/s, {go['allocated']:>5} allocated\n"
        f"  ours    {claims / seconds:>9,.0f} claims/s, {allocated:>5} allocated"
        f"   {ratio:,.1f} times as fast (loaded in {load:.1f} s)"
    )


def single(row: Row, path: Path) -> str:
    began = perf_counter()
    go = in_tree("allocator", path)
    theirs = perf_counter() - began
    times = [ours_alone(path, strategy) for strategy in (Strategy.FirstFit, Strategy.Fragmentation)]
    cut = " (cut off)" if go.get("timeout") else ""
    return f"{row.name}\n  in-tree {theirs * 1e3:>9,.0f} ms{cut}\n  ours    {max(times) * 1e3:>9,.1f} ms"


def ours_alone(path: Path, strategy: Strategy) -> float:
    """Seconds of one solve on an inventory that was just read: the best of five, each with one of its own."""
    times = []
    for _ in range(5):
        document = read_document(json.loads(path.read_text()))
        began = perf_counter()
        solve(Problem(document.claims, document.nodes, strategy=strategy), document.inventory.snapshot())
        times.append(perf_counter() - began)
    return min(times)


def main() -> int:
    wanted = sys.argv[1:]
    try:
        program()
    except Unavailable as reason:
        print(f"cannot compare: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if wanted and not any(word in row.name for word in wanted):
                continue
            path = Path(folder) / "problem.json"
            path.write_text(json.dumps(row.problem()))
            print(fill(row, path) if row.fill else single(row, path), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
