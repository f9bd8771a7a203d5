"""How well placements keep room for what comes: the openb trace's GPU allocation ratio at 100 % arrival.

    python -m bench.openb [--nodes FILE --pods FILE ...] [--strategy S ...] [--mix M ...] [--seeds N] [-o table|json]

Pods arrive in a random order, none leaves; the ratio is the GPU given out over the cluster's GPU when as much has been asked for as there
is. Strategies are the allocator's, and FGD, the one published with this trace (see `fgd`). Mixes are drawn from the pods of the files;
`--mix random:SEED` draws one in proportions of its own.
Without arguments: one seed of the trace, from ../shared/data/openb; `--full` is ten seeds, both files, and all mixes.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.openb.fgd import GradientDescent
from bench.openb.placing import Allocator
from bench.openb.trace import MIXES, RANDOM, WHOLE, TraceNode, TracePod, arrivals, named, read_nodes, read_pods
from dra_operator.allocator import Strategy
from dra_operator.cli.main import GARBAGE_COLLECTION

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "openb"
FGD = "FGD"
STRATEGIES = (*(strategy.value for strategy in Strategy), FGD)


class Run(NamedTuple):
    pods: Path
    mix: str
    strategy: str
    seed: int


class Outcome(NamedTuple):
    """`ratio` in percent."""

    ratio: float
    seconds: float


def play(nodes: Sequence[TraceNode], pods: Sequence[TracePod], strategy: str, seed: int) -> float:
    """The share of the cluster's GPU given out, in percent, when all of it has been asked for."""
    capacity = sum(node.gpus for node in nodes) * WHOLE
    placer = GradientDescent(nodes, pods) if strategy == FGD else Allocator(nodes, Strategy(strategy))
    given = sum(pod.demand for pod in arrivals(pods, capacity, seed) if placer.place(pod))
    return 100 * given / capacity


def run(nodes: Path, what: Run) -> Outcome:
    gc.set_threshold(*GARBAGE_COLLECTION)  # as the operator does
    gc.collect()  # the cluster of the run before
    began = time.process_time()
    pods = named(read_pods(what.pods), what.mix)
    ratio = play(read_nodes(nodes), pods, what.strategy, what.seed)
    return Outcome(ratio, time.process_time() - began)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    ratios = [outcome.ratio for outcome in outcomes]
    return {
        "mean": round(statistics.fmean(ratios), 2),
        "min": round(min(ratios), 2),
        "max": round(max(ratios), 2),
        "stdev": round(statistics.stdev(ratios), 2) if len(ratios) > 1 else 0.0,
        "ratios": [round(ratio, 2) for ratio in ratios],
        "cpuSeconds": round(statistics.fmean(outcome.seconds for outcome in outcomes), 1),
    }


def _mix(name: str) -> str:
    if name not in MIXES and not (name.startswith(RANDOM) and name != RANDOM):
        raise argparse.ArgumentTypeError(f"{name!r} is neither {RANDOM}SEED nor one of {', '.join(MIXES)}")
    return name


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description="placement quality on the openb trace")
    parser.add_argument("--nodes", type=Path, help="CSV: sn, cpu_milli, memory_mib, gpu, model")
    parser.add_argument(
        "--pods", type=Path, action="append", help="CSV: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec"
    )
    parser.add_argument("--strategy", choices=STRATEGIES, action="append", help="default: all")
    parser.add_argument(
        "--mix",
        type=_mix,
        action="append",
        help=f"one of {', '.join(MIXES)}, or {RANDOM}SEED for a drawn one; default: trace, the pods as they are",
    )
    parser.add_argument("--seeds", type=int, help="so many orders of arrival")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at once")
    parser.add_argument("--full", action="store_true", help="10 seeds; every mix with Fragmentation and FGD")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    found = parser.parse_args(arguments)
    if (found.seeds or 1) < 1:
        parser.error("--seeds: at least 1")
    found.nodes = found.nodes or DATA / "nodes.csv"
    found.pods = found.pods or [DATA / "pods_default.csv", DATA / "pods_gpuspec33.csv"]
    found.seeds = found.seeds or (10 if found.full else 1)
    for path in (found.nodes, *found.pods):
        if not path.is_file():
            parser.error(f"{path}: no such file; name the trace's files with --nodes and --pods")
    return found


def _cases(options: argparse.Namespace) -> list[tuple[Path, str, str]]:
    cases = [
        (pods, mix, strategy)
        for pods in options.pods
        for mix in options.mix or ["trace"]
        for strategy in options.strategy or STRATEGIES
    ]
    if options.full and not options.mix:
        mixes = [mix for mix in MIXES if mix != "trace"]
        compared = options.strategy or (Strategy.Fragmentation.value, FGD)
        cases += [(pods, mix, strategy) for pods in options.pods for mix in mixes for strategy in compared]
    return cases


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    if options.output == "table":
        print(f"GPU allocation ratio at 100 % arrival, %, {options.seeds} seed(s), nodes of {options.nodes.name}")
        print(f"{'pods':<20} {'mix':<12} {'strategy':<14} {'mean':>6} {'stdev':>6} {'min':>6} {'max':>6} {'CPU s':>7}")
    results = []
    with ProcessPoolExecutor(options.jobs) as workers:
        for pods, mix, strategy in _cases(options):
            runs = [Run(pods, mix, strategy, seed) for seed in range(options.seeds)]
            found = summary(list(workers.map(run, [options.nodes] * len(runs), runs)))
            results.append({"pods": pods.name, "mix": mix, "strategy": strategy, **found})
            if options.output == "table":
                line = f"{pods.name:<20} {mix:<12} {strategy:<14} {found['mean']:>6.2f} {found['stdev']:>6.2f}"
                print(f"{line} {found['min']:>6.2f} {found['max']:>6.2f} {found['cpuSeconds']:>7.1f}", flush=True)
    if options.output == "json":
        print(json.dumps({"nodes": options.nodes.name, "seeds": options.seeds, "results": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
