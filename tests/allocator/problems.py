"""Random allocation problems over every feature, in the problem format; small, so that ties, shortages and conflicts are common."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")

STABLE = ["AdminAccess", "DeviceTaints", "PartitionableDevices", "PrioritizedList"]
INCUBATING = [*STABLE, "ConsumableCapacity", "DeviceBindingAndStatus", "FractionalCapacityRange"]
EXPERIMENTAL = [
    *INCUBATING,
    "CompatibilityGroups",
    "DerivedAttributes",
    "ListTypeAttributes",
    "OptionalNodeOperations",
]

DRIVERS = ("a.example.com", "b.example.com")
TAINTS = [
    {"key": "broken", "effect": "NoSchedule"},
    {"key": "broken", "value": "yes", "effect": "NoExecute"},
    {"key": "broken", "value": "yes", "effect": "NoSchedule"},
    {"key": "watch", "effect": "None"},
    {"key": "other", "value": "1", "effect": "NoSchedule"},
    {"key": "other", "value": "2", "effect": "NoExecute"},
]
TOLERATIONS = [
    {"operator": "Exists"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"key": "broken", "operator": "Exists"},
    {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    {"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoExecute"},
    {"key": "broken", "value": "yes"},
    {"key": "broken", "operator": "Equal"},
    {"key": "other", "operator": "Equal", "value": "1"},
    {"key": "other", "operator": "Exists"},
]
TERMS: list[dict[str, Any]] = [
    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]},
    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y", "z"]}]},
    {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]},
    {"matchExpressions": [{"key": "rack", "operator": "Gt", "values": ["1"]}, {"key": "zone", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["x"]}]},
    {"matchExpressions": [{"key": "room", "operator": "DoesNotExist"}]},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]},
]
CLASS_SELECTORS = [
    [],
    ['device.driver == "a.example.com"'],
    ['device.driver == "b.example.com"'],
    ['device.driver == "a.example.com"', 'device.attributes["a.example.com"].index < 3'],
    ['"numa" in device.attributes[device.driver]'],
]
SELECTORS = [
    'device.driver == "a.example.com"',
    "device.attributes[device.driver].?numa.orValue(0) == 1",
    "device.attributes[device.driver].?index.orValue(9) < 2",
    'device.capacity[device.driver].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
]
FAILING = ['device.attributes["a.example.com"].model == "x"', 'device.capacity["b.example.com"].memory.isInteger()']


class Choices(Protocol):
    """What a problem is made from: a `random.Random`, or Hypothesis by way of `drawing.Drawn`."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def choice(self, seq: Sequence[_T], /) -> _T: ...
    def sample(self, population: Sequence[_T], k: int, /) -> list[_T]: ...


def make_problem(seed: int) -> dict[str, Any]:
    """The problem of a seed."""
    return {"name": f"random-{seed}", **choose_problem(Random(seed))}


def choose_problem(random: Choices) -> dict[str, Any]:
    """A problem, any one."""
    return _Maker(random).make()


