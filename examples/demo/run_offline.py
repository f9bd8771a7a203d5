"""Plays the demo and checks that it ends as told: `python -m examples.demo.run_offline`, or `make demo`.

The story is in the manifests beside this file; the engine that decides is the one the operator runs on a real cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra_operator.cli.output import Printer

HERE = Path(__file__).resolve().parent
SIMULATE = [sys.executable, "-m", "dra_operator.cli", "simulate", "-f", str(HERE)]

STORY = """\
Three nodes, half used: node-a and node-b have one GPU free each, node-c has two.
At 30 s come a pod that asks for 2 GPUs and a training Deployment of 3 replicas, each with a claim of its own.
The pod fits node-c only. Two replicas get the two GPUs that are left; the third waits and says why.
At 50 s a notebook on node-a is deleted, and the third replica gets its GPU.
"""


def main() -> int:
    printer = Printer(sys.stdout)
    for line in STORY.splitlines():
        printer.line((line, "bold"))
    printer.line("")
    printer.flush()
    shown = subprocess.run(SIMULATE, check=False)
    data = subprocess.run([*SIMULATE, "-o", "json"], check=False, stdout=subprocess.PIPE, text=True)
    if shown.returncode or data.returncode:
        return shown.returncode or data.returncode
    printer.line("")
    kept = True
    for promise, holds in promises(json.loads(data.stdout)):
        kept = kept and holds
        printer.line(("ok    " if holds else "FAIL  ", "green" if holds else "bold red"), promise)
    return 0 if kept else 1


def promises(run: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What the story says of the run, and whether it is so."""
    claims = {claim["name"]: claim for claim in run["claims"]}
    pair = [claim for name, claim in claims.items() if name.startswith("finetune-")]
    training = [claim for name, claim in claims.items() if name.startswith("training-")]
    used = [(item["pool"], item["device"]) for claim in claims.values() for item in claim["devices"]]
    yield (
        "the pod with 2 GPUs runs on node-c",
        [(claim["node"], len(claim["devices"])) for claim in pair] == [("node-c", 2)],
    )

    early = told(run, "Allocated", "claim/research/training-", before=50)
    queued = told(run, "Queued", "claim/research/training-", before=50)
    late = told(run, "Allocated", "claim/research/training-", since=50)
    yield (
        "two replicas get a GPU at once, the third is queued and says why",
        (len(early) == 2 and len(queued) == 1 and all("NoDevices" in event["message"] for event in queued)),
    )
    yield (
        "the third gets the GPU that the notebook gave back",
        (
            [event["object"] for event in late] == [event["object"] for event in queued]
            and sorted(str(claim["node"]) for claim in training) == ["node-a", "node-a", "node-b"]
        ),
    )
    yield "each replica has a claim of its own", len(training) == 3
    yield (
        "every claim is Reserved, every pod runs",
        (
            all(claim["phase"] == "Reserved" for claim in claims.values())
            and all(pod["phase"] == "Running" for pod in run["pods"])
        ),
    )
    yield "no GPU is in two claims", len(used) == len(set(used)) == 8


def told(
    run: dict[str, Any], reason: str, prefix: str, *, since: float = 0, before: float = 1e9
) -> list[dict[str, Any]]:
    """The events of this reason about objects that begin with `prefix`, in this span of time."""
    return [
        event
        for event in run["events"]
        if event["reason"] == reason and event["object"].startswith(prefix) and since <= event["at"] < before
    ]


if __name__ == "__main__":
    sys.exit(main())
