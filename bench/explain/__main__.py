"""What explanations cost: `python -m bench.explain [--nodes 500] [--cluster] [--json FILE]`.

Counting: a fill in which many claims do not fit, with `solve` (which says why not) and with `attempt` (which does not).
Allocating: the engine while pods arrive, many of which have to wait, until the last of them is placed, with the details of
explanations in reports and without. Reporting: the same until a minute later, when all reports are written; what the details add, as
a share of a core.
Explanations: one of a waiting claim, as a report has it and as `kubectl-dra explain` has it.
With --cluster also: the commands on a real control plane of so many nodes, wall clock and CPU of the whole process.

Else all in CPU seconds of this process, the smallest of several runs where two sides are compared. Exit code 1 where explaining adds 15 %
or more to allocation.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from dra_operator.allocator import Problem, Solved, attempt, solve
from dra_operator.api.claims import DeviceClass, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.engine.decisions import Outcome, PatchPod, WriteClaimStatus, WriteReport
from dra_operator.engine.detailing import Details
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.settings import EngineSettings
from dra_operator.explain.bench import BRIEF, THOROUGH, Effort
from dra_operator.explain.explaining import explain
from dra_operator.explain.situation import Holding, Situation
from dra_operator.inventory import Inventory

DRIVER = "gpu.example.com"
DEVICES = 8
LIMIT = 0.15
RUNS = 3
#: Seconds without arrivals at the end.
SILENCE = 60.0
NEWER = f'device.attributes["{DRIVER}"].model == "H100"'
LARGE = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
Object = dict[str, Any]


def slice_of(number: int) -> Object:
    newer = number % 4 == 0
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": "H100" if newer else "A100"},
                "uuid": {"string": f"gpu-{number}-{index}"},
                "resource.kubernetes.io/numaNode": {"int": index // 4},
            },
            "capacity": {"memory": {"value": "80Gi" if newer else "40Gi"}},
        }
        for index in range(DEVICES)
    ]
    name = f"n{number:05}"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}


def node_of(number: int) -> Object:
    sizes = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return {"metadata": {"name": f"n{number:05}", "resourceVersion": "1"}, "status": {"allocatable": sizes}}


def device_class() -> Object:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {"metadata": {"name": "gpu", "resourceVersion": "1"}, "spec": {"selectors": selectors}}


def request_of(random: Random) -> Object:
    exactly: Object = {"deviceClassName": "gpu", "count": random.choice((1, 1, 1, 2, 2, 4, 8))}
    selector = random.choice((None, None, None, NEWER, LARGE))
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


# -- counting


def inventory_of(nodes: int) -> Inventory:
    inventory = Inventory()
    inventory.apply_class(DeviceClass.from_dict(device_class()))
    for number in range(nodes):
        inventory.apply_node(Node.from_dict(node_of(number)))
        inventory.apply_slice(ResourceSlice.from_dict(slice_of(number)))
    inventory.refresh()
    return inventory


def claims_of(count: int) -> list[ResourceClaim]:
    random = Random(1)
    return [
        ResourceClaim.from_dict(
            {"metadata": {"name": f"c{i}", "namespace": "d", "uid": f"u{i}"}, "spec": request_of(random)}
        )
        for i in range(count)
    ]


def fill(nodes: int, counting: bool) -> tuple[float, int]:
    """CPU seconds and how many did not fit."""
    inventory, claims = inventory_of(nodes), claims_of(nodes * 6)
    failed = 0
    began = time.process_time()
    for claim in claims:
        problem = Problem((claim,))
        answer = solve(problem, inventory.snapshot()) if counting else attempt(problem, inventory.snapshot())
        if isinstance(answer, Solved):
            inventory.use(claim.meta.uid, answer.allocations[0])
        else:
            failed += 1
    return time.process_time() - began, failed


# -- reports


class Plain(Details):
    """Reports without details."""

    def of(self, seen: Any, unit: Any, summary: str, now: float, *, quiet: bool) -> dict[str, Any]:
        return {"summary": summary}


def arrivals(nodes: int, details: bool) -> Api:
    """Pods arrive for a quarter of a minute; a minute later everything is said."""
    random = Random(1)
    engine = Engine(EngineSettings())
    if not details:
        engine._reporter._details = Plain(engine._state, engine._explainer)
    now = 1_800_000_000.0
    engine.observe("Namespace", "ADDED", {"metadata": {"name": "d", "resourceVersion": "1"}}, now)
    engine.observe("DeviceClass", "ADDED", device_class(), now)
    for number in range(nodes):
        engine.observe("Node", "ADDED", node_of(number), now)
        engine.observe("ResourceSlice", "ADDED", slice_of(number), now)
    for kind in WATCHED:
        engine.synced(kind)
    engine.decide(now)
    api = Api(engine)
    for second in range(15):
        for number in range(nodes // 4):
            api.add(*pod_with_claim(second * nodes + number, request_of(random), now), now)
        now = api.run(now, 1.0)
    api.run(now, SILENCE)
    return api


def pod_with_claim(number: int, spec: Object, now: float) -> tuple[Object, Object]:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    meta = {"namespace": "d", "name": f"p{number}", "creationTimestamp": created}
    claim = {
        "metadata": {
            **meta,
            "uid": f"claim-{number:06}",
            "labels": {"dra-operator.dev/managed": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": spec,
    }
    pod = {
        "metadata": {**meta, "uid": f"pod-{number:06}", "resourceVersion": "1"},
        "spec": {
            "schedulingGates": [{"name": "dra-operator.dev/allocation"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": meta["name"]}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    return pod, claim


class Api:
    """An API server that accepts every write at once and tells of it, with a scheduler that binds what is let go.

    `spent`: CPU seconds of the engine alone, `placing` of these until the last allocation.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.version = 10
        self.explained = 0
        self.spent = self.placing = 0.0
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, str] = {}

    def add(self, pod: Object, claim: Object, now: float) -> None:
        self._stamp(claim)
        self.pods[pod["metadata"]["name"]] = pod
        with self._timed():
            self.engine.observe("ResourceClaim", "ADDED", claim, now)
            self.engine.observe("Pod", "ADDED", pod, now)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.spent += time.process_time() - began

    def _stamp(self, item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)

    def run(self, now: float, seconds: float) -> float:
        """Until so much later."""
        end = now + seconds
        while now < end:
            with self._timed():
                decisions = self.engine.decide(now)
            for decision in decisions:
                self._carry_out(decision, now)
            wake = self.engine.next_wake(now)
            now = end if wake is None else max(now + 0.01, min(wake, end))
        return end

    def _carry_out(self, decision: Any, now: float) -> None:
        body = json.loads(json.dumps(getattr(decision, "body", None)))
        if isinstance(decision, PatchPod):
            body = self._bound(decision.pod.name)
        if isinstance(decision, WriteReport):
            self.explained += "fixes" in (body["status"].get("explanation") or {})
        if isinstance(body, dict) and "metadata" in body:
            self._stamp(body)
        with self._timed():
            self.engine.settle(Outcome(decision, 200, "", "", body), now)
            if isinstance(decision, WriteClaimStatus):
                self.placing = self.spent
                self.nodes[decision.claim.name] = body["status"]["allocation"]["devices"]["results"][0]["pool"]
                self.engine.observe("ResourceClaim", "MODIFIED", body, now)
            elif isinstance(decision, WriteReport):
                self.engine.observe(decision.kind, "MODIFIED", {"kind": decision.kind, **body}, now)
            elif isinstance(decision, PatchPod):
                self.engine.observe("Pod", "MODIFIED", body, now)

    def _bound(self, name: str) -> Object:
        """The pod without its gate, on the node of its devices (each pod's claim has its name)."""
        pod = self.pods[name] = copy.deepcopy(self.pods[name])
        del pod["spec"]["schedulingGates"]
        pod["spec"]["nodeName"] = self.nodes[name]
        return pod


