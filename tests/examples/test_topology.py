"""`examples/topology` and `examples/alignment` play as their READMEs tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dra_operator.cli.simulation import play_files, result

EXAMPLES = Path(__file__).parents[2] / "examples"


def claims(example: str) -> dict[str, dict[str, Any]]:
    run = play_files([str(EXAMPLES / example)])
    assert not run.bad
    return {claim["name"]: claim for claim in result(run)["claims"]}


def numbers(claim: dict[str, Any]) -> list[int]:
    """The numbers of its GPUs; even ones are one half, odd ones the other, and a root has two that follow each other."""
    return [int(item["device"].removeprefix("gpu-")) for item in claim["devices"]]


def test_claims_get_connected_sets() -> None:
    found = claims("topology")
    halves = {name: [number % 2 for number in numbers(found[name])] for name in ("two", "four", "six")}
    assert [len(set(halves[name])) for name in ("two", "four")] == [1, 1]
    assert sorted([halves["six"].count(0), halves["six"].count(1)]) == [2, 4]
    assert len({number // 2 for number in numbers(found["same-root"])}) == 1


def test_the_gang_goes_where_a_whole_domain_is_free() -> None:
    found = claims("topology")
    nodes = [claim["node"] for name, claim in found.items() if name.startswith("rack-scale")]
    assert found["notebook"]["node"].startswith("rack-left")
    assert sorted(nodes) == ["rack-right-0", "rack-right-1"]


def test_three_claims_on_one_numa_node() -> None:
    found = claims("alignment")
    devices = {name: [item["device"] for item in claim["devices"]] for name, claim in found.items()}
    numa = {"gpu-0": 0, "gpu-1": 0, "gpu-2": 1, "gpu-3": 1, "cpudevnuma0": 0, "cpudevnuma1": 1}
    numa |= {"pci-0000-00-01-0": 0, "pci-0000-80-01-0": 1, "pci-0000-80-02-0": 1}
    [gpu], [nic], [cpu] = devices["training-gpu"], devices["training-nic"], devices["training-cpu"]
    assert numa[gpu] == numa[nic] == numa[cpu]


def test_what_is_impossible_is_explained_and_a_wish_gives_way() -> None:
    found = claims("alignment")
    assert found["pair-gpu"]["phase"] == "Unsatisfiable"
    assert "agree in resource.kubernetes.io/pcieRoot" in found["pair-gpu"]["reason"]
    assert found["wish-gpu"]["phase"] == "Reserved"
