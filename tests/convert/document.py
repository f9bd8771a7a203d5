"""The document this project starts from, as something to run: its manifests, and devices for each class that it defines.

The document publishes two GPUs and defines a dozen classes. `INVENTORY` publishes, in the document's own dialect, a device for each
class and one that misses it narrowly; `MEANT` says which are meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

SEED = Path(__file__).parents[3] / "shared/seed"

#: Class: the devices that it means, and no others of `INVENTORY`.
MEANT: Mapping[str, frozenset[str]] = {
    "high-mem-gpu": frozenset({"a100", "hopper"}),
    "low-latency-fpga": frozenset({"intel", "xilinx"}),
    "linked-gpus": frozenset({"linked"}),
    "nvidia-h100-80gb": frozenset({"h100"}),
    "tpu-v5p-8": frozenset({"tpu-8"}),
    "gpu-with-nccl-fast-socket": frozenset({"socket"}),
    "inference-optimized": frozenset({"inference"}),
    "premium-gpu": frozenset({"quick"}),
    "standard-gpu": frozenset({"quick", "steady", "quick-but-small"}),
    "batch-gpu": frozenset({"plain"}),
    "reserved-critical": frozenset({"kept"}),
    "high-bandwidth-nic": frozenset({"nic"}),
}

INVENTORY = """
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: more-devices}
spec:
  nodeName: node-b
  devices:
  - {name: a100, attributes: {memory-gb: "40", compute-capability: "8.0"}}
  - {name: hopper, attributes: {memory-gb: "100", compute-capability: "10.0"}}
  - {name: volta, attributes: {memory-gb: "80", compute-capability: "7.0"}}
  - {name: intel, type: intel-fpga-low-latency}
  - {name: xilinx, type: xilinx-fpga-low-latency}
  - {name: slow-fpga, type: intel-fpga}
  - {name: linked, attributes: {nvlink-capable: "true", same-pcie-switch: "true"}}
  - {name: far-apart, attributes: {nvlink-capable: "true", same-pcie-switch: "false"}}
  - {name: h100, type: nvidia-tesla-h100, attributes: {memory-gb: "80"}}
  - {name: h100-nvl, type: nvidia-tesla-h100, attributes: {memory-gb: "94"}}
  - {name: tpu-8, type: tpu-v5p, attributes: {chip-count: "8"}}
  - {name: tpu-16, type: tpu-v5p, attributes: {chip-count: "16"}}
  - {name: socket, attributes: {nccl-fast-socket: "true", memory-gb: "40"}}
  - {name: small-socket, attributes: {nccl-fast-socket: "true", memory-gb: "16"}}
  - {name: inference, attributes: {inference-optimized: "true", memory-gb: "24"}}
  - {name: small-inference, attributes: {inference-optimized: "true", memory-gb: "8"}}
  - {name: quick, attributes: {latency-p99-ms: "9", memory-gb: "80"}}
  - {name: quick-but-small, attributes: {latency-p99-ms: "9", memory-gb: "16"}}
  - {name: steady, attributes: {latency-p99-ms: "120", memory-gb: "80"}}
  - {name: tardy, attributes: {latency-p99-ms: "1000", memory-gb: "80"}}
  - {name: plain, attributes: {type: gpu}}
  - {name: nic, attributes: {bandwidth-gbps: "400", low-latency: "true"}}
  - {name: slow-nic, attributes: {bandwidth-gbps: "100", low-latency: "true"}}
  - {name: tardy-nic, attributes: {bandwidth-gbps: "200", low-latency: "false"}}
  - {name: kept, attributes: {reserved-for: critical, node: gpu-reserved-1}}
  - {name: kept-elsewhere, attributes: {reserved-for: critical, node: gpu-reserved-2}}
"""


def seed_manifests() -> str:
    """The manifests in the document: from `apiVersion` to the first line that is prose. Names that stand there twice, once."""
    found: dict[tuple[str, str], str] = {}
    for text in _manifests():
        value: Any = yaml.safe_load(text)
        found.setdefault((value["kind"], value["metadata"]["name"]), text)
    return "\n---\n".join(found.values()) + "\n"


def _manifests() -> list[str]:
    lines = _lines()
    found: list[str] = []
    start = None
    for number, line in enumerate([*lines, "end"]):
        outside = line and not re.match(r"[ #-]|(apiVersion|kind|metadata|spec):", line)
        if start is not None and (outside or line == "---" or line.startswith("apiVersion:")):
            found.append("\n".join(lines[start:number]).strip())
            start = None
        if line.startswith("apiVersion:"):
            start = number
    return found


def _lines() -> list[str]:
    return next(SEED.iterdir()).read_text().split("\n")


def linked_class() -> str:
    """The document's selector for GPUs on one switch, which stands there without a class around it."""
    lines = _lines()
    start = next(number for number, line in enumerate(lines) if "same-pcie-switch" in line)
    while not lines[start].startswith("spec:"):
        start -= 1
    end = next(number for number in range(start, len(lines)) if not lines[number])
    body = "\n".join(lines[start:end])
    return f"apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceClass\nmetadata: {{name: linked-gpus}}\n{body}\n"


def claim(name: str, device_class: str) -> str:
    """A claim of the dialect."""
    return (
        "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\n"
        f"metadata: {{name: {name}}}\nspec: {{resourceClassName: {device_class}}}\n"
    )


def every_class(claimed: Collection[str]) -> str:
    """All classes of the document, `INVENTORY`, and of each class that is claimed one claim more than there are devices."""
    classes = [text for text in _manifests() if yaml.safe_load(text)["kind"].endswith("DeviceClass")]
    claims = [claim(f"{name}-{number}", name) for name in sorted(claimed) for number in range(len(MEANT[name]) + 1)]
    return "\n---\n".join([*classes, linked_class(), INVENTORY, *claims])


def gpu_and_nic() -> str:
    """The document's pod with two claims, with the claims, the classes and `INVENTORY`."""
    classes = [text for text in _manifests() if yaml.safe_load(text)["kind"].endswith("DeviceClass")]
    (pod,) = [text for text in _manifests() if yaml.safe_load(text)["kind"] == "Pod" and "training-nic" in text]
    claims = [claim("training-gpu", "high-mem-gpu"), claim("training-nic", "high-bandwidth-nic")]
    return "\n---\n".join([*classes, INVENTORY, *claims, pod])
