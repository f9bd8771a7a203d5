"""A row of a table about single requests, and the things that several tables start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.semantics.things import Step, claim, create, pod, said, uses
from tests.cluster.semantics.worlds import GATE, ClusterWorld, Place


@dataclass(frozen=True)
class Row:
    """`want` is status, reason and fields of the causes; `then` must hold of the body."""

    name: str
    do: Step
    want: str
    given: tuple[Step, ...] = ()
    then: Callable[[dict[str, Any]], bool] | None = None
    exempt: bool = False

    def __str__(self) -> str:
        return self.name

    def play(self, world: ClusterWorld) -> None:
        place = Place(world, exempt=self.exempt)
        for step in self.given:
            response = step(place)
            assert response.ok, f"given: {said(response)}: {response.message}"
        response = self.do(place)
        assert said(response) == self.want, response.message
        if self.then is not None:
            assert self.then(response.body), response.body


def gates(item: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in item["spec"].get("schedulingGates") or ()]


REPORT = {
    "apiVersion": "dra-operator.dev/v1alpha1",
    "kind": "ClaimReport",
    "metadata": {"name": "c"},
    "status": {"phase": "Queued"},
}
GATED = create(pod(claims=[uses("c")]))
# Of a scheduler that is not there, so that nothing writes to it meanwhile.
PLAIN = create(pod(schedulerName="nobody"))
CLAIM = create(claim())
UNGATE = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
