"""Random lives with priorities, disruption budgets and gangs, and what must hold for every eviction."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.memory.actors.objects import claim_names, deleting
from dra_operator.cluster.memory.faults import Faults
from dra_operator.cluster.memory.invariants import Violation
from dra_operator.cluster.memory.runner import Executed
from dra_operator.cluster.rest import BY_KIND
from dra_operator.engine.decisions import EvictPod, WriteClaimStatus
from tests.engine.stage import claim, pod, policy, priority_class, workload
from tests.simulation.story import Object, Story

LABEL = "dra-operator.dev/claim-group"
PRIORITIES = {"": 0, "mid": 500, "high": 1000}
#: What the policy allows for one unit.
MOST = 4
#: Seconds for which a request may be under way: what comes free meanwhile does not call it back.
IN_FLIGHT = 2.0
_WHY = re.compile(r"makes room for (pod|claim|group) (\S+) of priority (-?\d+)")


@dataclass(frozen=True, slots=True)
class Victim:
    """Evicted `at` (seconds since the epoch); `pools` are those of the devices it had."""

    at: float
    pools: frozenset[str]


class PreemptionStory(Story):
    """All devices are used soon, and units of higher priority come. Nothing but arrivals and departures changes what there is."""

    pauses = (0.0, 0.01, 0.1, 1.0, 5.0, 10.0)

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.broken: list[Violation] = []
        #: By preemptor, as (kind, name), and victim (UID): when it was evicted, and where its devices are.
        self.evicted: dict[tuple[str, str], dict[str, Victim]] = {}
        #: Preemptors of which an eviction was refused or not answered: then others may have gone in vain.
        self.refused: set[tuple[str, str]] = set()
        #: When devices were allocated last, by claim and by gang.
        self.served: dict[str, float] = {}
        self.served_gangs: dict[str, float] = {}
        #: By pod (UID) and claim the pools of its devices: who is evicted may be gone by the time one asks.
        self.places: dict[str, dict[str, frozenset[str]]] = {}
        #: Claims whose allocation an admission policy of somebody else denied: then it was in vain, and nobody could know.
        self.denied: set[str] = set()
        #: What was allocated: when, to whom of which priority, and where.
        self.given: list[tuple[float, int, frozenset[str]]] = []
        self.priority: dict[tuple[str, str], int] = {}
        self.priority_of: dict[str, int] = {}
        self.gang_of: dict[str, str] = {}
        super().__init__(seed, faults)
        self.runner.listeners.append(self._hear)
        self.world.after_step.append(self._look)

    def _build(self) -> None:
        super()._build()
        mode = self.random.choice(["Always", "WhenStarved"])
        self.player.apply(
            [
                *(priority_class(name, value) for name, value in PRIORITIES.items() if name),
                policy(preemption={"mode": mode, "maxVictims": MOST}, starvation={"after": "5s"}),
            ]
        )

    # -- what happens

    def deeds(self) -> list[Callable[[], None]]:
        return [self.run_one, self.run_one, self.staff, self.gang, self.twins, self.idle, self.guard, self.leave]

    def _spec(self) -> Object:
        name = self.random.choice(["", "", "mid", "high"])
        grace = self.random.choice([0, 1, 1, 20])
        return {"terminationGracePeriodSeconds": grace, **({"priorityClassName": name} if name else {})}

    def _app(self) -> str:
        return self.random.choice(["a", "b", "c"])

    def run_one(self) -> None:
        item = pod(
            self._name("one"),
            templates=[self.random.choice(["gpu", "two"])],
            labels={"app": self._app()},
            **self._spec(),
        )
        if self.random.random() < 0.5:
            item["metadata"]["annotations"] = {"dra-operator.dev/run-for": f"{self.random.randint(5, 60)}s"}
        self.player.apply([item])

    def staff(self) -> None:
        self.player.apply([workload("Deployment", self._name("dep"), self.random.randint(1, 3), **self._spec())])

    def gang(self) -> None:
        name, count = self._name("gang"), self.random.randint(2, 3)
        spec = {"minMembers": self.random.randint(1, count), "timeout": "30s"}
        meta = {"name": name, "namespace": "default"}
        group = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimGroup", "metadata": meta, "spec": spec}
        item = workload("Job", name, count, templates=["gpu"], **self._spec())
        item["spec"]["template"]["metadata"]["labels"] = {LABEL: name, "app": self._app()}
        if self.random.random() < 0.5:
            item["spec"]["template"]["metadata"]["annotations"] = {"dra-operator.dev/run-for": "60s"}
        self.player.apply([group, item])

    def twins(self) -> None:
        """Two pods that share a claim. They need no CPU: where the second finds none, it waits for ever and rightly so."""
        name = self._name("shared")
        users = [pod(self._name("twin"), name, labels={"app": self._app()}, cpu="0", **self._spec()) for _ in range(2)]
        self.player.apply([claim(name), *users])

    def idle(self) -> None:
        self.player.apply([claim(self._name("idle"))])

    def guard(self) -> None:
        name = self._app()
        meta = {"name": name, "namespace": "default"}
        spec = {"minAvailable": self.random.randint(0, 2), "selector": {"matchLabels": {"app": name}}}
        self.player.apply([{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}])

    def leave(self) -> None:
        kind = self.random.choice(["Pod", "Pod", "Deployment", "Job", "ClaimGroup", "PodDisruptionBudget"])
        name = self._some(kind)
        if name is not None:
            self._send("DELETE", kind, name)

    # -- what must hold

    def _all(self, kind: str) -> list[Object]:
        return list(self.world.server.store.listed(BY_KIND[kind]))

    def _look(self) -> None:
        for item in self._all("Pod"):
            uid = item["metadata"]["uid"]
            if uid not in self.priority_of:
                self.priority_of[uid] = item["spec"].get("priority") or 0
                self.gang_of[item["metadata"]["name"]] = (item["metadata"].get("labels") or {}).get(LABEL, "")

    def _hear(self, executed: Executed) -> None:
        decision, response = executed.decision, executed.response
        if response is None or not response.ok:
            why = _WHY.fullmatch(decision.reason) if isinstance(decision, EvictPod) else None
            if why is not None:
                self.refused.add((why[1], why[2].rpartition("/")[2]))
            if isinstance(decision, WriteClaimStatus) and response is not None and response.status == 403:
                self.denied.add(decision.claim.name)
            return
        if isinstance(decision, WriteClaimStatus) and decision.action == "allocate":
            self._note(decision.claim.name, _pools(response.body))
        if isinstance(decision, EvictPod) and not decision.dry_run:
            self._judge(decision)

    def _note(self, claim: str, pools: frozenset[str]) -> None:
        """The claim got devices."""
        users = [item for item in self._all("Pod") if claim in claim_names(item).values()]
        self.served[claim] = self.world.now
        for item in users:
            self.served_gangs[self._gang(item)] = self.world.now
            self.places.setdefault(item["metadata"]["uid"], {})[claim] = pools
        # Those that share a claim stand where the first of them does.
        priority = max((item["spec"].get("priority") or 0 for item in users), default=0)
        self.given.append((self.world.now, priority, pools))

    def _judge(self, decision: EvictPod) -> None:
        why = _WHY.fullmatch(decision.reason)
        if why is None:
            return  # not a preemption
        kind, name, priority = why[1], why[2].rpartition("/")[2], int(why[3])
        pools = frozenset[str]().union(*self.places.get(decision.uid, {}).values())
        self.evicted.setdefault((kind, name), {})[decision.uid] = Victim(self.world.now, pools)
        self.priority[kind, name] = priority
        if self.priority_of[decision.uid] >= priority:
            self._break("no victim of equal or higher priority", decision)
        if kind == "group" and self.gang_of.get(decision.pod.name) == name:
            self._break("no victim of its own gang", decision)

    def _break(self, rule: str, decision: EvictPod) -> None:
        self.broken.append(Violation(self.world.now, rule, f"pod {decision.pod}", decision.reason))

    def rest(self, seconds: float = 600.0) -> list[Violation]:
        self.world.run_until(self.world.now + seconds)
        return self.broken + self.invariants.at_rest() + self._in_vain() + self._thrash()

    def _in_vain(self) -> list[Violation]:
        """Every preemptor that is still there got its devices after its last victim went, unless others of higher priority came."""
        return [
            Violation(self.world.now, "no eviction in vain", f"{kind} {name}", f"{len(victims)} evicted, not served")
            for (kind, name), victims in self.evicted.items()
            if self._exists(kind, name)
            and (kind, name) not in self.refused
            and self.denied.isdisjoint(self._claims(kind, name))
            and self._served(kind, name) < max(victim.at for victim in victims.values()) - IN_FLIGHT
            and not self._overtaken(kind, name)
        ]

    def _overtaken(self, kind: str, name: str) -> list[float]:
        """When others of higher priority got devices where a victim had gone before."""
        victims = self.evicted[kind, name].values()
        return [
            at
            for at, priority, pools in self.given
            if priority > self.priority[kind, name]
            and any(victim.at <= at and not victim.pools.isdisjoint(pools) for victim in victims)
        ]

    def _served(self, kind: str, name: str) -> float:
        """When the unit got devices last; of a gang that gave them back to others since, its former members."""
        if kind == "group":
            return self.served_gangs.get(name, 0.0)
        return max((self.served.get(each, 0.0) for each in self._claims(kind, name)), default=0.0)

    def _claims(self, kind: str, name: str) -> list[str]:
        """The names of the unit's claims."""
        if kind == "claim":
            return [name]
        pods = [item for item in self._all("Pod") if name in (item["metadata"]["name"], self._gang(item))]
        return [each for item in pods for each in claim_names(item).values() if each]

    def _exists(self, kind: str, name: str) -> bool:
        """A group is there as long as members of it are."""
        kinds = {"pod": "Pod", "claim": "ResourceClaim", "group": "ClaimGroup"}
        there = any(item["metadata"]["name"] == name and not deleting(item) for item in self._all(kinds[kind]))
        if kind != "group":
            return there
        return there and any(self._gang(item) == name and not deleting(item) for item in self._all("Pod"))

    @staticmethod
    def _gang(item: dict[str, Any]) -> str:
        found: str = (item["metadata"].get("labels") or {}).get(LABEL, "")
        return found

    def _thrash(self) -> list[Violation]:
        """Nobody makes more go than the policy allows for one unit, unless others of higher priority got what had come free; a gang may be
        served anew after it was evicted itself."""
        return [
            Violation(self.world.now, "evictions are bounded", f"{kind} {name}", f"{most} evicted")
            for (kind, name), victims in self.evicted.items()
            if kind != "group" and (most := _most_between(victims.values(), self._overtaken(kind, name))) > MOST
        ]


def _pools(claim: Object) -> frozenset[str]:
    results = (claim.get("status") or {}).get("allocation", {}).get("devices", {}).get("results") or ()
    return frozenset(result["pool"] for result in results)


def _most_between(victims: Iterable[Victim], times: list[float]) -> int:
    """How many went at most between two of these times."""
    spans = Counter(bisect_left(times, victim.at) for victim in victims)
    return max(spans.values(), default=0)
