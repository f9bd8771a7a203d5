"""Clusters in which one pod or claim waits, one for each cause and some for several at once.

Each builder returns the stage after the engine has come to rest, and what is to be explained.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.engine.stage import (
    GPU,
    Object,
    Stage,
    claim,
    device_class,
    devices_spec,
    gpus,
    namespace,
    node,
    pod,
    policy,
    priority_class,
    template,
    workload,
)
from tests.explain.clusters import (
    MEMORY,
    MODEL,
    NEVER,
    NIC,
    NUMA,
    aligned,
    asking,
    big_gpus,
    device,
    published,
    settled,
    two_sides,
    without_claim_controller,
)

Case = Callable[[], tuple[Stage, str]]
CASES: dict[str, Case] = {}


def case(builder: Case) -> Case:
    CASES[builder.__name__.replace("_", "-")] = builder
    return builder


# -- selectors and classes


@case
def memory_bound() -> tuple[Stage, str]:
    spec = devices_spec(selector=MEMORY)
    nodes = [item for name in ("n1", "n2") for item in (node(name), big_gpus(name))]
    return settled(*nodes, device_class(), asking("big", spec), pod("p", "big")), "pod/p"


@case
def two_terms() -> tuple[Stage, str]:
    spec = devices_spec(selector=f"{MEMORY} && {MODEL}")
    return settled(node("n1"), big_gpus("n1"), device_class(), asking("big", spec), pod("p", "big")), "claim/big"


@case
def selector_fails() -> tuple[Stage, str]:
    expression = f'device.driver == "{GPU}" || device.attributes["{GPU}"].model == "A100"'
    spec = devices_spec(selector=f'device.attributes["{GPU}"].generation >= 8')
    newer = device(
        "gpu-9", attributes={"model": "H100", "generation": 9}, taints=[{"key": "new", "effect": "NoSchedule"}]
    )
    slices = [big_gpus("n1"), published("n2", [newer])]
    stage = settled(
        node("n1"), node("n2"), *slices, device_class(expression=expression), asking("c", spec), pod("p", "c")
    )
    return stage, "pod/p"


@case
def quantity_compared_with_text() -> tuple[Stage, str]:
    spec = devices_spec(selector=f'device.driver == "{GPU}" && device.capacity["{GPU}"].memory >= "80Gi"')
    nodes = [node("n1"), big_gpus("n1"), node("n2"), big_gpus("n2", memory="24Gi")]
    return settled(*nodes, device_class(), asking("c", spec), pod("p", "c")), "pod/p"


@case
def class_misspelt() -> tuple[Stage, str]:
    return settled(node("n1"), gpus("n1", 1), device_class(), claim("c", of="gpuu"), pod("p", "c")), "pod/p"


@case
def class_broken() -> tuple[Stage, str]:
    return settled(
        node("n1"), gpus("n1", 1), device_class(expression="device.driver =="), claim("c"), pod("p", "c")
    ), "pod/p"


# -- devices


@case
def tainted() -> tuple[Stage, str]:
    taints = [{"key": "gpu.example.com/ecc", "value": "errors", "effect": "NoSchedule"}]
    return settled(node("n1"), big_gpus("n1", taints=taints), device_class(), claim("c"), pod("p", "c")), "pod/p"


@case
def taken_by_lower_priority() -> tuple[Stage, str]:
    stage = settled(
        node("n1"), gpus("n1", 2), device_class(), policy(preemption=NEVER), priority_class("high", 1000),
        claim("a"), pod("a", "a"), claim("b"), pod("b", "b"),
    )  # fmt: skip
    stage.apply(claim("c"), pod("urgent", "c", priorityClassName="high"))
    return stage.run(20), "pod/urgent"


@case
def taken_by_higher_priority() -> tuple[Stage, str]:
    stage = settled(
        node("n1"), gpus("n1", 1), device_class(), priority_class("high", 1000),
        claim("a"), pod("a", "a", priorityClassName="high"),
    )  # fmt: skip
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def held_for_another() -> tuple[Stage, str]:
    stage = settled(
        node("n1"), gpus("n1", 2), device_class(), policy(preemption=NEVER), claim("one"), pod("one", "one"),
        claim("both", 2), pod("both", "both"),
        seconds=60,
    )  # fmt: skip
    stage.apply(claim("small"), pod("small", "small"))
    return stage.run(10), "pod/small"


@case
def reserved_for_another() -> tuple[Stage, str]:
    reserving = policy("team-a", deviceClassNames=["gpu"], reserve=[{"deviceClassName": "gpu", "devices": 2}])
    reserving["spec"]["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    stage = settled(
        node("n1"), gpus("n1", 2), device_class(), namespace("a", team="a"), reserving, claim("c"), pod("p", "c")
    )
    return stage, "pod/p"


@case
def quota_used_up() -> tuple[Stage, str]:
    limited = policy(quota=[{"deviceClassName": "gpu", "devices": 2}])
    stage = settled(node("n1"), gpus("n1", 4), device_class(), limited, claim("a"), pod("a", "a"))
    stage.apply(claim("c", 2), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def quota_in_capacity_used_up() -> tuple[Stage, str]:
    limited = policy(quota=[{"deviceClassName": "gpu", "capacity": {"memory": "60Gi"}}])
    stage = settled(node("n1"), big_gpus("n1", 4), device_class(), limited, claim("a"), pod("a", "a"))
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def quota_used_up_and_others_before() -> tuple[Stage, str]:
    limited = policy(quota=[{"deviceClassName": "gpu", "devices": 2}])
    stage = settled(node("n1"), gpus("n1", 4), device_class(), limited, claim("a", 2), pod("a", "a"))
    stage.apply(claim("b"), pod("b", "b"))
    stage.run(5)
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def behind_in_a_strict_queue() -> tuple[Stage, str]:
    strict = policy(queueing="Strict", preemption=NEVER)
    stage = settled(node("n1"), gpus("n1", 2), device_class(), strict, claim("a"), pod("a", "a"))
    stage.apply(claim("both", 2), pod("both", "both"))
    stage.run(5)
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(10), "pod/p"


@case
def scattered() -> tuple[Stage, str]:
    nodes = [item for name in ("n1", "n2", "n3") for item in (node(name), gpus(name, 2))]
    return settled(*nodes, device_class(), claim("c", 4), pod("p", "c")), "pod/p"


@case
def capacity_short() -> tuple[Stage, str]:
    def share(name: str, amount: str) -> Object:
        exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": amount}}}
        return asking(name, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})

    shared = big_gpus("n1", 1, allowMultipleAllocations=True)
    stage = settled(node("n1"), shared, device_class(), share("a", "30Gi"), pod("a", "a"))
    stage.apply(share("c", "20Gi"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def capacity_of_no_such_name() -> tuple[Stage, str]:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {f"{GPU}/memory": "20Gi"}}}
    wanted = asking("c", {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
    return settled(node("n1"), big_gpus("n1", 2), device_class(), wanted, pod("p", "c")), "pod/p"


@case
def capacity_beyond_what_one_claim_may_take() -> tuple[Stage, str]:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "30Gi"}}}
    wanted = asking("c", {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
    shared = device("g0", allowMultipleAllocations=True)
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "20Gi"}}
    shared["capacity"] = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    return settled(node("n1"), published("n1", [shared]), device_class(), wanted, pod("p", "c")), "pod/p"


@case
def all_devices_of_a_large_node() -> tuple[Stage, str]:
    wanted = asking(
        "c",
        {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}},
    )
    many = published("n1", [device(f"g{number}") for number in range(40)])
    return settled(node("n1"), many, device_class(), wanted, pod("p", "c")), "pod/p"


@case
def counters_short() -> tuple[Stage, str]:
    def part(name: str, units: str) -> Object:
        consumed = [{"counterSet": "gpu-0", "counters": {"slices": {"value": units}}}]
        return device(name, attributes={"profile": f"{units}g"}, consumesCounters=consumed)

    parts = published(
        "n1", [part("whole", "7"), part("half-0", "3"), part("half-1", "3"), part("half-2", "3")], count=2
    )
    counters = published("n1", [], count=2)
    counters["metadata"]["name"] = "n1-counters"
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]
    halves = f'device.attributes["{GPU}"].profile == "3g"'
    stage = settled(
        node("n1"), parts, counters, device_class(),
        claim("a", selector=halves), pod("a", "a"), claim("b", selector=halves), pod("b", "b"),
    )  # fmt: skip
    stage.apply(claim("c", selector=halves), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def pool_incomplete() -> tuple[Stage, str]:
    half = published("n1", [device("gpu-0"), device("gpu-1")], count=2)
    return settled(node("n1"), half, device_class(), claim("c"), pod("p", "c")), "pod/p"


# -- together


@case
def numa_nodes_differ() -> tuple[Stage, str]:
    nodes = [item for name in ("n1", "n2", "n3", "n4", "n5", "n6") for item in two_sides(name)]
    classes = [device_class(), device_class("nic", f'device.driver == "{NIC}"')]
    return settled(*nodes, *classes, asking("c", aligned()), pod("p", "c")), "pod/p"


@case
def gpu_here_nic_there() -> tuple[Stage, str]:
    nics = published("n2", [device("nic-0", attributes={NUMA: 0})], driver=NIC)
    classes = [device_class(), device_class("nic", f'device.driver == "{NIC}"')]
    spec = aligned()
    del spec["devices"]["constraints"]
    stage = settled(node("n1"), gpus("n1", 1), node("n2"), nics, *classes, asking("c", spec), pod("p", "c"))
    return stage, "pod/p"


# -- pods and nodes


@case
def pod_too_large() -> tuple[Stage, str]:
    return settled(
        node("n1", cpu="8"), gpus("n1", 1), node("n2", cpu="64"), device_class(), claim("c"), pod("p", "c", cpu="16")
    ), "pod/p"


@case
def node_cordoned() -> tuple[Stage, str]:
    cordoned = node("n1", spec={"unschedulable": True})
    return settled(cordoned, gpus("n1", 1), device_class(), claim("c"), pod("p", "c")), "pod/p"


@case
def node_tainted() -> tuple[Stage, str]:
    dedicated = node("n1", spec={"taints": [{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]})
    return settled(dedicated, gpus("n1", 1), device_class(), claim("c"), pod("p", "c")), "pod/p"


@case
def node_selector_wrong() -> tuple[Stage, str]:
    return settled(
        node("n1", zone="a"), gpus("n1", 1), device_class(), claim("c"), pod("p", "c", nodeSelector={"zone": "b"})
    ), "pod/p"


# -- who keeps them


@case
def rolling_update() -> tuple[Stage, str]:
    stage = settled(node("n1"), gpus("n1", 2), device_class(), template(), workload("Deployment", "web", 2))
    stage.apply(workload("Deployment", "web", 2, cpu="2"))
    stage.run(30)
    (waiting,) = (item["metadata"]["name"] for item in stage.objects("Pod") if not item["spec"].get("nodeName"))
    return stage, f"pod/{waiting}"


@case
def kept_by_nobody() -> tuple[Stage, str]:
    stage = settled(node("n1"), gpus("n1", 1), device_class(), claim("forgotten"))
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def kept_by_a_pod_that_is_done() -> tuple[Stage, str]:
    stage = without_claim_controller(
        settled(node("n1"), gpus("n1", 1), device_class(), claim("old"), pod("done", "old"))
    )
    stage.send("PATCH", "Pod", "done", {"status": {"phase": "Succeeded"}}, sub="status")
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def kept_by_a_pod_that_is_gone() -> tuple[Stage, str]:
    stage = without_claim_controller(
        settled(node("n1"), gpus("n1", 1), device_class(), claim("old"), pod("gone", "old"))
    )
    stage.delete("Pod", "gone")
    stage.run(40)
    stage.apply(claim("c"), pod("p", "c"))
    return stage.run(20), "pod/p"


# -- several at once


@case
def tainted_and_too_small_and_taken() -> tuple[Stage, str]:
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    stage = settled(
        node("n1"), big_gpus("n1", taints=taints), node("n2"), big_gpus("n2", 1, "80Gi"), device_class(),
        claim("a"), pod("a", "a"),
    )  # fmt: skip
    stage.apply(asking("c", devices_spec(selector=MEMORY)), pod("p", "c"))
    return stage.run(20), "pod/p"


@case
def count_and_cpu() -> tuple[Stage, str]:
    stage = settled(
        node("n1", cpu="4"),
        gpus("n1", 4),
        node("n2"),
        gpus("n2", 2),
        device_class(),
        claim("c", 4),
        pod("p", "c", cpu="8"),
    )
    return stage, "pod/p"


# -- nothing is wrong


@case
def running() -> tuple[Stage, str]:
    return settled(node("n1"), gpus("n1", 2), device_class(), claim("c", 2), pod("p", "c")), "claim/c"


@case
def running_pod() -> tuple[Stage, str]:
    return settled(node("n1"), gpus("n1", 2), device_class(), claim("c", 2), pod("p", "c")), "pod/p"


@case
def gated_by_another() -> tuple[Stage, str]:
    gate = [{"name": "kueue.x-k8s.io/admission"}]
    return settled(node("n1"), gpus("n1", 1), device_class(), claim("c"), pod("p", "c", schedulingGates=gate)), "pod/p"


@case
def no_pod_uses_it_any_more() -> tuple[Stage, str]:
    stage = settled(node("n1"), gpus("n1", 1), device_class(), claim("c"), pod("first", "c"))
    stage.delete("Pod", "first")
    stage.run(40)
    stage.apply(claim("d"), pod("second", "d"))
    return stage.run(20), "claim/c"


@case
def claim_not_there() -> tuple[Stage, str]:
    return settled(node("n1"), gpus("n1", 1), device_class(), claim("other"), pod("p", "c")), "pod/p"
