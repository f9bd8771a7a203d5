"""Explanations are true: every fix told makes the unit fit, and the funnel counts what a recount by brute force counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Failed, Problem, Solved, Strategy, solve, validate
from dra_operator.allocator.document import read_document
from dra_operator.explain.bench import BRIEF, THOROUGH
from dra_operator.explain.explaining import Proof, explain, explain_with_proofs
from dra_operator.explain.explanation import Explanation
from dra_operator.explain.situation import Holding, Situation
from dra_operator.inventory import Inventory
from tests.allocator.problems import make_problem
from tests.explain.recount import USABLE, recount
from tests.explain.worlds import make_world

SEEDS = 150
Make = Callable[[int], dict[str, Any]]


def holding(uid: str) -> Holding:
    return Holding(f"claim {uid}", (f"ResourceClaim {uid}",), (uid,))


def situation_of(seed: int, make: Make) -> tuple[Inventory, Situation]:
    document = read_document(make(seed))
    inventory = document.inventory
    devices = sorted(offer.id for offer in inventory.offers())
    held = frozenset(devices[::5]) if seed % 3 == 0 else frozenset()
    strategy = Strategy.FirstFit if seed % 7 == 0 else Strategy.Fragmentation
    problem = Problem(document.claims, forbidden=held, strategy=strategy)
    return inventory, Situation(problem=problem, snapshot=inventory.snapshot(), holding=holding)


@pytest.mark.parametrize("make", [make_world, make_problem])
def test_property_the_funnel_equals_a_recount(make: Make) -> None:
    for seed in range(SEEDS):
        inventory, situation = situation_of(seed, make)
        explanation = explain(situation)
        if not explanation.requests:
            continue
        expected = recount(inventory, situation.problem)
        claims = [str(claim.key) for claim in situation.problem.claims]
        for item in explanation.requests:
            counted = Counter({(step.why, step.index): step.devices for step in item.steps})
            if item.usable:
                counted[USABLE] = item.usable
            assert counted == expected[claims.index(item.claim), item.request], (seed, item.request)
            assert item.devices == sum(step.devices for step in item.steps) + item.usable


@pytest.mark.parametrize("make", [make_world, make_problem])
def test_property_every_fix_makes_it_fit(make: Make) -> None:
    proven: Counter[str] = Counter()
    for seed in range(SEEDS):
        _, situation = situation_of(seed, make)
        explanation, proofs = explain_with_proofs(situation, THOROUGH)
        assert [proof.fix for proof in proofs] == list(explanation.fixes)
        for proof in proofs:
            assert_fits(seed, make, situation, proof)
            proven[proof.fix.kind] += 1
    assert sum(proven.values()) > 20, proven


def assert_fits(seed: int, make: Make, situation: Situation, proof: Proof) -> None:
    """The change is made on a fresh inventory, and both the search and the validator agree to the outcome."""
    draft, inventory = proof.draft, read_document(make(seed)).inventory
    for device_class in draft.classes.values():
        inventory.apply_class(device_class)
    for uid in draft.released:
        inventory.release(uid)
    problem = Problem(
        draft.problem.claims,
        forbidden=draft.problem.forbidden,
        strategy=draft.problem.strategy,
        constraints=draft.problem.constraints,
        ignore_usage=draft.another_node,
    )
    answer = solve(problem, inventory.snapshot())
    assert isinstance(answer, Solved), (seed, proof.fix.text, answer)
    if not draft.another_node:
        assert not validate(inventory.snapshot(), problem.claims, answer.allocations, answer.node), (seed, proof.fix)


@pytest.mark.parametrize("make", [make_world, make_problem])
def test_property_explaining_changes_nothing(make: Make) -> None:
    for seed in range(0, SEEDS, 3):
        inventory, situation = situation_of(seed, make)
        before = _state(inventory), solve(situation.problem, inventory.snapshot())
        explain(Situation(problem=situation.problem, snapshot=inventory.snapshot(), holding=holding), BRIEF)
        assert (_state(inventory), solve(situation.problem, inventory.snapshot())) == before, seed


def _state(inventory: Inventory) -> tuple[object, ...]:
    return dict(inventory.classes), dict(inventory.usage.by_claim), inventory.node_names


def test_worlds_with_one_thing_in_the_way_get_a_fix() -> None:
    without = [seed for seed in range(SEEDS) if _unexplained(*situation_of(seed, make_world))]
    # What is incomplete, or held on every node, no change of the unit mends.
    assert len(without) < SEEDS // 10, without


def _unexplained(inventory: Inventory, situation: Situation) -> bool:
    answer = solve(situation.problem, inventory.snapshot())
    if isinstance(answer, Solved) or (isinstance(answer, Failed) and answer.kind == "pool"):
        return False
    explanation: Explanation = explain(situation, THOROUGH)
    return not explanation.fixes
