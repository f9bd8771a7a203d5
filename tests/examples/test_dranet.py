"""`examples/dranet` plays as its README tells."""

from __future__ import annotations

from pathlib import Path

from dra_operator.cli.simulation import play_files, result
from dra_operator.cluster.rest import NETWORK_DEVICE_CLASSES

DRANET = Path(__file__).parents[2] / "examples" / "dranet"


def test_the_pod_gets_what_the_classes_say() -> None:
    run = play_files([str(DRANET)])
    assert not run.bad
    devices = {claim["name"]: [item["device"] for item in claim["devices"]] for claim in result(run)["claims"]}
    assert devices["training-rdma"][0] in ("pci-0000-03-00-0", "pci-0000-03-00-1")
    assert devices["training-nic"] == ["fast"]


def test_the_classes_tell_how_many_devices_match() -> None:
    run = play_files([str(DRANET)], until=30)
    statuses = {
        item["metadata"]["name"]: item["status"] for item in run.world.server.store.listed(NETWORK_DEVICE_CLASSES)
    }
    matching = {name: (status["phase"], status["matchingDevices"]) for name, status in statuses.items()}
    assert matching == {
        "dranet-400": ("Ready", 0),
        "high-bandwidth-nic": ("Ready", 1),
        "jumbo-nic": ("Ready", 2),
        "rdma-nic": ("Ready", 3),
    }
    assert statuses["dranet-400"]["message"].endswith("rejected by minBandwidthGbps 3")
