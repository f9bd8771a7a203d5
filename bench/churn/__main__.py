"""Claims that arrive and leave, hour after hour: whether memory stays flat and every container empties again.

    python -m bench.churn [--minutes 6] [--rate 10] [--nodes 100] [-o table|json]

The engine in virtual time, with its writes answered and shown at once; 60 minutes of it are `--minutes 60`. Every pod comes with a
claim, gets its device, runs for `--seconds` and is deleted with its claim and report; every tenth is deleted while it waits. At the
end all of them leave. Exit code 1 if the engine then holds more than it did when the same had happened for a tenth of the time, or
if memory grew by more than a tenth after that.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections import Counter, deque
from dataclasses import asdict, dataclass

from bench.churn.containers import entries, lasting
from bench.footprint.inventory import NAMESPACE_COUNT, Inventory, Raw, claim_name, running
from dra_operator.api.meta import Key
from dra_operator.cluster.rest import CLAIM_REPORTS, ENGINE_KINDS, PODS, RESOURCE_CLAIMS, Resource
from dra_operator.engine.decisions import Decision, Outcome, PatchPod, WriteClaimStatus, WriteReport
from dra_operator.engine.engine import Engine

START = 1_800_000_000.0
#: Of how many pods one is deleted before it can be served.
IMPATIENT = 10


@dataclass(frozen=True, slots=True)
class Look:
    """After so many minutes, with everything gone: memory in MB (10^6 bytes, as tracemalloc counts it), entries of all containers
    but bounded memories of answers, and the most units that waited at once since the look before."""

    minutes: float
    lives: int
    memory: float
    entries: int
    waiting: int
    milliseconds: float


class Cluster:
    """Plays the API server, its users and kube-scheduler for one engine."""

    def __init__(self, nodes: int) -> None:
        self._inventory = Inventory(nodes, 8, 0, 0)
        self.engine = Engine()
        self.now = START
        self.objects: dict[tuple[str, Key], Raw] = {}
        self.lives = 0
        for resource, item in self._inventory.objects():
            self._tell(resource, "ADDED", item)
        for resource in ENGINE_KINDS:
            self.engine.synced(resource.kind)

    def _tell(self, resource: Resource, type: str, item: Raw) -> None:
        metadata = item["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        if type == "DELETED":
            self.objects.pop((resource.kind, key), None)
        else:
            self.objects[resource.kind, key] = item
        self.engine.observe(resource.kind, type, item, self.now)  # type: ignore[arg-type]

    def arrive(self) -> Key:
        pod, claim = self._inventory.arrival(f"life-{self.lives:07}", self.lives % NAMESPACE_COUNT, None)
        self.lives += 1
        self._tell(PODS, "ADDED", pod)
        self._tell(RESOURCE_CLAIMS, "ADDED", claim)
        return Key(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def leave(self, pod: Key) -> None:
        claim = Key(pod.namespace, claim_name(pod.name))
        for resource, key in ((PODS, pod), (RESOURCE_CLAIMS, claim), (CLAIM_REPORTS, claim)):
            item = self.objects.get((resource.kind, key))
            if item is not None:
                self._tell(resource, "DELETED", item)

    def settle(self) -> None:
        """Passes until the engine has nothing more to do at this instant."""
        while decisions := self.engine.decide(self.now):
            for decision in decisions:
                self._carry_out(decision)
        self.engine.journal()

    def _carry_out(self, decision: Decision) -> None:
        written: tuple[Resource, Raw] | None = None
        match decision:
            case WriteClaimStatus():
                written = RESOURCE_CLAIMS, decision.body
            case PatchPod():
                written = PODS, self._bound(decision.pod)
            case WriteReport() if decision.kind == CLAIM_REPORTS.kind:
                written = CLAIM_REPORTS, {**decision.body}
            case _:
                self.engine.settle(Outcome(decision, 200), self.now)
                return
        resource, item = written
        metadata = item["metadata"] = dict(item["metadata"])
        known = self.objects.get((resource.kind, Key(metadata.get("namespace", ""), metadata["name"])))
        if known is not None:
            metadata["uid"] = known["metadata"]["uid"]
        stored = self._inventory.stored(item)
        self.engine.settle(Outcome(decision, 200, object=stored), self.now)
        self._tell(resource, "MODIFIED", stored)

    def _bound(self, key: Key) -> Raw:
        """Without its gate the pod is bound to the node of its device."""
        pod = self.objects["Pod", key]
        claim = self.objects["ResourceClaim", Key(key.namespace, claim_name(key.name))]
        node = claim["status"]["allocation"]["devices"]["results"][0]["pool"]
        spec = {**pod["spec"], "schedulingGates": [], "nodeName": node}
        return {**pod, "spec": spec, "status": {**pod["status"], **running()}}


class Churn:
    """`rate` lives begin every second, each lasts `seconds`."""

    def __init__(self, cluster: Cluster, rate: float, seconds: float) -> None:
        self._cluster, self._step, self._seconds = cluster, 1.0 / rate, seconds
        self._living: deque[tuple[float, Key]] = deque()

    def run(self, seconds: float) -> tuple[int, float]:
        """Go on for so long, then let all leave; the most units that waited at once, and milliseconds of CPU a life."""
        cluster, end, waiting = self._cluster, self._cluster.now + seconds, 0
        lives, began = cluster.lives, time.process_time()
        while cluster.now < end:
            pod = cluster.arrive()
            if cluster.lives % IMPATIENT == 0:
                cluster.leave(pod)
            else:
                self._living.append((cluster.now + self._seconds, pod))
            cluster.settle()
            waiting = max(waiting, cluster.engine.waiting)
            cluster.now += self._step
            self._retire(cluster.now)
        self._retire(float("inf"))
        cluster.settle()
        spent = time.process_time() - began
        cluster.now += 600.0  # ages, spacings and grace times run out
        cluster.settle()
        return waiting, 1000 * spent / (cluster.lives - lives)

    def _retire(self, now: float) -> None:
        while self._living and self._living[0][0] <= now:
            self._cluster.leave(self._living.popleft()[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=6.0, help="of virtual time")
    parser.add_argument("--rate", type=float, default=10.0, help="claims a second that arrive, and leave")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each lives")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    if options.rate * options.seconds > options.nodes * 8:
        parser.error(f"{options.rate * options.seconds:.0f} claims at a time do not fit {options.nodes * 8} devices")
    tracemalloc.start()
    cluster = Cluster(options.nodes)
    churn = Churn(cluster, options.rate, options.seconds)
    looks: list[Look] = []
    held: list[Counter[str]] = []
    for tenth in range(10):
        waiting, cost = churn.run(6.0 * options.minutes)
        gc.collect()
        counted = lasting(entries(cluster.engine))
        held.append(counted)
        memory = tracemalloc.get_traced_memory()[0] / 1e6
        minutes = (tenth + 1) * options.minutes / 10
        looks.append(Look(minutes, cluster.lives, round(memory, 2), counted.total(), waiting, round(cost, 3)))
    grown = {path: (held[0][path], count) for path, count in held[-1].items() if count > held[0][path]}
    flat = looks[-1].memory <= 1.1 * looks[0].memory
    if options.output == "json":
        print(json.dumps({"rate": options.rate, "looks": [asdict(look) for look in looks], "grown": grown}, indent=2))
    else:
        print(table(options, looks, grown))
    return 0 if flat and not grown else 1


def table(options: argparse.Namespace, looks: list[Look], grown: dict[str, tuple[int, int]]) -> str:
    lines = [
        f"{options.rate:g} claims/s arrive and leave, {options.nodes} nodes x 8 devices, virtual time; looked at when all are gone",
        f"{'minutes':>8}{'lives':>9}{'memory, MB':>12}{'entries':>9}{'most waiting':>14}{'CPU ms a life':>15}",
        *(
            f"{look.minutes:8.1f}{look.lives:9}{look.memory:12.2f}{look.entries:9}{look.waiting:14}{look.milliseconds:15.2f}"
            for look in looks
        ),
    ]
    lines += [f"grown: {path}: {before} -> {after}" for path, (before, after) in sorted(grown.items())]
    return "\n".join(lines + ([] if grown else ["no container holds more than after the first tenth"]))


if __name__ == "__main__":
    sys.exit(main())
