"""What is told of each request: the funnel from all devices to the usable ones, and what each term of its selectors rejects."""

from __future__ import annotations

from dra_operator.explain.conjuncts import Terms
from dra_operator.explain.explanation import RequestExplanation
from dra_operator.explain.looking import Look


def requests_of(look: Look, terms: list[Terms]) -> tuple[RequestExplanation, ...]:
    """By way of the look's plan, as `terms`."""
    return tuple(
        RequestExplanation(
            claim=str(look.situation.problem.claims[way.claim].key),
            request=way.name,
            device_class=way.detail.device_class_name,
            wanted=None if way.all else way.count,
            devices=row.devices,
            steps=row.steps(way, look.holder),
            usable=row.usable,
            most_on_a_node=row.most_on_a_node,
            conjuncts=terms[way.index].counts(way),
        )
        for way, row in zip(look.plan.ways, look.rows, strict=True)
    )
