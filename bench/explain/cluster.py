"""`kubectl-dra explain` of a waiting pod on a real control plane with many nodes, from the shell's view: start-up and all reads.

Nobody allocates meanwhile: what is measured is the command and the API server's answers to it. The command finds its modules compiled,
as an installed program does; the first of the runs compiles them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench.endtoend.burst import NAME, Burst, make_class, make_namespace, make_nodes
from devcluster import ControlPlane, eventually
from devcluster.install import install

#: More devices than a node has, so that every node has to be looked at and compared.
WANTED = 9
RUNS = 5


def measure(nodes: int, pods: int) -> list[dict[str, Any]]:
    """`{"what", "seconds", "cpu"}` of the quickest run. `pods` with a device each run already."""
    with ControlPlane.start(report=lambda line: print(line, file=sys.stderr)) as plane:
        make_class(plane)
        make_nodes(plane, nodes)
        Burst(plane, make_namespace(plane), pods, "bare").run()
        install(plane)
        namespace = make_namespace(plane)
        _waiting_pod(plane, namespace)
        rows = []
        for what, arguments in (
            ("explain pod", ("explain", "pod/waits", "-n", namespace)),
            ("top nodes", ("top", "nodes")),
        ):
            rows.append({"what": f"{what} of a cluster", "nodes": nodes, "pods": pods, **_quickest(plane, arguments)})
        return rows


def _waiting_pod(plane: ControlPlane, namespace: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": NAME, "count": WANTED}}
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    plane.client.post(claims, {"metadata": {"name": "wants"}, "spec": {"devices": {"requests": [request]}}})
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": "wants"}]}
    plane.client.post(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "waits"}, "spec": spec})
    eventually(lambda: plane.client.get(f"{claims}/wants")["metadata"].get("labels"))


def _quickest(plane: ControlPlane, arguments: tuple[str, ...]) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "dra_operator.cli",
        *arguments,
        "--kubeconfig",
        str(plane.kubeconfig),
        "-o",
        "json",
    ]
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "NO_COLOR": "1", "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(1 + RUNS):
            before, began = _cpu(), time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found.append((time.monotonic() - began, _cpu() - before))
            assert json.loads(done.stdout)
    return {"seconds": min(wall for wall, _ in found), "cpu": min(cpu for _, cpu in found)}


def _cpu() -> float:
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
