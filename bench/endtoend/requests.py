"""What was asked of the API server: by the operator, from its own metrics, and by everybody, from the API server's."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from pathlib import Path

from devcluster import ControlPlane, eventually

PORT = re.compile(rb'"probes":(\d+)')
SERVED = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)$", re.M)
LABEL = re.compile(r'(\w+)="([^"]*)"')
SAMPLE = re.compile(r'^dra_operator_api_requests_total\{code="(\d+)",resource="([^"]+)",verb="([A-Z]+)"\} (\S+)$', re.M)
#: What an allocation itself takes; the rest is reports, Events and housekeeping.
ALLOCATION = ("resourceclaims", "resourceclaims/status", "pods", "pods/status", "pods/eviction")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
#: As the API server counts them, which tells server-side apply from other patches.
SERVED_WRITES = (*WRITES, "APPLY")


class Probes:
    """Reads `/readyz` and `/metrics` of the operator whose log is at `log`."""

    def __init__(self, log: Path) -> None:
        told = eventually(lambda: PORT.findall(log.read_bytes()), 120, what="the operator says where its probes are")
        self._base = f"http://127.0.0.1:{int(told[0])}"

    def read(self, path: str) -> str:
        with urllib.request.urlopen(self._base + path, timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def wait_until_leading(self) -> None:
        eventually(lambda: self.read("/readyz") and "\ndra_operator_leader 1.0" in self.read("/metrics"), 120)

    def requests(self) -> Counter[str]:
        """Requests so far by `verb resource`, no watches and no Lease."""
        counted: Counter[str] = Counter()
        for _, resource, verb, value in SAMPLE.findall(self.read("/metrics")):
            if verb != "WATCH" and resource != "leases":
                counted[f"{verb} {resource}"] += int(float(value))
        return counted


def allocation_writes(requests: Counter[str]) -> int:
    """Those of the requests that write claims and pods."""
    return sum(count for name, count in requests.items() if name.split()[0] in WRITES and name.split()[1] in ALLOCATION)


def served_writes(plane: ControlPlane) -> int:
    """Writes of all components that the API server has carried out so far, without Leases, which are renewed by the clock."""
    total = 0
    for labels, value in SERVED.findall(plane.client.get("/metrics")):
        told = dict(LABEL.findall(labels))
        if told["verb"] in SERVED_WRITES and told["code"].startswith("2") and told["resource"] != "leases":
            total += int(float(value))
    return total
