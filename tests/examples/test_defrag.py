"""`examples/defrag` plays as its README tells, and the plan for it is proven."""

from __future__ import annotations

from pathlib import Path

from dra_operator.cli.simulation import play_files, result
from tests.cli.commands import call, data

DEFRAG = Path(__file__).parents[2] / "examples" / "defrag"


def test_two_gpus_are_found_where_both_are_and_scattered_ones_are_not_two() -> None:
    run = play_files([str(DEFRAG)])
    assert not run.bad
    claims = {claim["name"].split("-")[0]: claim for claim in result(run)["claims"]}
    assert {name: claim["node"] for name, claim in claims.items()} == {
        "chat": "node-a", "search": "node-b", "first": "node-c", "second": None,
    }  # fmt: skip
    assert "2 free, at most 1 on one node" in claims["second"]["reason"]


def test_one_move_makes_the_second_fit() -> None:
    (plan,) = data("defrag", "-f", DEFRAG)["plans"]
    assert plan["proven"]
    assert plan["unit"].startswith("pod/research/second-")
    (move,) = plan["moves"]
    assert (move["node"], move["toNode"]) in (("node-a", "node-b"), ("node-b", "node-a"))
    assert plan["node"] == move["node"]
    assert len(plan["devices"]) == 2


def test_without_moves_there_is_no_plan() -> None:
    done = call("defrag", "-f", DEFRAG, "--max-moves", "0")
    assert done.returncode == 1
    assert "no rearrangement with at most 0 moves makes it fit" in done.stdout
