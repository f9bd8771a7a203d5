"""Random lives with ClaimGroups among the rest, and what must hold for a gang at every step and in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_operator.cluster.memory.faults import Faults
from dra_operator.cluster.memory.invariants import Violation
from dra_operator.cluster.memory.runner import Executed
from dra_operator.cluster.rest import BY_KIND
from dra_operator.engine.decisions import PatchPod, WriteClaimStatus
from tests.engine.stage import claim, node, pod, template, workload
from tests.simulation.story import Object, Story

LABEL = "dra-operator.dev/claim-group"
RACK = "example.com/rack"
GATE = "dra-operator.dev/allocation"


class GangStory(Story):
    """As `Story`, in two racks, with gangs of pods that are alike."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        super().__init__(seed, faults)
        self.broken: list[Violation] = []
        self.given: set[str] = set()
        self.runner.listeners.append(self._hear)

    def _build(self) -> None:
        super()._build()
        for index, name in enumerate(sorted(item["metadata"]["name"] for item in self._all("Node"))):
            self._send("PATCH", "Node", name, {"metadata": {"labels": {RACK: f"r{index % 2}"}}})
        self.player.apply([node("spare", cpu="4", **{RACK: "r0"})])

    def _all(self, kind: str) -> list[Object]:
        return list(self.world.server.store.listed(BY_KIND[kind]))

    # -- what happens

    def deeds(self) -> list[Callable[[], None]]:
        return [
            self.gang,
            self.gang,
            self.crew,
            self.newcomer,
            self.run_pod,
            self.run_job,
            self.remove,
            self.remove_group,
            self.cordon,
        ]

    def _group(self, name: str, least: int) -> Object:
        spec: Object = {"minMembers": least, "timeout": "40s"}
        if self.random.random() < 0.5:
            spec["topology"] = {"key": RACK, "mode": self.random.choice(["Same", "Spread", "Prefer"])}
        meta = {"name": name, "namespace": "default"}
        return {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimGroup", "metadata": meta, "spec": spec}

    def gang(self) -> None:
        """A Job whose pods are one group."""
        name, count = self._name("gang"), self.random.randint(2, 4)
        item = workload("Job", name, count, templates=[self.random.choice(["gpu", "two"])])
        meta = item["spec"]["template"]["metadata"]
        meta["labels"][LABEL] = name
        if self.random.random() < 0.7:
            meta["annotations"] = {"dra-operator.dev/run-for": f"{self.random.randint(1, 60)}s"}
        self.player.apply([template(), self._group(name, self.random.randint(1, count)), item])

    def crew(self) -> None:
        """Single pods of a group, perhaps too few; the group may come later, or never."""
        name, count = self._name("crew"), self.random.randint(1, 4)
        items = [self._member(name) for _ in range(count)]
        if self.random.random() < 0.8:
            items.insert(0, self._group(name, self.random.randint(1, count + 1)))
        self.player.apply(items)

    def newcomer(self) -> None:
        """One more pod, or a claim without a pod, for a group that is there."""
        name = self._some("ClaimGroup")
        if name is None:
            return
        if self.random.random() < 0.7:
            self.player.apply([self._member(name)])
            return
        item = claim(self._name("bare"))
        item["metadata"]["labels"] = {LABEL: name}
        self.player.apply([item])

    def _member(self, group: str) -> Object:
        return pod(self._name("member"), templates=["gpu"], labels={LABEL: group})

    def remove_group(self) -> None:
        name = self._some("ClaimGroup")
        if name is not None and self.random.random() < 0.5:
            self._send("DELETE", "ClaimGroup", name)

    # -- what must hold

    def _members(self, group: str) -> list[Object]:
        return [
            item
            for item in self._all("Pod")
            if item["metadata"].get("labels", {}).get(LABEL) == group
            and not item["metadata"].get("deletionTimestamp")
            and (item.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def _hear(self, executed: Executed) -> None:
        """Whoever is let go leaves at least minMembers behind that were given devices, itself among them.

        Judged by what the operator wrote: it cannot know yet what was deleted a moment ago.
        """
        decision, response = executed.decision, executed.response
        if response is None or not response.ok:
            return
        if isinstance(decision, WriteClaimStatus):
            (self.given.add if decision.action == "allocate" else self.given.discard)(decision.claim.name)
        if not isinstance(decision, PatchPod):
            return
        group = (response.body["metadata"].get("labels") or {}).get(LABEL)
        spec = next((item["spec"] for item in self._all("ClaimGroup") if item["metadata"]["name"] == group), None)
        if group is None or spec is None:
            return
        self._in_one_rack(group, spec)
        placed = sum(1 for item in self._ever(group) if self._was_given(item))
        if placed + self._bare(group) < spec["minMembers"]:
            self.broken.append(
                Violation(self.world.now, "a gang starts whole", f"pod {decision.pod}", f"{placed} placed")
            )

    def _in_one_rack(self, group: str, spec: Object) -> None:
        if (spec.get("topology") or {}).get("mode") != "Same":
            return
        racks = {item["metadata"]["name"]: item["metadata"]["labels"].get(RACK) for item in self._all("Node")}
        let_go = [item for item in self._members(group) if not _gated(item)]
        found = {item["metadata"]["name"]: sorted({racks.get(node) for node in self._nodes(item)}) for item in let_go}
        if len({rack for each in found.values() for rack in each}) > 1:
            self.broken.append(Violation(self.world.now, "a gang is under one value", f"group {group}", str(found)))

    def _nodes(self, item: Object) -> set[str]:
        """Where its devices are."""
        return {
            result["pool"]
            for each in self._all("ResourceClaim")
            if each["metadata"]["name"] in _claims(item)
            for result in ((each.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        }

    def _was_given(self, item: Object) -> bool:
        return _claims(item) <= self.given

    def _ever(self, group: str) -> list[Object]:
        return [item for item in self._all("Pod") if item["metadata"].get("labels", {}).get(LABEL) == group]

    def _bare(self, group: str) -> int:
        return sum(
            1 for item in self._all("ResourceClaim") if (item["metadata"].get("labels") or {}).get(LABEL) == group
        )

    def _has_devices(self, item: Object) -> bool:
        """For itself: no other pod uses them."""
        claims = [each for each in self._all("ResourceClaim") if each["metadata"]["name"] in _claims(item)]
        states = [each.get("status") or {} for each in claims]
        users = {user["uid"] for state in states for user in state.get("reservedFor") or ()}
        return bool(claims) and all(state.get("allocation") for state in states) and users <= {item["metadata"]["uid"]}

    def rest(self, seconds: float = 900.0) -> list[Violation]:
        self.world.run_until(self.world.now + seconds)
        return self.broken + self.invariants.at_rest() + self._halves() + self._forgotten()

    def _halves(self) -> list[Violation]:
        """At rest nobody who waits to be let go has devices."""
        return [
            Violation(
                self.world.now, "a gang has all or nothing", f"pod {item['metadata']['name']}", "gated, with devices"
            )
            for item in self._all("Pod")
            if item["metadata"].get("labels", {}).get(LABEL) and _gated(item) and self._has_devices(item)
        ]

    def _forgotten(self) -> list[Violation]:
        """Gangs of which enough wait and would fit: all devices are alike, so counting is enough."""
        found = []
        for group in self._all("ClaimGroup"):
            name, spec = group["metadata"]["name"], group["spec"]
            pods = self._members(name)
            waiting = [item for item in pods if _gated(item)]
            if not waiting or len(pods) != len(waiting) or self._bare(name):
                continue
            if any(_finished(item) for item in self._ever(name)):
                continue
            needs = [self._need(item) for item in waiting]
            if (
                not needs[0][0]
                or len(waiting) < spec["minMembers"]
                or len(set(needs)) > 1
                or self._reports_say_held(waiting)
            ):
                continue
            if self._slots(needs[0], spec.get("topology")) >= spec["minMembers"]:
                text = f"{spec['minMembers']} members with {needs[0]} each would fit"
                found.append(Violation(self.world.now, "nothing that fits waits for ever", f"group {name}", text))
        return found

    def _need(self, item: Object) -> tuple[int, int]:
        """Devices and cpu of one pod."""
        claims = [each for each in self._all("ResourceClaim") if each["metadata"]["name"] in _claims(item)]
        requests: list[Any] = [request for each in claims for request in each["spec"]["devices"]["requests"]]
        cpu = int(item["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return sum(request["exactly"].get("count") or 1 for request in requests), cpu

    def _reports_say_held(self, pods: list[Object]) -> bool:
        names = set().union(*map(_claims, pods))
        return any(
            item["status"].get("hold") for item in self._all("ClaimReport") if item["metadata"]["name"] not in names
        )

    def _slots(self, need: tuple[int, int], topology: Object | None) -> int:
        devices, cpu = need
        taken: dict[str, int] = {}
        for item in self._all("ResourceClaim"):
            for result in ((item.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ()):
                taken[result["pool"]] = taken.get(result["pool"], 0) + 1
        slots: dict[str, int] = {}
        for place in self._all("Node"):
            name = place["metadata"]["name"]
            if place["spec"].get("unschedulable"):
                continue
            published = sum(
                len(item["spec"]["devices"])
                for item in self._all("ResourceSlice")
                if item["spec"].get("nodeName") == name
            )
            used = sum(
                int(item["spec"]["containers"][0]["resources"]["requests"]["cpu"])
                for item in self._all("Pod")
                if item["spec"].get("nodeName") == name and not _finished(item)
            )
            room = (int(place["status"]["allocatable"]["cpu"]) - used) // cpu
            rack = place["metadata"]["labels"].get(RACK, "")
            free = min((published - taken.get(name, 0)) // devices, room)
            slots[rack] = slots.get(rack, 0) + max(0, free)
        if topology is not None and topology.get("mode") == "Same":
            return max((count for rack, count in slots.items() if rack), default=0)
        return sum(slots.values())


class EarlyClaimsStory(GangStory):
    """Members use claims that were made, and often allocated, long before them."""

    def deeds(self) -> list[Callable[[], None]]:
        return [*super().deeds(), self.early_claim, self.early_claim]

    def early_claim(self) -> None:
        self.player.apply([claim(self._name("early"), self.random.randint(1, 2))])

    def _member(self, group: str) -> Object:
        used = set().union(*map(_claims, self._all("Pod")))
        free = [name for item in self._all("ResourceClaim") if (name := item["metadata"]["name"]) not in used]
        early = [name for name in sorted(free) if name.startswith("early")]
        if not early or self.random.random() < 0.3:
            return super()._member(group)
        name = self._name("member")
        return pod(name, self.random.choice(early), labels={LABEL: group})


def _claims(item: Object) -> set[str]:
    """The claims of a pod, generated or named."""
    generated = (item.get("status") or {}).get("resourceClaimStatuses") or ()
    named = item["spec"].get("resourceClaims") or ()
    return {name for each in (*generated, *named) if (name := each.get("resourceClaimName"))}


def _gated(item: Object) -> bool:
    return any(gate["name"] == GATE for gate in item["spec"].get("schedulingGates") or ())


def _finished(item: Object) -> bool:
    return (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
