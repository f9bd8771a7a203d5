"""The placement bench: what it counts, and that its mixes and the policy it compares with are what they claim to be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.openb.__main__ import STRATEGIES, main, play
from bench.openb.fgd import GradientDescent
from bench.openb.trace import MIXES, TraceNode, TracePod, arrivals, kind_of, mixed, named

NODES = [
    TraceNode("a", 8_000, 8_192, 2, "T4"),
    TraceNode("b", 8_000, 8_192, 2, "V100"),
    TraceNode("c", 4_000, 8_192, 0, ""),
]
ONE = TracePod(1_000, 1_024, 1, 1_000, ())
HALF = TracePod(1_000, 1_024, 1, 500, ())
PAIR = TracePod(2_000, 1_024, 2, 1_000, ())
CPU = TracePod(1_000, 1_024, 0, 0, ())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_is_given_out_where_all_fits(strategy: str) -> None:
    assert play(NODES, [ONE, HALF, HALF], strategy, seed=0) == 100


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_no_node_can_serve_is_not_given_out(strategy: str) -> None:
    assert play(NODES, [TracePod(1_000, 1_024, 1, 1_000, ("A10",))], strategy, seed=0) == 0


def test_arrivals_end_where_the_capacity_is_asked_for() -> None:
    found = list(arrivals([ONE, HALF, CPU], 10_000, seed=3))
    assert 9_000 <= sum(pod.demand for pod in found) <= 10_000
    assert found == list(arrivals([ONE, HALF, CPU], 10_000, seed=3))


@pytest.mark.parametrize(("name", "kind", "share"), [("multi-50", "multi", 0.5), ("share-70", "share", 0.7)])
def test_a_mix_has_its_share_of_the_demand(name: str, kind: str, share: float) -> None:
    pods = mixed([ONE] * 600 + [HALF] * 400 + [PAIR] * 100 + [CPU] * 50, MIXES[name])
    total = sum(pod.demand for pod in pods)
    assert sum(pod.demand for pod in pods if kind_of(pod) == kind) / total == pytest.approx(share, abs=0.01)


def test_a_drawn_mix_is_of_the_same_kinds_in_other_proportions() -> None:
    pods = [ONE] * 60 + [HALF] * 40 + [PAIR] * 10
    found = named(pods, "random:1")
    assert found == named(pods, "random:1")
    assert len(found) == len(pods)
    assert set(found) <= set(pods)
    assert sorted(found) != sorted(pods) != sorted(named(pods, "random:2"))


@pytest.mark.parametrize("name", ["random:", "random", "multi-51"])
def test_a_mix_that_is_none_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--mix", name])
    assert f"{name!r} is neither random:SEED nor one of trace, multi-20" in capsys.readouterr().err


def test_gradient_descent_keeps_whole_gpus_together() -> None:
    """Half a GPU goes beside another half, not to an empty GPU of which pairs need both."""
    placer = GradientDescent(NODES, [PAIR] * 5 + [HALF] * 5)
    assert placer.place(HALF)
    assert placer.place(HALF)
    assert sorted(placer.left[:2]) == [(0, 1_000), (1_000, 1_000)]


def test_it_prints_what_it_found_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\n")
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,1024,1,500,T4|V100\n"
    )
    arguments = [
        "--nodes",
        str(tmp_path / "nodes.csv"),
        "--pods",
        str(tmp_path / "pods.csv"),
        "--seeds",
        "2",
        "-o",
        "json",
    ]
    assert main([*arguments, "--strategy", "Pack"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert (row["strategy"], row["mean"], row["stdev"], row["ratios"]) == ("Pack", 100.0, 0.0, [100.0, 100.0])
