"""Commands that look at a real cluster: they say what is there, and change nothing in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster import ApiError, ControlPlane, eventually
from devcluster.pytest_plugin import Kubectl, Nodes
from dra_operator.cli.live import SNAPSHOT_KINDS
from dra_operator.cluster.rest import Resource
from tests.real.operator_process import ROOT, OperatorProcess
from tests.real.workloads import deployment, listed, template

pytestmark = pytest.mark.real


def call(plane: ControlPlane, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dra_operator.cli", *arguments, "--kubeconfig", str(plane.kubeconfig)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def versions(plane: ControlPlane, namespace: str, *names: str) -> dict[str, str]:
    """The resourceVersions of what a test has made, of all kinds that the commands read: by kind, namespace and name.

    That is everything in its namespace, the namespace itself, and those cluster-scoped objects whose names begin with one
    of `names`. What other tests have left is still being taken down meanwhile.
    """
    found = {}
    for resource in SNAPSHOT_KINDS:
        for item in _all(plane, resource):
            meta = item["metadata"]
            place, name = meta.get("namespace", ""), meta["name"]
            if place == namespace or (not place and name.startswith((namespace, *names))):
                found[f"{resource.kind}/{place}/{name}"] = meta["resourceVersion"]
    return found


def everything(plane: ControlPlane) -> set[str]:
    """The uid of every object there is, of all kinds that the commands read."""
    return {item["metadata"]["uid"] for resource in SNAPSHOT_KINDS for item in _all(plane, resource)}


def _all(plane: ControlPlane, resource: Resource) -> list[dict[str, Any]]:
    try:
        items: list[dict[str, Any]] = plane.client.get(resource.path())["items"]
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return items


def test_looking_changes_nothing(
    control_plane: ControlPlane,
    nodes: Nodes,
    namespace: str,
    kubectl: Kubectl,
    gpu_class: str,
    operator: OperatorProcess,
    tmp_path: Path,
) -> None:
    (name,) = nodes("p4d:1")
    objects = [
        template("one", gpu_class), template("seven", gpu_class, 7),
        deployment("train", "one", replicas=3), deployment("large", "seven", replicas=1),
    ]  # fmt: skip
    kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects[:3])))

    def running(count: int) -> bool:
        pods = listed(control_plane, namespace, "pods")
        return sum(pod["status"]["phase"] == "Running" for pod in pods) == count

    eventually(lambda: running(3), what="3 pods run")
    kubectl("apply", "-f", "-", input=json.dumps(objects[3]))
    eventually(lambda: len(listed(control_plane, namespace, "resourceclaims")) == 4, what="the fourth claim is there")
    # From here on nobody else writes: the operator's own reports would.
    operator.stop()
    own = (namespace, name, gpu_class)
    before = eventually(_settled(control_plane, *own), every=0.1, what="nothing changes any more")
    kinds = {key.split("/")[0] for key in before}
    assert kinds >= {"Namespace", "Node", "ResourceSlice", "DeviceClass", "ResourceClaim", "Pod", "Deployment"}
    there = everything(control_plane)

    rows: list[dict[str, Any]] = json.loads(call(control_plane, "top", "nodes", "-o", "json"))["nodes"]
    (row,) = (item for item in rows if item["name"] == name)
    assert (row["allocated"], row["claims"]) == (3, 3)
    (waiting,) = json.loads(call(control_plane, "top", "queue", "-n", namespace, "-o", "json"))["queue"]
    assert waiting["name"].startswith("large-")
    classes = {item["name"]: item for item in json.loads(call(control_plane, "top", "-o", "json"))["classes"]}
    assert classes[gpu_class]["allocated"] == 3

    pod = f"pod/{waiting['name']}"
    told = json.loads(_kubectl_dra(control_plane, "explain", pod, "-n", namespace, "-o", "json"))
    assert told["object"] == f"pod/{namespace}/{waiting['name']}"
    (request,) = told["requests"]
    assert (request["wanted"], request["usable"], request["mostOnANode"]) == (7, 5, 5)
    assert request["devices"] == request["usable"] + sum(step["devices"] for step in request["steps"])
    assert any(fix["text"].startswith("ask for 5 devices instead of 7") for fix in told["fixes"])
    assert {claim["phase"] for claim in told["claims"]} <= {"Queued", "Starved"}

    file = tmp_path / "cluster.yaml"
    call(control_plane, "snapshot", "-o", str(file))
    same = _of(json.loads(_offline("simulate", "-f", str(file), "-o", "json")), namespace)
    assert Counter(claim["node"] for claim in same["claims"]) == {name: 3, None: 1}
    assert not [event for event in same["events"] if event["reason"] in ("Deleted", "Freed")]

    more = ("--add-nodes", f"like={name}", "-o", "json")
    run = _of(json.loads(call(control_plane, "simulate", "--live", *more)), namespace)
    assert Counter(claim["node"] for claim in run["claims"]) == {name: 3, f"{name}-0": 1}
    assert {pod["phase"] for pod in run["pods"]} == {"Running"}

    # The test's own connection has been idle for so long that the server may have closed it.
    assert eventually(lambda: versions(control_plane, *own)) == before
    assert not everything(control_plane) - there


def _kubectl_dra(plane: ControlPlane, *arguments: str) -> str:
    """As people call it: kubectl finds the plugin on the PATH."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [plane.kubectl_program, "dra", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(plane.kubeconfig),
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _settled(plane: ControlPlane, *own: str) -> Callable[[], dict[str, str]]:
    """A check that gives the versions once ten looks saw the same: controllers and kubelets finish what they began."""
    looks: deque[dict[str, str]] = deque(maxlen=10)

    def look() -> dict[str, str]:
        looks.append(versions(plane, *own))
        return looks[-1] if looks.count(looks[-1]) == looks.maxlen else {}

    return look


def _offline(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dra_operator.cli", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _of(run: dict[str, Any], namespace: str) -> dict[str, Any]:
    """What of a run is in a namespace."""
    return {
        **{kind: [item for item in run[kind] if item["namespace"] == namespace] for kind in ("claims", "pods")},
        "events": [event for event in run["events"] if f"/{namespace}/" in event["object"]],
    }
