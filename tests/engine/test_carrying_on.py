"""While much waits to be written nothing is placed, but what frees devices or lets pods go is decided all the same."""

from __future__ import annotations

from typing import Any

from dra_operator.engine.decisions import Decision, Outcome, PatchPod, WriteClaimStatus
from dra_operator.engine.engine import WATCHED, Engine
from dra_operator.engine.names import GATE
from tests.engine.stage import claim, device_class, gpus, node, pod

NOW = 1_800_000_000.0
CREATED = "2027-01-15T08:00:00Z"


class Wire:
    """An engine alone: what is told to it and what it answers, nothing else happens."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.engine, self.version = Engine(), 0
        for item in objects:
            self.tell(item)
        for kind in WATCHED:
            self.engine.synced(kind)

    def tell(self, item: dict[str, Any], **status: Any) -> None:
        self.version += 1
        metadata = {"uid": f"uid-{item['metadata']['name']}", "creationTimestamp": CREATED, **item["metadata"]}
        stored = {**item, "metadata": {**metadata, "resourceVersion": str(self.version)}, **status}
        self.engine.observe(item["kind"], "ADDED", stored, NOW)

    def arrive(self, name: str) -> None:
        """A pod with our gate and its claim, as admission leaves them."""
        labels, finalizers = {"dra-operator.dev/managed": "true"}, ["resource.kubernetes.io/delete-protection"]
        wanted = claim(f"{name}-gpu")
        wanted["metadata"] |= {"labels": labels, "finalizers": finalizers}
        self.tell(wanted)
        self.tell(pod(name, f"{name}-gpu", schedulingGates=[{"name": GATE}], schedulerName="default-scheduler"))

    def written(self, decisions: list[Decision]) -> list[str]:
        """Answer the allocations among them, and show them; their claims."""
        made = [each for each in decisions if isinstance(each, WriteClaimStatus)]
        for each in made:
            self.engine.settle(Outcome(each, 200), NOW)
            self.tell(each.body)
        return [each.claim.name for each in made]


def test_a_pod_whose_devices_are_written_is_let_go_and_no_other_is_placed() -> None:
    wire = Wire(node("n1"), gpus("n1", 2), device_class())
    wire.arrive("first")
    assert wire.written(wire.engine.decide(NOW)) == ["first-gpu"]
    wire.arrive("second")
    [only] = wire.engine.carry_on(NOW + 1)
    assert isinstance(only, PatchPod)
    assert only.pod.name == "first"
    assert wire.engine.carry_on(NOW + 2) == []
    assert wire.written(wire.engine.decide(NOW + 3)) == ["second-gpu"], "and what was left is placed when there is room"


def test_before_everything_is_known_nothing_is_carried_on() -> None:
    engine = Engine()
    engine.observe("Node", "ADDED", node("n1"), NOW)
    assert engine.carry_on(NOW) == []
