"""The page of a run: its data against the run itself, and that it needs nothing from anywhere."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cli.page import page
from dra_operator.cli.recording import _counts, _merged
from tests.cli.commands import DEMO, ROOT, call, data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "run.html"
    done = call("simulate", "-f", DEMO, "--html", file)
    assert done.returncode == 0, done.stderr
    return file.read_text()


def record_in(text: str) -> dict[str, Any]:
    found = re.search(r"^const run = (.*);$", text, re.MULTILINE)
    assert found is not None
    return dict(json.loads(found[1]))


@pytest.fixture(scope="module")
def record(written: str) -> dict[str, Any]:
    return record_in(written)


def test_it_needs_nothing_else(written: str) -> None:
    assert re.findall(r"https?://[^\"' ]+", written) == ["http://www.w3.org/2000/svg"]  # a name, never fetched
    assert not re.search(r"<(link|img|iframe)|<script[^>]+src|@import|url\(|fetch\(|XMLHttpRequest|innerHTML", written)
    assert "default-src 'none'" in written


def test_the_same_run_gives_the_same_page(written: str, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        call("simulate", "-f", DEMO, "--html", tmp_path / seed, "-o", "json", PYTHONHASHSEED=seed)
        assert (tmp_path / seed).read_text() == written


def test_the_end_is_what_the_run_came_to(record: dict[str, Any]) -> None:
    run = data("simulate", "-f", DEMO)
    told = {
        (f"{claim['namespace']}/{claim['name']}", device["driver"], device["pool"], device["device"])
        for claim in run["claims"]
        for device in claim["devices"]
    }
    shown = set()
    for device, claim, _, to in record["uses"]:
        if to is None:
            item = record["devices"][device]
            shown.add((record["claims"][claim]["name"], item["driver"], item["pool"], item["name"]))
    assert shown == told
    last = {claim["name"]: claim["phases"][-1][1] for claim in record["claims"] if claim["phases"]}
    for claim in run["claims"]:
        assert last[f"{claim['namespace']}/{claim['name']}"] == claim["phase"]
    assert record["events"] == run["events"]


def test_no_device_is_in_two_places(record: dict[str, Any]) -> None:
    spans: dict[int, list[tuple[float, float]]] = {}
    for device, _, since, to in record["uses"]:
        spans.setdefault(device, []).append((since, float("inf") if to is None else to))
    for listed in spans.values():
        ordered = sorted(listed)
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))


def test_curves_follow_from_the_uses(record: dict[str, Any]) -> None:
    for time, count in record["used"]:
        assert count == sum(since <= time and (to is None or time < to) for _, _, since, to in record["uses"])
    assert record["published"][-1][1] == len(record["devices"])
    assert max(count for _, count in record["queue"]) >= 1
    assert record["queue"][-1][1] == 0
    assert all(0 <= percent <= 100 for points in record["fragmentation"].values() for _, percent in points)


def test_every_device_has_a_node_that_is_drawn(record: dict[str, Any]) -> None:
    assert {device["node"] for device in record["devices"]} <= set(record["nodes"])


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "a&b", "\u2028", "/*DATA*/null"])
def test_no_name_ends_the_script(name: str) -> None:
    text = page({"claims": [{"name": name}]})
    assert text.count("<script>") == text.count("</script>") == 1
    assert record_in(text) == {"claims": [{"name": name}]}


def test_the_frame_is_in_the_package() -> None:
    assert (ROOT / "dra_operator" / "cli" / "page.html").exists()


@pytest.mark.parametrize(
    ("spans", "counts"),
    [
        ([], [[0.0, 0]]),
        ([(0.0, None, 0)], [[0.0, 1]]),
        ([(1.0, 3.0, 0), (2.0, None, 0)], [[0.0, 0], [1.0, 1], [2.0, 2], [3.0, 1]]),
        ([(1.0, 2.0, 0), (2.0, 3.0, 0)], [[0.0, 0], [1.0, 1], [3.0, 0]]),
    ],
)
def test_counts(spans: list[tuple[float, float | None, Any]], counts: list[list[float]]) -> None:
    assert _counts(spans) == counts


def test_a_shared_device_is_in_use_once() -> None:
    device = ("driver", "pool", "gpu")
    uses = [(device, "a", 1.0, 5.0), (device, "b", 2.0, 3.0), (device, "c", 4.0, 6.0), (device, "a", 8.0, None)]
    assert list(_merged(uses)) == [(1.0, 6.0, None), (8.0, None, None)]
