"""Random lives with policies that are Strict, go by fair shares, or both, and what each unit must have been told of its turn."""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.engine.engine import Engine
from dra_operator.engine.rows import place_of
from dra_operator.queue.units import Unit
from tests.engine.stage import claim, device_class, namespace, pod, policy, template
from tests.simulation.upheaval import Upheaval

OTHER = "other"
#: Classes of which the first competes with both others, and these do not compete.
CLASSES = {
    "gpu": 'device.driver == "gpu.example.com"',
    "low": 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].index < 1',
    "high": 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].index > 0',
}


class QueueStory(Upheaval):
    """As an upheaval, but more waits than there is, in two namespaces with a policy each."""

    def _build(self) -> None:
        super()._build()
        self.player.apply([namespace(OTHER, team=OTHER), template(namespace=OTHER)])
        self.player.apply([device_class(name, expression) for name, expression in CLASSES.items()])
        self.edit_policy()

    def edit_policy(self) -> None:
        """One policy for all, and one for the other namespace, each with one class less where it feels like it."""
        choice = self.random.choice
        for name, selector in (("p", {}), ("q", {"namespaceSelector": {"matchLabels": {"team": OTHER}}})):
            terms = {
                "starvation": {"after": choice(["3s", "20s"]), "hold": choice([True, False]), **self._boost()},
                "preemption": {"mode": choice(["Never", "WhenStarved"])},
                "queueing": choice(["Strict", "Strict", "Backfill"]),
                "fairness": choice(["FIFO", "FairShare"]),
                "weight": choice([1, 2]),
                "quota": choice([[], [], [{"deviceClassName": "low", "devices": 1}]]),
            }
            self.player.apply([policy(name, **selector, **terms)])

    def _boost(self) -> dict[str, int]:
        return self.random.choice([{}, {"boostPerMinute": 60, "maxBoost": 600}])

    def bare(self) -> None:
        """Some that are alike, and more than one device each now and then; nine fit nowhere."""
        choice = self.random.choice
        of, count, where = choice(list(CLASSES)), choice([1, 1, 1, 2, 9]), choice(["default", OTHER])
        items = [claim(self._name("bare"), count, of=of, namespace=where) for _ in range(choice([1, 2, 5]))]
        if choice([True, False, False]):
            for item in items:
                item["metadata"]["annotations"] = {"dra-operator.dev/priority-class": "high"}
        self.player.apply(items)

    def run_pod(self) -> None:
        where = self.random.choice(["default", OTHER])
        item = pod(self._name("pod"), templates=["gpu"], namespace=where, cpu=self.random.choice(["1", "3"]))
        item["metadata"]["annotations"] = {"dra-operator.dev/run-for": f"{self.random.randint(1, 40)}s"}
        self.player.apply([item])

    def remove(self) -> None:
        """Claims mostly: what they have comes free."""
        for where in ("default", OTHER):
            name = self._some("ResourceClaim", where)
            if name is not None:
                self._send("DELETE", "ResourceClaim", name, namespace=where)


def in_turn(engine: Engine, now: float) -> Iterator[tuple[Unit, Unit | None]]:
    """Every unit that waits and may be tried, best first, and the stuck one that keeps it back: by the rule alone, looking at all."""
    state = engine._state
    stuck: list[tuple[str, Unit]] = []
    for unit in sorted(state.waiting.values(), key=place_of):
        if unit.not_before > now:
            continue
        policy, terms = state.terms(unit)
        mine = engine._placer.candidates(unit)
        ahead = None
        for name, other in stuck:
            theirs = engine._placer.candidates(other)
            if name == policy and mine is not None and theirs is not None and mine.overlaps(theirs):
                ahead = other
                break
        yield unit, ahead
        waits_in_vain = unit.impossible or unit.reason == "QuotaExceeded"
        if ahead is None and terms.queueing == "Strict" and mine is not None and not waits_in_vain:
            stuck.append((policy, unit))
