"""`simulate` from files to bytes: each folder of `simulate/` is an input with the output it must give.

After a wanted change of wording: `UPDATE_EXPECTED=1 pytest tests/cli/test_simulate.py`, then read the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = sorted(path.name for path in (HERE / "simulate").iterdir())
DEMO = ROOT / "examples" / "demo"


def simulate(
    *arguments: str, folder: Path = ROOT, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dra_operator.cli", "simulate", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def data(*arguments: str, **options: Any) -> dict[str, Any]:
    done = simulate(*arguments, "-o", "json", **options)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
@pytest.mark.parametrize("case", CASES)
def test_output(case: str, form: str) -> None:
    folder = HERE / "simulate" / case
    done = simulate("-f", "input.yaml", "-o", form, folder=folder)
    found = f"{done.stdout}--- stderr, exit code {done.returncode}\n{done.stderr}"
    expected = folder / f"output.{form}.txt"
    if os.environ.get("UPDATE_EXPECTED"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_same_input_gives_the_same_bytes(form: str) -> None:
    outputs = {simulate("-f", str(DEMO), "-o", form, PYTHONHASHSEED=seed).stdout for seed in ("1", "2", "3")}
    assert len(outputs) == 1


def test_yaml_and_json_say_the_same() -> None:
    import yaml

    assert yaml.safe_load(simulate("-f", str(DEMO), "-o", "yaml").stdout) == data("-f", str(DEMO))


def test_another_seed_makes_other_names_only() -> None:
    def shape(seed: str) -> list[tuple[str, str, int]]:
        claims = data("-f", str(DEMO), "--seed", seed)["claims"]
        return sorted((claim["phase"], claim["node"], len(claim["devices"])) for claim in claims)

    assert shape("1") == shape("2")


def test_until_cuts_the_run_short() -> None:
    run = data("-f", str(DEMO), "--until", "45s")
    assert [claim["phase"] for claim in run["claims"]].count("Queued") == 1
    (queued,) = (claim for claim in run["claims"] if claim["phase"] == "Queued")
    assert (queued["node"], queued["devices"]) == (None, [])
    assert queued["reason"].startswith("NoDevices: ")
    assert max(event["at"] for event in run["events"]) <= 45
    (waiting,) = (pod for pod in run["pods"] if pod["gated"])
    assert (waiting["phase"], waiting["node"]) == ("Pending", None)


def test_the_demo_ends_as_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo.run_offline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout


def test_standard_input() -> None:
    text = (HERE / "simulate" / "one-node" / "input.yaml").read_text()
    assert data("-f", "-", stdin=text) == data("-f", str(HERE / "simulate" / "one-node"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("-f", "nowhere.yaml"),
            1,
            "error: nowhere.yaml: cannot be read: No such file or directory; name a file that can be read\n",
        ),
        (
            ("-f", str(DEMO), "--until", "soon"),
            2,
            "error: --until: 'soon' is not a duration: write one such as 30s, 1h30m or 500ms\n",
        ),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = simulate(*arguments)
    assert (done.returncode, done.stderr) == (code, message)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m dra_operator.cli simulate -f {DEMO} -o json"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -c 10"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == '{\n  "claims'[:10]
