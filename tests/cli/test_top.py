"""`top` of a snapshot: golden text and JSON of each view; live the same, with GETs only; and the screen of `--watch`."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dra_operator.cli.screen import draw
from dra_operator.cli.snapshot import document
from dra_operator.cli.top import View, duration, table
from dra_operator.cluster.rest import CLAIM_GROUPS, EVENTS, LEASES, RESOURCE_CLAIMS, RESOURCES
from tests.cli.commands import call, data, expect
from tests.cli.scene import scene
from tests.cli.served import Served, serve

GOLDEN = Path(__file__).parent / "top"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = scene().server.store
    file = tmp_path_factory.mktemp("top") / "cluster.yaml"
    kinds = [resource for resource in RESOURCES if resource not in (EVENTS, LEASES, CLAIM_GROUPS)]
    file.write_text("".join(document(dict(item)) for resource in kinds for item in store.listed(resource)))
    return file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(scene().server, tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("view", list(View))
def test_output(snapshot: Path, view: View, form: str) -> None:
    done = call("top", view.value, "-f", snapshot, "-o", form)
    assert done.returncode == 0, done.stderr
    # How the engine words its reasons is not for these tests.
    found = re.sub(r"NoDevices: .*|(?<=\"message\": )\".*\"", "…", done.stdout) if view is View.QUEUE else done.stdout
    expect(found, GOLDEN / f"{view.value}.{form}.txt")


def test_counts_add_up(snapshot: Path) -> None:
    (gpus,) = data("top", "-f", snapshot)["classes"]
    nodes = [row for row in data("top", "nodes", "-f", snapshot)["nodes"] if row["devices"]]
    assert gpus["total"] == sum(gpus[state] for state in ("allocated", "free", "held", "reserved", "unusable"))
    assert sum(row["allocated"] for row in nodes) == gpus["allocated"] == 12
    (team,) = data("top", "namespaces", "-f", snapshot)["namespaces"]
    claims = data("top", "claims", "-f", snapshot)["claims"]
    assert (team["claims"], team["devices"], team["waiting"]) == (len(claims), 12, 1)
    assert sum(len(claim["devices"]) for claim in claims) == 12


def test_live_is_as_the_snapshot(cluster: Served, snapshot: Path) -> None:
    for view in ("nodes", "claims", "queue"):
        live = data("top", view, "--kubeconfig", cluster.kubeconfig)[view]
        saved = data("top", view, "-f", snapshot)[view]
        clock = ("ageSeconds", "waitSeconds", "effectivePriority")
        assert [{**row, **dict.fromkeys(clock)} for row in live] == [{**row, **dict.fromkeys(clock)} for row in saved]
    assert {method for method, _ in cluster.requests} == {"GET"}


def test_a_namespace(snapshot: Path) -> None:
    assert len(data("top", "claims", "-f", snapshot, "-n", "team-a")["claims"]) == 9
    assert data("top", "claims", "-f", snapshot, "-n", "other")["claims"] == []
    assert call("top", "queue", "-f", snapshot, "-n", "other").stdout == "nothing waits\n"


def test_an_object_that_cannot_be_used(tmp_path: Path) -> None:
    claim = {"apiVersion": RESOURCE_CLAIMS.api_version, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": 7}
    (tmp_path / "bad.yaml").write_text(document(claim))
    done = call("top", "claims", "-f", "bad.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: bad.yaml:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pods",), "Invalid value"),
        (("--watch",), "--watch draws a screen: it needs a terminal"),
        (("-f", "x", "--context", "c"), "-f and a cluster (--kubeconfig, --context) exclude each other"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    done = call("top", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (7380, "2h3m"), (90000, "1d1h"), (172800, "2d")],
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_the_screen(snapshot: Path) -> None:
    rows = data("top", "claims", "-f", snapshot)["claims"]
    out = io.StringIO()
    console = Console(file=out, width=120, height=10)
    console.print(draw("top claims", table(View.CLAIMS, rows), "unreachable\x1b[2J", 10))
    lines = out.getvalue().splitlines()
    assert "top claims" in lines[0]
    assert lines[2].startswith("NAMESPACE")
    assert len([line for line in lines if line.startswith("team-a")]) == 5
    assert "and 4 more" in lines[-2]
    assert lines[-1].strip() == "unreachable\\x1b[2J"
