"""Small clusters for gangs, in plain values, and the slow judge of them: every assignment of nodes and devices is looked at.

The judge knows nothing of the allocator: a device is taken or not, and rules are read off the values here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from random import Random
from typing import Any

from dra_operator.allocator.joint import GangConstraint, JointProblem, Member, NodeTopology
from dra_operator.allocator.problem import Problem, Strategy
from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim
from dra_operator.api.core import Node
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory

DRIVER = "gpu.example.com"
RACK = "example.com/rack"


@dataclass(frozen=True)
class Device:
    """`node` None: every node reaches it."""

    name: str
    node: str | None
    size: int = 1
    link: str | None = None


@dataclass(frozen=True)
class Ask:
    """One claim: `count` devices of at least this size, all of one link if `same`. `cpu` is of the pod."""

    count: int = 1
    size: int = 1
    cpu: int = 1
    same: bool = False
    nodes: tuple[str, ...] | None = None


@dataclass
class Gang:
    """`racks`: node to label value (None: no label). `used`: names of devices that are taken. `present`: racks of earlier members."""

    racks: dict[str, str | None]
    devices: list[Device]
    asks: list[Ask]
    cpu: dict[str, int] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    topology: str | None = None
    present: tuple[str, ...] = ()
    match: bool = False
    distinct: bool = False
    strategy: Strategy = Strategy.Fragmentation

    # -- for the allocator

    def inventory(self) -> Inventory:
        inventory = Inventory()
        inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "gpu"}, "spec": {}}))
        for name in self.racks:
            inventory.apply_node(Node.from_dict({"metadata": {"name": name, "labels": {"name": name}}}))
        places: dict[str | None, list[Device]] = {}
        for device in self.devices:
            places.setdefault(device.node, []).append(device)
        for place, devices in places.items():
            pool = place or "net"
            where = {"allNodes": True} if place is None else {"nodeName": place}
            spec = {
                "driver": DRIVER,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [_published(device) for device in devices],
                **where,
            }
            inventory.apply_slice(ResourceSlice.from_dict({"metadata": {"name": pool}, "spec": spec}))
        for device in self.devices:
            if device.name in self.used:
                result = DeviceResult("gpu", DRIVER, device.node or "net", device.name)
                inventory.use(f"user of {device.name}", Allocation(results=(result,)))
        return inventory

    def problem(self, **changes: Any) -> JointProblem:
        members = []
        for number, ask in enumerate(self.asks):
            problem = Problem(
                claims=(_claim(number, ask),),
                nodes=ask.nodes,
                fits=lambda name, ask=ask: ask.cpu <= self.cpu.get(name, 99),  # type: ignore[misc]
                strategy=self.strategy,
            )
            members.append(Member(problem, sort=ask))
        topology = None
        if self.topology is not None:
            topology = NodeTopology(self.topology, self.racks.get, self.present, RACK)  # type: ignore[arg-type]
        constraints = []
        if self.match:
            constraints.append(GangConstraint((), (f"{DRIVER}/link",)))
        if self.distinct:
            constraints.append(GangConstraint((), (f"{DRIVER}/link",), distinct=True))
        return JointProblem(tuple(members), topology, (*constraints, *changes.pop("wishes", ())), self.room, **changes)

    def room(self, name: str, members: tuple[int, ...]) -> bool:
        return sum(self.asks[member].cpu for member in members) <= self.cpu.get(name, 99)

    # -- for the judge

    def solutions(self) -> Iterator[tuple[tuple[str, ...], tuple[tuple[Device, ...], ...]]]:
        """Every assignment that breaks no rule but the topology's wishes."""
        for nodes in product(self.racks, repeat=len(self.asks)):
            if not self._nodes_allowed(nodes):
                continue
            options = [list(self._options(ask, node)) for ask, node in zip(self.asks, nodes, strict=True)]
            for picked in product(*options):
                if self._together(picked):
                    yield nodes, picked

    def _nodes_allowed(self, nodes: tuple[str, ...]) -> bool:
        for name in set(nodes):
            members = tuple(member for member, node in enumerate(nodes) if node == name)
            if not self.room(name, members):
                return False
        if any(ask.nodes is not None and node not in ask.nodes for ask, node in zip(self.asks, nodes, strict=True)):
            return False
        racks = [self.racks[node] for node in nodes]
        if self.topology in ("Same", "Spread") and None in racks:
            return False
        return self.topology != "Same" or self.same(nodes)

    def same(self, nodes: tuple[str, ...]) -> bool:
        racks = {self.racks[node] for node in nodes}
        return None not in racks and len(racks) == 1 and (not self.present or racks <= set(self.present))

    def _options(self, ask: Ask, node: str) -> Iterator[tuple[Device, ...]]:
        free = [
            item
            for item in self.devices
            if item.node in (node, None) and item.name not in self.used and item.size >= ask.size
        ]
        for picked in combinations(free, ask.count):
            if not ask.same or (picked[0].link is not None and len({item.link for item in picked}) == 1):
                yield picked

    def _together(self, picked: tuple[tuple[Device, ...], ...]) -> bool:
        taken = [item for devices in picked for item in devices]
        if len(set(taken)) != len(taken):
            return False
        links = [item.link for item in taken]
        if (self.match or self.distinct) and None in links:
            return False
        if self.match and len(set(links)) > 1:
            return False
        return not self.distinct or len(set(links)) == len(links)

    def spread(self, nodes: tuple[str, ...]) -> tuple[int, int]:
        """The smaller the better: minus the number of values, then the most under one value."""
        counts = Counter([*(self.racks[node] for node in nodes), *self.present])
        return -len(counts), max(counts.values())


