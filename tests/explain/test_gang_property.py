"""Fixes told of gangs are true: made on a fresh inventory, with what they change in the problem, all members have a place at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from dra_operator.allocator import Problem
from dra_operator.allocator.document import read_document
from dra_operator.allocator.joint import JointProblem, JointSolved, Member, NodeTopology, solve_jointly
from dra_operator.allocator.validation import validate
from dra_operator.explain.bench import THOROUGH
from dra_operator.explain.explaining import Proof, explain_with_proofs
from dra_operator.explain.joining import joined
from dra_operator.explain.situation import Gang, Situation
from dra_operator.inventory import Inventory
from tests.explain.test_property import holding
from tests.explain.worlds import make_world

SEEDS = 60


def gang_of(seed: int) -> tuple[Inventory, Situation]:
    """Two to four members that ask for the same in a small cluster with something in the way; some under one rack."""
    document = read_document(make_world(seed))
    inventory, random = document.inventory, Random(seed)
    count = random.choice((2, 3, 4))
    claims = [
        replace(claim, meta=replace(claim.meta.renamed(f"c{number}"), uid=f"u{number}"))
        for number in range(count)
        for claim in document.claims[:1]
    ]
    members = tuple(Member(Problem((claim,)), "alike") for claim in claims)
    racks = random.random() < 0.5
    topology = NodeTopology("Same", {"n0": "a", "n1": "a", "n2": "b"}.get, key="rack") if racks else None
    snapshot = inventory.snapshot()
    alone = tuple(Situation(problem=member.problem, snapshot=snapshot, holding=holding) for member in members)
    gang = Gang(
        joint=JointProblem(members, topology),
        members=alone,
        together=lambda pods, name, gone: True,
        room_on_empty=lambda pods, name: True,
        group="default/ring",
        needed=count,
    )
    return inventory, Situation(problem=Problem(tuple(claims)), snapshot=snapshot, holding=holding, gang=gang)


def test_property_every_fix_places_the_whole_gang() -> None:
    proven: Counter[str] = Counter()
    for seed in range(SEEDS):
        _, situation = gang_of(seed)
        explanation, proofs = explain_with_proofs(situation, THOROUGH)
        assert [proof.fix for proof in proofs] == list(explanation.fixes)
        for proof in proofs:
            assert_all_have_a_place(seed, proof)
            proven[proof.fix.kind] += 1
    assert sum(proven.values()) > 20, proven


def assert_all_have_a_place(seed: int, proof: Proof) -> None:
    inventory, situation = gang_of(seed)
    draft, gang = proof.draft, situation.gang
    assert gang is not None
    assert not draft.another_node, "nobody can tell where the pods of these members could run"
    for device_class in draft.classes.values():
        inventory.apply_class(device_class)
    for uid in draft.released:
        inventory.release(uid)
    joint = joined(gang, draft.joint or gang.joint, draft.problem, draft.pods, draft.uncordoned, draft.gone)
    assert len(joint.members) >= (gang.needed if draft.least is None else draft.least)
    answer = solve_jointly(joint, inventory.snapshot())
    assert isinstance(answer, JointSolved), (seed, proof.fix.text, answer)
    for number, (member, solved) in enumerate(zip(joint.members, answer.members, strict=True)):
        snapshot: Any = inventory.snapshot()
        assert not validate(snapshot, member.problem.claims, solved.allocations, solved.node), (seed, proof.fix)
        for index, allocation in enumerate(solved.allocations):
            # The next one is held against what is left.
            inventory.use(f"member-{number}-{index}", allocation)
    if joint.topology is not None and joint.topology.mode == "Same":
        values = {joint.topology.value(solved.node) for solved in answer.members if solved.node is not None}
        assert len(values) == 1


def test_property_explaining_a_gang_changes_nothing() -> None:
    for seed in range(0, SEEDS, 3):
        inventory, situation = gang_of(seed)
        before = dict(inventory.classes), dict(inventory.usage.by_claim)
        explain_with_proofs(situation, THOROUGH)
        assert (dict(inventory.classes), dict(inventory.usage.by_claim)) == before, seed
