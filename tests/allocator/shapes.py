"""Problems about one thing each, where problems about everything would seldom go deep: partitions, and capacities of shared devices."""

from __future__ import annotations

from typing import Any

from dra_operator.api.quantity import Quantity
from tests.allocator.problems import DRIVERS, INCUBATING, Choices


def choose_partitions(random: Choices) -> dict[str, Any]:
    """Equal GPUs cut into overlapping partitions, listed GPU by GPU or kind by kind: sets of devices that are copies of each other."""
    gpus = random.choice((2, 2, 3))
    units = random.choice((2, 3, 4))
    shared = random.random() < 0.3
    kinds = random.choice(((1, 2), (1, 1, 2), (1, 3), (2, 1, 1)))
    parts = [(gpu, number, size) for gpu in range(gpus) for number, size in enumerate(kinds)]
    if random.random() < 0.5:
        parts.sort(key=lambda part: part[1])
    odd = random.randrange(gpus) if random.random() < 0.3 else None
    devices = []
    for gpu, number, size in parts:
        device: dict[str, Any] = {
            "name": f"gpu{gpu}-{number}",
            "attributes": {"size": {"int": size}, "gpu": {"int": gpu}},
            "consumesCounters": [{"counterSet": f"set-{gpu}", "counters": {"units": {"value": str(min(size, units))}}}],
        }
        if shared and size == 1:
            device |= {
                "allowMultipleAllocations": True,
                "capacity": {"memory": {"value": "4Gi", "requestPolicy": {"default": "2Gi"}}},
            }
        devices.append(device)
    counters = [
        {"name": f"set-{gpu}", "counters": {"units": {"value": str(units + (gpu == odd))}}} for gpu in range(gpus)
    ]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVERS[0], "nodeName": "node-0", "pool": pool}
    taken = [
        device["name"] for device in devices if random.random() < 0.15 and not device.get("allowMultipleAllocations")
    ]
    claims = []
    for number in range(random.choice((1, 1, 2))):
        requests = []
        for index in range(random.choice((1, 2, 2, 3))):
            exactly: dict[str, Any] = {"deviceClassName": "class-0", "count": random.choice((1, 1, 2, 3))}
            if random.random() < 0.8:
                expression = f'device.attributes["{DRIVERS[0]}"].size == {random.choice(kinds)}'
                exactly["selectors"] = [{"cel": {"expression": expression}}]
            requests.append({"name": f"req-{index}", "exactly": {**exactly, "allocationMode": "ExactCount"}})
        wanted: dict[str, Any] = {"requests": requests}
        if random.random() < 0.25:
            kind = random.choice(("matchAttribute", "distinctAttribute"))
            wanted["constraints"] = [{kind: f"{DRIVERS[0]}/{random.choice(('gpu', 'gpu', 'size'))}"}]
        meta = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}
        claims.append({"metadata": meta, "spec": {"devices": wanted}})
    return {
        "features": INCUBATING,
        "nodes": [{"metadata": {"name": "node-0"}}],
        "classes": [{"metadata": {"name": "class-0"}, "spec": {}}],
        "slices": [
            {"metadata": {"name": "devices"}, "spec": {**spec, "devices": devices}},
            {"metadata": {"name": "counters"}, "spec": {**spec, "sharedCounters": counters}},
        ],
        "allocated": {"devices": [f"{DRIVERS[0]}/pool/{name}" for name in taken], "shared": [], "capacity": {}},
        "claims": claims,
    }


AMOUNTS = (
    "0", "1", "2", "3", "7", "10", "100", "1500m", "500m", "250m", "1m", "100u", "1n", "0.5", "1.5", "1Ki", "1Mi", "1Gi", "3Gi",
    "1536Mi", "1.5Gi", "10G", "1e3", "1e9", "9223372036854775807", "9223372036854775808", "9P", "8Ei", "16Ei", "-1", "12345678901234567",
)  # fmt: skip


def choose_capacities(random: Choices) -> dict[str, Any]:
    """Shared devices with all sorts of policies, asked for all sorts of amounts."""
    positive = [text for text in AMOUNTS if text != "-1"]

    def amount() -> str:
        return random.choice(AMOUNTS)

    def policy() -> dict[str, Any] | None:
        chosen = random.random()
        if chosen < 0.2:
            return None
        # As the API server accepts it: amounts in order, the default among them, no negative ones.
        if chosen < 0.3:
            return {"default": random.choice(positive)}
        picked = sorted(random.sample(positive, 3), key=Quantity.parse)
        if chosen < 0.5:
            return {"default": random.choice(picked), "validValues": picked}
        bounds = {"min": picked[0]}
        if random.random() < 0.5:
            bounds["max"] = picked[2]
        if random.random() < 0.7:
            bounds["step"] = random.choice([text for text in positive[1:] if Quantity.parse(text).value() < 10**12])
        return {"default": picked[0], "validRange": bounds}

    devices = []
    for index in range(random.choice((1, 2))):
        capacity, shared = {}, random.random() < 0.8
        for name in random.choice((("memory",), ("memory", "cores"))):
            rules = policy() if shared else None
            capacity[name] = {"value": amount(), **({"requestPolicy": rules} if rules else {})}
        devices.append({"name": f"dev-{index}", "capacity": capacity, "allowMultipleAllocations": shared})
    claims = []
    for number in range(random.choice((1, 2))):
        wanted = {name: amount() for name in ("memory", "cores") if random.random() < 0.6}
        exactly: dict[str, Any] = {"deviceClassName": "class-0", "allocationMode": "ExactCount", "count": 1}
        if wanted:
            exactly["capacity"] = {"requests": wanted}
        meta = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}
        claims.append({"metadata": meta, "spec": {"devices": {"requests": [{"name": "req-0", "exactly": exactly}]}}})
    features = [name for name in INCUBATING if name != "FractionalCapacityRange" or random.random() < 0.7]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVERS[0], "nodeName": "node-0", "pool": pool, "devices": devices}
    return {
        "features": features,
        "nodes": [{"metadata": {"name": "node-0"}}],
        "classes": [{"metadata": {"name": "class-0"}, "spec": {}}],
        "slices": [{"metadata": {"name": "slice"}, "spec": spec}],
        "allocated": {"devices": [], "shared": [], "capacity": {}},
        "claims": claims,
    }
