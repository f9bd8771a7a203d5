"""What a large cluster costs the operator: resident memory, seconds to its first decision, CPU at rest and under churn.

    python -m bench.footprint [--nodes 5000] [--devices 8] [--claims 10000] [--churn 10] [--seconds 30] [-o table|json]

The operator is the real program (`dra-operator run`) in a process of its own. The API server is a stand-in that serves a made-up
cluster from memory (`bench/footprint/apiserver.py`): a real one of this size does not fit on a machine for benchmarks, and its
memory and CPU are not what is measured. Every claim has a pod; 100 of them wait for devices when the operator starts, the others
are allocated, bound and reported; two more pods run on every node. Seconds to the first decision count from the start of the
process to the first allocation that reaches the API server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.endtoend.processors import since, used
from bench.footprint.apiserver import ApiServer, Name
from bench.footprint.inventory import NAMESPACE_COUNT, Inventory
from dra_operator.cluster.rest import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

ALLOCATE = "PUT resourceclaims/status"
UNGATE = "PATCH pods"
WAITING = 100
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Memory in MB (10^6 bytes), times in seconds, CPU as a share of one processor."""

    nodes: int
    devices: int
    claims: int
    pods: int
    first_decision: float
    settled: float
    cpu_to_settle: float
    memory: float
    memory_peak: float
    idle_cpu: float
    churn: float
    churn_cpu: float
    memory_after_churn: float
    lists: int
    slowest_list: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8, help="devices a node")
    parser.add_argument("--claims", type=int, default=10_000)
    parser.add_argument("--churn", type=float, default=10.0, help="claims a second that come and go")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to look at rest, and under churn")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    if not WAITING < options.claims <= options.nodes * options.devices:
        parser.error(
            f"--claims must be above {WAITING} and at most {options.nodes * options.devices}, the devices there are"
        )
    try:
        measured = asyncio.run(measure(options))
    except TimeoutError:
        print(f"error: the operator did not get there within {PATIENCE:.0f} s", file=sys.stderr)
        return 1
    print(json.dumps(asdict(measured), indent=2) if options.output == "json" else table(measured))
    return 0


async def measure(options: argparse.Namespace) -> Measured:
    server = ApiServer(Inventory(options.nodes, options.devices, options.claims, WAITING))
    url = await server.start()
    counts = [server.count(resource) for resource in (NODES, RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)]
    print("{} nodes, {} slices, {} claims, {} pods".format(*counts), file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        began = time.monotonic()
        process = await run_operator(url, Path(folder), log)
        try:
            return await follow(server, process.pid, began, options)
        except BaseException:
            sys.stderr.write(log.read_text()[-4000:])
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def run_operator(url: str, folder: Path, log: Path) -> asyncio.subprocess.Process:
    config = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    clusters, users = [{"name": "c", "cluster": {"server": url}}], [{"name": "u", "user": {"token": "none"}}]
    config.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": clusters, "users": users}))
    with log.open("wb") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dra_operator.cli", "run", "--kubeconfig", str(config), "--probe-port", "0",
            stderr=out, stdout=out,
        )  # fmt: skip


async def follow(server: ApiServer, pid: int, began: float, options: argparse.Namespace) -> Measured:
    process = {"operator": pid}
    await until(lambda: ALLOCATE in server.first)
    await until(lambda: server.requests[UNGATE] >= WAITING)
    settled = max(server.last[UNGATE], server.last[ALLOCATE]) - began
    spent = used(process)["operator"]
    await until(lambda: quiet(server))
    memory = resident(pid)
    idle = await cpu_share(process, options.seconds)
    churned = await churn(server, process, options.churn, options.seconds)
    lists = {name.split()[1]: server.last[name] - began for name in server.last if name.startswith("LIST ")}
    slowest = max(lists, key=lambda name: lists[name])
    return Measured(
        options.nodes, options.devices, options.claims, server.count(PODS),
        round(server.first[ALLOCATE] - began, 2), round(settled, 2), spent,
        memory, resident(pid, "VmHWM"), idle, options.churn, churned, resident(pid),
        sum(count for name, count in server.requests.items() if name.startswith("LIST ")),
        f"{slowest}, {lists[slowest]:.1f} s",
    )  # fmt: skip


def quiet(server: ApiServer) -> bool:
    """All is done, the reports too; only the Lease is renewed."""
    return time.monotonic() - max(at for asked, at in server.last.items() if "leases" not in asked) > 5


async def cpu_share(process: dict[str, int], seconds: float) -> float:
    before = used(process)
    await asyncio.sleep(seconds)
    return round(since(before, process)["operator"] / seconds, 3)


async def churn(server: ApiServer, process: dict[str, int], rate: float, seconds: float) -> float:
    """Pods with claims come and go, as many at a time as came in the last ten seconds; CPU share meanwhile."""
    living: list[Name] = []
    busy = asyncio.create_task(cpu_share(process, seconds))
    for number in itertools.count():
        living.append(server.arrive(f"churn-{number:05}", number % NAMESPACE_COUNT))
        if len(living) > rate * 10 and server.bound(living[0]):
            server.leave(living.pop(0))
        await asyncio.sleep(1 / rate)
        if busy.done():
            break
    for pod in living:
        server.leave(pod)
    return await busy


async def until(condition: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- what it looks at happens in another process
            await asyncio.sleep(0.05)


def resident(pid: int, field: str = "VmRSS") -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return round(int(found[1]) * 1024 / 1e6, 1) if found else 0.0


def table(measured: Measured) -> str:
    rows = [
        ("resident memory, MB", f"{measured.memory:.0f}"),
        ("  at its highest", f"{measured.memory_peak:.0f}"),
        ("  after the churn", f"{measured.memory_after_churn:.0f}"),
        ("start to first decision, s", f"{measured.first_decision:.1f}"),
        (f"start to the {WAITING}th pod let go, s", f"{measured.settled:.1f}"),
        ("CPU seconds until then", f"{measured.cpu_to_settle:.1f}"),
        ("CPU at rest", f"{measured.idle_cpu:.1%} of a processor"),
        (f"CPU with {measured.churn:g} claims/s", f"{measured.churn_cpu:.1%} of a processor"),
        ("LIST requests", f"{measured.lists} (last: {measured.slowest_list} after the start)"),
    ]
    return "\n".join(
        [
            f"{measured.nodes} nodes x {measured.devices} devices, {measured.claims} claims, {measured.pods} pods; "
            f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}",
            *(f"{name:36}{value}" for name, value in rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
