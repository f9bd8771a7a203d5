"""What allocating costs, beside the in-tree allocator in the same run: claims a second, and the shapes on which it stalls.

    python -m bench.allocator [WORDS OF A ROW ...] [-o table|json]

A fill allocates claims one after another, each on top of the last. The in-tree side makes a new allocator for each claim, as the
scheduler does, and looks for a node where the last claim was placed; only the claims are timed on both sides. Ours is
`kubectl-dra solve --fill` with its default strategy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.allocator import shapes
from dra_operator.allocator import Problem, Strategy, solve
from dra_operator.allocator.document import read_document
from tests.differential.gobuild import Unavailable, program


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    problem: Callable[[], dict[str, Any]]
    fill: bool


ROWS = (
    Row("fill 500 nodes x 8, 2,000 mixed claims", lambda: shapes.filling(500, 2_000), True),
    Row("fill 2,000 nodes x 8, 3,000 mixed claims", lambda: shapes.filling(2_000, 3_000), True),
    Row("fill 5,000 nodes x 8, 3,000 mixed claims", lambda: shapes.filling(5_000, 3_000), True),
    Row("fill 500 nodes x 8, most claims do not fit", lambda: shapes.running_out(500, 1_000), True),
    Row("fill 500 nodes x 8, 1,500 pairs behind one PCIe root", lambda: shapes.aligned(500, 1_500), True),
    Row("fill 60 nodes x 64, 1,500 mixed claims", lambda: shapes.wide(60, 64, 1_500), True),
    Row("fill 100 nodes x 8 partitionable, 1,500 partitions", lambda: shapes.partitioned(100, 1_500), True),
    Row("fill 200 nodes x 8 shared, 3,000 tenths", lambda: shapes.shared(200, 3_000), True),
    Row("fill 500 nodes, 20,000 devices in the network", lambda: shapes.attached(500, 20_000, 500), True),
    Row("9 of 32 devices with one value, 4 groups of 8", lambda: shapes.groups(4, 8, 9), False),
    Row("9 of 64 devices with one value, 8 groups of 8", lambda: shapes.groups(8, 8, 9), False),
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


def fill(row: Row, path: Path) -> dict[str, Any]:
    """Claims a second and how many were allocated, on both sides; the best of three runs of ours."""
    rounds = [ours_filling(path) for _ in range(3)]
    claims, allocated, load, seconds = min(rounds, key=lambda item: item[3])
    go = in_tree("fill", path)
    return {
        "name": row.name,
        "claims": claims,
        "inTree": {"claimsPerSecond": round(claims / go["seconds"], 1), "allocated": go["allocated"]},
        "ours": {"claimsPerSecond": round(claims / seconds, 1), "allocated": allocated, "loadSeconds": load},
        "timesAsFast": round(go["seconds"] / seconds, 2),
    }


def single(row: Row, path: Path) -> dict[str, Any]:
    """Milliseconds for one answer, on both sides; ours with the slower of two strategies."""
    began = perf_counter()
    go = in_tree("allocator", path)
    theirs = perf_counter() - began
    ours = max(ours_alone(path, strategy) for strategy in (Strategy.FirstFit, Strategy.Fragmentation))
    return {
        "name": row.name,
        "inTree": {"millis": round(theirs * 1e3, 1), "cutOff": bool(go.get("timeout"))},
        "ours": {"millis": round(ours * 1e3, 2)},
        "timesAsFast": round(theirs / ours, 2),
    }


def shown(result: dict[str, Any]) -> str:
    """A result for a person."""
    theirs, ours = result["inTree"], result["ours"]
    if "millis" in ours:
        cut = " (cut off)" if theirs["cutOff"] else ""
        return f"{result['name']}\n  in-tree {theirs['millis']:>9,.0f} ms{cut}\n  ours    {ours['millis']:>9,.1f} ms"
    return (
        f"{result['name']}\n"
        f"  in-tree {theirs['claimsPerSecond']:>9,.0f} claims/s, {theirs['allocated']:>5} allocated\n"
        f"  ours    {ours['claimsPerSecond']:>9,.0f} claims/s, {ours['allocated']:>5} allocated"
        f"   {result['timesAsFast']:,.1f} times as fast (loaded in {ours['loadSeconds']:.1f} s)"
    )


def ours_alone(path: Path, strategy: Strategy) -> float:
    """Seconds of one solve on an inventory that was just read: the best of five, each with one of its own."""
    times = []
    for _ in range(5):
        document = read_document(json.loads(path.read_text()))
        began = perf_counter()
        solve(Problem(document.claims, document.nodes, strategy=strategy), document.inventory.snapshot())
        times.append(perf_counter() - began)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.allocator", description="beside the in-tree allocator")
    parser.add_argument("words", nargs="*", metavar="WORDS", help="words of the rows to run; default: all rows")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if not options.words or any(word in row.name for word in options.words)]
    if not rows:
        parser.error(f"no row has any of these words; there are: {'; '.join(row.name for row in ROWS)}")
    try:
        program()
    except Unavailable as reason:
        print(f"cannot compare: {reason}", file=sys.stderr)
        return 1
    load, results = os.getloadavg()[0], []
    if options.output == "table":
        print(f"{os.cpu_count()} CPUs, load {load:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            path = Path(folder) / "problem.json"
            path.write_text(json.dumps(row.problem()))
            results.append(fill(row, path) if row.fill else single(row, path))
            if options.output == "table":
                print(shown(results[-1]), flush=True)
    if options.output == "json":
        print(json.dumps({"cpus": os.cpu_count(), "load": round(load, 1), "results": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