# -- explanations


def explanation(nodes: int, effort: Effort | None) -> float:
    """CPU seconds of one explanation on a full cluster."""
    inventory = inventory_of(nodes)
    for claim in claims_of(nodes * 6):
        answer = solve(Problem((claim,)), inventory.snapshot())
        if isinstance(answer, Solved):
            inventory.use(claim.meta.uid, answer.allocations[0])
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {
        "deviceClassName": "gpu", "count": 4, "selectors": [{"cel": {"expression": f"{LARGE} && {NEWER}"}}]}}]}}  # fmt: skip
    waiting = ResourceClaim.from_dict({"metadata": {"name": "w", "namespace": "d", "uid": "w"}, "spec": spec})

    def holding(uid: str) -> Holding:
        return Holding(f"claim d/{uid}", (f"ResourceClaim d/{uid}",), (uid,))

    situation = Situation(problem=Problem((waiting,)), snapshot=inventory.snapshot(), holding=holding)
    began = time.process_time()
    explain(situation, effort)
    return time.process_time() - began


# -- the whole


def smallest(run: Callable[[bool], tuple[float, ...]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What the runs with and without cost, figure by figure; they take turns."""
    found: dict[bool, list[tuple[float, ...]]] = {True: [], False: []}
    for _ in range(RUNS):
        for which in (False, True):
            gc.collect()
            found[which].append(run(which))
    return tuple(map(min, zip(*found[True], strict=True))), tuple(map(min, zip(*found[False], strict=True)))


def compared(what: str, with_it: float, without: float) -> dict[str, Any]:
    overhead = with_it / without - 1
    print(f"{what:<10} {without:7.3f} s without, {with_it:7.3f} s with: {overhead:+6.1%}")
    return {"what": what, "with_s": with_it, "without_s": without, "overhead": overhead}


def told(api: Api) -> tuple[float, ...]:
    return api.placing, api.spent, float(api.explained)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.explain", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--cluster", action="store_true", help="measure the command on a real control plane as well")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with_it, without = smallest(lambda which: fill(options.nodes, which))
    rows.append(compared("counting", with_it[0], without[0]))
    with_it, without = smallest(lambda which: told(arrivals(options.nodes, which)))
    rows.append(compared("allocating", with_it[0], without[0]))
    share = (with_it[1] - without[1]) / (15 + SILENCE)
    rows.append({"what": "reporting", "share": share, "reports": with_it[2]})
    print(f"reporting   {share:.2%} of a core over {15 + SILENCE:.0f} s, {with_it[2]:.0f} reports with an explanation")
    for nodes in sorted({options.nodes, 5000}):
        for name, effort in (("funnel", None), ("report", BRIEF), ("command", THOROUGH)):
            seconds = explanation(nodes, effort)
            rows.append({"what": f"explanation: {name}", "nodes": nodes, "seconds": seconds})
            print(f"explanation at {nodes:>5} nodes, {name:<8} {1000 * seconds:8.1f} ms")
    if options.cluster:
        from bench.explain.cluster import measure

        for row in measure(options.nodes, options.nodes):
            rows.append(row)
            print(
                f"{row['what']}: {row['seconds']:.2f} s, {row['cpu']:.2f} s of CPU, {row['nodes']} nodes, {row['pods']} pods"
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    if any(row.get("overhead", 0.0) >= LIMIT for row in rows):
        print(f"overhead of {LIMIT:.0%} or more", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