class _Maker:
    def __init__(self, random: Choices) -> None:
        self.random = random
        self.features = self._features()
        self.devices: list[tuple[str, dict[str, Any]]] = []
        #: What this problem is about; everything everywhere would rarely be solvable.
        self.themes = {
            name: random.random() < chance
            for name, chance in (
                ("counters", 0.3),
                ("shares", 0.35),
                ("taints", 0.25),
                ("binding", 0.2),
                ("lists", 0.5 if "ListTypeAttributes" in self.features else 0.05),
                ("groups", 0.5 if "CompatibilityGroups" in self.features else 0.03),
                ("broken", 0.12),
                ("failing", 0.08),
                ("admin", 0.2),
                ("constraints", 0.45),
                ("generations", 0.15),
                ("skips", 0.3 if "OptionalNodeOperations" in self.features else 0.03),
                ("derived", 0.3 if "DerivedAttributes" in self.features else 0.0),
                ("versions", 0.2),
            )
        }

    def _features(self) -> list[str]:
        chosen = self.random.random()
        if chosen < 0.6:
            return INCUBATING
        if chosen < 0.7:
            return STABLE
        if chosen < 0.92:
            return EXPERIMENTAL
        return [name for name in EXPERIMENTAL if self.random.random() < 0.7]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def make(self) -> dict[str, Any]:
        nodes = [self._node(f"node-{number}") for number in range(1 + self.chance(0.3))]
        slices = [item for number in range(self.random.choice((1, 1, 2, 2, 3))) for item in self._pool(number)]
        classes = [
            {
                "metadata": {"name": f"class-{number}"},
                "spec": {
                    "selectors": [{"cel": {"expression": text}} for text in self._class_selectors(number)],
                    **self._class_config(),
                },
            }
            for number in range(3)
        ]
        return {
            "features": self.features,
            "nodes": nodes,
            "classes": classes,
            "slices": slices,
            "allocated": self._allocated(),
            "claims": [self._claim(number) for number in range(self.random.choice((1, 1, 1, 1, 2, 3)))],
        }

    def _node(self, name: str) -> dict[str, Any]:
        status = {"declaredFeatures": ["DRAOptionalNodeOperations"]} if self.chance(0.5) else {}
        labels = {"zone": self.random.choice("xy"), "rack": self.random.choice("12")}
        return {"metadata": {"name": name, "labels": labels}, "status": status}

    def _class_selectors(self, number: int) -> list[str]:
        chosen = list(self.random.choice(CLASS_SELECTORS if number else CLASS_SELECTORS[:2]))
        if self.themes["failing"] and self.chance(0.3):
            chosen.insert(0, self.random.choice(FAILING))
        return chosen

    def _class_config(self) -> dict[str, Any]:
        if not self.chance(0.3):
            return {}
        return {"config": [{"opaque": {"driver": DRIVERS[0], "parameters": {"from": "class"}}}]}

    # -- slices ----------------------------------------------------------------------------------------------------

    def _pool(self, number: int) -> list[dict[str, Any]]:
        random = self.random
        driver = DRIVERS[1] if self.chance(0.25) else DRIVERS[0]
        pool = f"pool-{number}" if driver == DRIVERS[0] else "pool-0"
        if driver == DRIVERS[1] and any(name.startswith(f"{driver}/") for name, _ in self.devices):
            pool = f"pool-{number}"
        counters = self.themes["counters"] and self.chance(0.7)
        parts = random.choice((1, 1, 2))
        generation = 1
        slices = [self._slice(driver, pool, number, part, counters) for part in range(parts)]
        if counters:
            slices.append(self._counter_slice(driver, pool, number))
        if self.themes["generations"] and self.chance(0.5):
            generation = 2
            stale = self._slice(driver, pool, number, 7, counters)
            stale["spec"]["pool"] = {"name": pool, "generation": 1, "resourceSliceCount": random.choice((1, 1, 2))}
            slices.insert(0, stale)
        for item in slices:
            item["spec"].setdefault(
                "pool", {"name": pool, "generation": generation, "resourceSliceCount": parts + counters}
            )
        if self.themes["broken"] and self.chance(0.4) and len(slices) > 1:
            slices.pop(random.randrange(len(slices)))
        return slices

    def _where(self) -> dict[str, Any]:
        chosen = self.random.random()
        if chosen < 0.6:
            return {"nodeName": self.random.choice(("node-0", "node-0", "node-1"))}
        if chosen < 0.75:
            return {"allNodes": True}
        return {"nodeSelector": {"nodeSelectorTerms": [self.random.choice(TERMS)]}}

    def _slice(self, driver: str, pool: str, number: int, part: int, counters: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"driver": driver}
        per_device = "PartitionableDevices" in self.features and self.chance(0.15)
        spec |= {"perDeviceNodeSelection": True} if per_device else self._where()
        if self.themes["skips"] and self.chance(0.4):
            spec["skipNodeOperations"] = ["*"]
        spec["devices"] = devices = []
        for index in range(self.random.choice((1, 2, 3, 3, 4))):
            name = f"dev-{part}-{index}" if not (self.themes["broken"] and self.chance(0.05)) else "dev-0-0"
            device = self._device(name, index, counters)
            if per_device:
                device |= self._where()
            devices.append(device)
            self.devices.append((f"{driver}/{pool}/{name}", device))
        return {"metadata": {"name": f"slice-{number}-{part}"}, "spec": spec}

    def _counter_slice(self, driver: str, pool: str, number: int) -> dict[str, Any]:
        sets = [
            {
                "name": f"set-{index}",
                "counters": {"units": {"value": str(self.random.choice((2, 3, 4)))}, "memory": {"value": "40Gi"}},
            }
            for index in range(2)
        ]
        where = {"allNodes": True} if self.chance(0.6) else {"nodeName": "node-0"}
        return {"metadata": {"name": f"slice-{number}-9"}, "spec": {"driver": driver, "sharedCounters": sets, **where}}

    def _device(self, name: str, index: int, counters: bool) -> dict[str, Any]:
        random = self.random
        attributes: dict[str, Any] = {"index": {"int": index}}
        if self.chance(0.9):
            attributes["numa"] = {"int": random.randrange(2)}
        if self.themes["lists"] and self.chance(0.6):
            attributes["numa"] = {"ints": sorted(random.sample(range(3), random.choice((1, 2))))}
        if self.chance(0.3):
            attributes["a.example.com/model"] = {"string": random.choice("xyz")}
        if self.themes["versions"]:
            attributes["version"] = {"version": random.choice(("1.0.0", "1.0.0+b", "2.0.0"))}
            attributes["flag"] = random.choice(({"bool": True}, {"bool": False}, {"int": 1}))
        device: dict[str, Any] = {"name": name, "attributes": attributes}
        if self.chance(0.7):
            device["capacity"] = {"memory": {"value": random.choice(("10Gi", "20Gi", "40Gi"))}}
            if self.themes["shares"] and self.chance(0.2):
                device["capacity"]["a.example.com/cores"] = {"value": random.choice(("2", "4"))}
        if self.themes["shares"] and self.chance(0.6):
            device["allowMultipleAllocations"] = True
            if device.get("capacity") and self.chance(0.7):
                device["capacity"]["memory"]["requestPolicy"] = self._policy()
        if counters and self.chance(0.8):
            device["consumesCounters"] = self._consumption()
        if self.themes["taints"] and self.chance(0.4):
            device["taints"] = random.sample(TAINTS, random.choice((1, 1, 2)))
        if self.themes["binding"] and self.chance(0.4):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        if self.chance(0.05):
            device["bindsToNode"] = True
        return device

    def _policy(self) -> dict[str, Any]:
        return self.random.choice(
            (
                {"default": "5Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
                {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}},
                {"default": "10Gi", "validValues": ["5Gi", "10Gi"]},
                {"default": "1Gi"},
                {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
            )
        )

    def _consumption(self) -> list[dict[str, Any]]:
        random = self.random
        sets = random.sample(("set-0", "set-1"), random.choice((1, 1, 2)))
        if self.themes["broken"] and self.chance(0.05):
            sets[0] = "set-unknown"
        consumption = []
        for name in sets:
            counters = {"units": {"value": str(random.choice((1, 1, 2, 3)))}}
            if self.chance(0.3):
                counters["memory"] = {"value": random.choice(("10Gi", "20Gi"))}
            item: dict[str, Any] = {"counterSet": name, "counters": counters}
            if self.themes["groups"] and self.chance(0.6):
                item["compatibilityGroups"] = random.sample(("mig", "vgpu"), random.choice((1, 1, 2)))
            consumption.append(item)
        return consumption

    def _allocated(self) -> dict[str, Any]:
        devices, shared, capacity = [], [], {}
        for name, device in self.devices:
            if not self.chance(0.15):
                continue
            if not device.get("allowMultipleAllocations") or "ConsumableCapacity" not in self.features:
                devices.append(name)
                continue
            shared.append(f"{name}/11111111-2222-3333-4444-{self.random.randrange(10**12):012}")
            if device.get("capacity"):
                capacity[name] = {"memory": self.random.choice(("1Gi", "2Gi", "10Gi", "18Gi"))}
        return {"devices": sorted(set(devices)), "shared": shared, "capacity": capacity}

    # -- claims ----------------------------------------------------------------------------------------------------

    def _claim(self, number: int) -> dict[str, Any]:
        requests = [self._request(index) for index in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        devices: dict[str, Any] = {"requests": requests}
        if self.themes["constraints"]:
            devices["constraints"] = [self._constraint(requests) for _ in range(self.random.choice((1, 1, 2)))]
        if self.chance(0.3):
            devices["config"] = [
                {
                    "requests": [self._named(request) for request in requests if self.chance(0.5)],
                    "opaque": {"driver": DRIVERS[0], "parameters": {"from": f"claim, entry {number}"}},
                }
                for number in range(self.random.choice((1, 1, 2)))
            ]
        name = f"claim-{number}"
        return {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{number}"},
            "spec": {"devices": devices},
        }

    def _request(self, index: int) -> dict[str, Any]:
        name = f"req-{index}"
        if "PrioritizedList" in self.features and self.chance(0.25):
            subs = [
                {"name": f"sub-{number}", **self._detail(admin=False)}
                for number in range(self.random.choice((1, 2, 3)))
            ]
            return {"name": name, "firstAvailable": subs}
        return {"name": name, "exactly": self._detail(admin=True)}

    def _detail(self, admin: bool) -> dict[str, Any]:
        random = self.random
        detail: dict[str, Any] = {"deviceClassName": f"class-{random.choice((0, 0, 0, 1, 2))}"}
        if self.themes["broken"] and self.chance(0.05):
            detail["deviceClassName"] = "class-unknown"
        if self.chance(0.15):
            detail["allocationMode"] = "All"
        elif self.themes["broken"] and self.chance(0.1):
            detail |= {"allocationMode": "ExactCount", "count": random.choice((31, 32, 33))}
        else:
            detail |= {"allocationMode": "ExactCount", "count": random.choice((1, 1, 1, 1, 2, 3))}
        if self.chance(0.25):
            texts = [random.choice(SELECTORS)]
            if "ConsumableCapacity" not in self.features:
                texts = [text for text in texts if "allowMultiple" not in text]
            if self.themes["failing"] and self.chance(0.4):
                texts.append(random.choice(FAILING))
            detail["selectors"] = [{"cel": {"expression": text}} for text in texts]
        if admin and self.themes["admin"] and "AdminAccess" in self.features and self.chance(0.5):
            detail["adminAccess"] = True
        if self.themes["taints"] and self.chance(0.4):
            detail["tolerations"] = random.sample(TOLERATIONS, random.choice((1, 2)))
        if self.themes["shares"] and "ConsumableCapacity" in self.features and self.chance(0.4):
            amounts = ("1Gi", "3Gi", "5Gi", "11Gi", "20Gi", "1500m", "250m")
            detail["capacity"] = {"requests": {"memory": random.choice(amounts)}}
            if self.chance(0.2):
                detail["capacity"]["requests"]["a.example.com/cores"] = random.choice(("1", "3"))
        if self.themes["derived"] and self.chance(0.6):
            expression = random.choice(
                ("device.attributes[device.driver].?numa.orValue(7)", "device.attributes[device.driver].index % 2")
            )
            detail["derivedAttributes"] = [{"name": "derived.example.com/half", "expression": expression}]
        return detail

    def _constraint(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        random = self.random
        names = ["a.example.com/numa"] * 4 + ["a.example.com/index", "a.example.com/model"]
        if self.themes["versions"]:
            names += ["a.example.com/version", "a.example.com/flag"]
        if self.themes["derived"]:
            names += ["derived.example.com/half"] * 3
        constraint: dict[str, Any] = {
            "matchAttribute" if self.chance(0.65) else "distinctAttribute": random.choice(names)
        }
        if "ConsumableCapacity" not in self.features:
            constraint = {"matchAttribute": next(iter(constraint.values()))}
        if self.chance(0.3):
            chosen = random.sample(requests, 1 + self.chance(0.3) * (len(requests) > 1))
            constraint["requests"] = [self._named(request) for request in chosen]
        return constraint

    def _named(self, request: dict[str, Any]) -> str:
        """A request's name, or that of one of its subrequests."""
        name: str = request["name"]
        subs = request.get("firstAvailable")
        return f"{name}/{self.random.choice(subs)['name']}" if subs and self.chance(0.5) else name