def _published(device: Device) -> dict[str, Any]:
    attributes: dict[str, Any] = {"size": {"int": device.size}}
    if device.link is not None:
        attributes["link"] = {"string": device.link}
    return {"name": device.name, "attributes": attributes}


def _claim(number: int, ask: Ask) -> ResourceClaim:
    selector = f'device.attributes["{DRIVER}"].size >= {ask.size}'
    request = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": ask.count,
            "selectors": [{"cel": {"expression": selector}}],
        },
    }
    devices: dict[str, Any] = {"requests": [request]}
    if ask.same:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/link"}]
    meta = {"name": f"c{number}", "namespace": "default", "uid": f"uid-{number}"}
    return ResourceClaim.from_dict({"metadata": meta, "spec": {"devices": devices}})


def random_gang(seed: int) -> Gang:
    """Small enough to be judged, tight enough that half of them cannot be solved."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.choice((2, 3, 3)))]
    devices = []
    kind = random.random()
    links = ("x", "x", "x", "y") if kind < 0.25 else ("x", "y", "z", "u", "v")
    for name in [*names, *([None] if random.random() < 0.5 else [])]:
        for number in range(random.choice((1, 2, 2, 3))):
            link = random.choice(links) if random.random() < 0.9 else None
            devices.append(Device(f"{name or 'net'}-{number}", name, random.choice((1, 1, 2)), link))
    kinds = [
        Ask(random.choice((1, 1, 2)), random.choice((1, 1, 2)), random.choice((1, 2)), random.random() < 0.25)
        for _ in range(2)
    ]
    if random.random() < 0.3:
        kinds[1] = Ask(kinds[1].count, kinds[1].size, 1, nodes=tuple(random.sample(names, 2)))
    asks = [random.choice(kinds) for _ in range(random.choice((2, 3, 3)))]
    racks = {name: random.choice(("a", "b", "c", "a", "b", None)) for name in names}
    return Gang(
        racks=racks,
        devices=devices,
        asks=asks,
        cpu={name: random.choice((2, 3, 9)) for name in names},
        used=frozenset(item.name for item in devices if random.random() < 0.12),
        topology=random.choice((None, "Same", "Spread", "Prefer")),
        present=() if random.random() < 0.7 else tuple(random.choices(("a", "b"), k=random.choice((1, 2)))),
        match=kind < 0.25,
        distinct=0.25 <= kind < 0.6,
        strategy=random.choice(list(Strategy)),
    )
