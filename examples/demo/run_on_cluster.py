"""The demo's story on a real control plane, started for it and ended after it: `make cluster-demo`.

The operator runs beside the cluster under its own service account, kube-scheduler is the unmodified one, nodes and kubelets are
simulated. What should have happened is checked with kubectl at the end; the exit code is 1 where it has not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from devcluster import (
    ApiError,
    BuildError,
    ControlPlane,
    InstanceError,
    KubectlError,
    NeverHappened,
    StartError,
    eventually,
)
from devcluster.install import install, operator

HERE = Path(__file__).resolve().parent
NAMESPACE = "research"
PATIENCE = 90.0
PHASE_COLOURS = {"Allocated": "cyan", "Reserved": "green", "Queued": "yellow", "Unsatisfiable": "red"}

PATHS = {
    "pods": "/api/v1/namespaces/{}/pods",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "claimreports": "/apis/dra-operator.dev/v1alpha1/namespaces/{}/claimreports",
}

console = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    """Play, check, clean up."""
    try:
        with ControlPlane.start(report=lambda line: notes.print(line, style="dim")) as plane:
            prepare(plane)
            with operator(plane) as running_operator:
                try:
                    play(plane)
                    return check(plane)
                except NeverHappened as error:
                    notes.print(f"failed: {error}\n--- end of the operator's log", style="red")
                    lines = running_operator.log.read_text().splitlines(keepends=True)
                    notes.print("".join(lines[-20:]), markup=False)
                    return 1
    except (ApiError, BuildError, InstanceError, KubectlError, NeverHappened, StartError) as error:
        notes.print(str(error), style="red")
        return 1


def prepare(plane: ControlPlane) -> None:
    """Install, and make the three nodes."""
    say("one kubectl apply installs CRDs, rights, admission policies and the operator")
    install(plane)
    plane.kubectl("apply", "-f", str(HERE / "cluster.yaml"))
    eventually(lambda: "NoSchedule" not in plane.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints}"))


def play(plane: ControlPlane) -> None:
    """The steps of scenario.yaml, each once the one before has come to rest."""
    story = Story(plane)
    say("what runs already takes half of each node")
    apply(plane, "running.yaml")
    story.until(lambda: all(running(plane, name) for name in ("notebook", "chatbot", "evaluation")))
    say("a pod that asks for 2 GPUs, then a training Deployment of 3 replicas")
    apply(plane, "arriving/finetune.yaml")
    story.until(lambda: running(plane, "finetune"))
    apply(plane, "arriving/training.yaml")
    story.until(lambda: len(training(plane, "Running")) == 2 and bool(queued(plane)))
    say("the notebook on node-a is deleted: its GPU is free")
    plane.kubectl("-n", NAMESPACE, "delete", "pod", "notebook", "--grace-period=1")
    story.until(lambda: len(training(plane, "Running")) == 3)


def check(plane: ControlPlane) -> int:
    """The end state as kubectl shows it."""
    reserved = eventually(lambda: reports_in(plane, "Reserved", 6), PATIENCE, what="six reports say Reserved")
    console.print()
    console.print(plane.kubectl("-n", NAMESPACE, "get", "claimreports").rstrip(), markup=False)
    console.print()
    console.print(plane.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide").rstrip(), markup=False)
    console.print()
    device = "{.pool}/{.device} "
    allocated = "{range .items[*].status.allocation.devices.results[*]}" + device + "{end}"
    devices = asked(plane, "resourceclaims", "-o", f"jsonpath={allocated}")
    finetune = asked(plane, "pod", "finetune", "-o", "jsonpath={.spec.nodeName}")
    nodes = asked(plane, "pods", "-l", "app=training", "-o", "jsonpath={.items[*].spec.nodeName}")
    owners = asked(plane, "resourceclaims", "-o", "jsonpath={.items[*].metadata.ownerReferences[0].uid}")
    results = {
        "the 2-GPU pod is on node-c, the only node that had two free": finetune == ["node-c"],
        "the replicas are on node-a (twice) and node-b": sorted(nodes) == ["node-a", "node-a", "node-b"],
        "each pod has a claim of its own": len(set(owners)) == len(owners) == len(reserved),
        "no device is in two allocations": len(set(devices)) == len(devices) == 8,
    }
    for text, holds in results.items():
        console.print(f"{'ok  ' if holds else 'FAIL'} {text}", style="green" if holds else "red")
    return 0 if all(results.values()) else 1


class Story:
    """Prints what changes in the cluster, as it changes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._start = time.monotonic()
        self._seen: dict[str, str] = {}

    def until(self, done: Callable[[], Any]) -> None:
        """Raises NeverHappened."""

        def look() -> bool:
            self._print_changes()
            return bool(done())

        eventually(look, PATIENCE, every=0.2, what=f"the step ends ({len(self._seen)} things were seen so far)")
        self._print_changes()

    def _print_changes(self) -> None:
        for name, text in sorted(self._now().items()):
            if self._seen.get(name) != text:
                self._seen[name] = text
                phase = text.split()[0].rstrip(":")
                after = f"{time.monotonic() - self._start:5.1f}s"
                console.print(f"[dim]{after}[/]  {name:<44} [{PHASE_COLOURS.get(phase, 'default')}]{text}[/]")

    def _now(self) -> dict[str, str]:
        found = {}
        for report in objects(self._plane, "claimreports"):
            status = report["status"]
            if "devices" not in status:
                why = status.get("explanation", {}).get("summary") or status.get("reason", "")
                found[f"claim {report['metadata']['name']}"] = f"{status['phase']}: {why}"
        for claim in objects(self._plane, "resourceclaims"):
            results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results")
            if results:
                where = ", ".join(f"{each['pool']}/{each['device']}" for each in results)
                found[f"claim {claim['metadata']['name']}"] = f"Allocated {where}"
        for pod in objects(self._plane, "pods"):
            if node := pod["spec"].get("nodeName"):
                found[f"pod {pod['metadata']['name']}"] = f"{pod['status']['phase']} on {node}"
        return found


def say(text: str) -> None:
    console.print(f"\n[bold]{text}[/]")


def apply(plane: ControlPlane, name: str) -> None:
    plane.kubectl("apply", "-f", str(HERE / name))


def asked(plane: ControlPlane, *arguments: str) -> list[str]:
    """The words of `kubectl get`."""
    return plane.kubectl("-n", NAMESPACE, "get", *arguments).split()


def objects(plane: ControlPlane, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plane.client.get(PATHS[kind].format(NAMESPACE))["items"]
    return found


def running(plane: ControlPlane, name: str) -> bool:
    return any(
        pod["metadata"]["name"] == name and pod["status"]["phase"] == "Running" for pod in objects(plane, "pods")
    )


def training(plane: ControlPlane, phase: str) -> list[dict[str, Any]]:
    return [
        pod
        for pod in objects(plane, "pods")
        if pod["metadata"].get("labels", {}).get("app") == "training" and pod["status"]["phase"] == phase
    ]


def queued(plane: ControlPlane) -> list[dict[str, Any]]:
    return [report for report in objects(plane, "claimreports") if report["status"]["phase"] == "Queued"]


def reports_in(plane: ControlPlane, phase: str, number: int) -> list[dict[str, Any]]:
    """All reports, once they are that many and all in that phase."""
    found = objects(plane, "claimreports")
    return found if len(found) == number and all(report["status"]["phase"] == phase for report in found) else []


if __name__ == "__main__":
    sys.exit(main())
