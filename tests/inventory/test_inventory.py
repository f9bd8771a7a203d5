"""What single objects do to an inventory: pools, nodes, taint rules, usage and collisions."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult
from dra_operator.api.core import Node
from dra_operator.api.quantity import Quantity
from dra_operator.api.slices import DeviceTaintRule, ResourceSlice
from dra_operator.cel import cached_selector
from dra_operator.inventory import DeviceId, Features, Inventory, StaleSnapshot

DRIVER = "d.example.com"


def resource_slice(
    name: str, *devices: Any, pool: str = "p", generation: int = 1, count: int = 1, **where: Any
) -> ResourceSlice:
    listed = [{"name": item} if isinstance(item, str) else item for item in devices]
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **(where or {"nodeName": "n1"}),
        **({"devices": listed} if listed else {}),
    }
    return ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec})


def node(name: str, **labels: str) -> Node:
    return Node.from_dict({"metadata": {"name": name, "labels": labels}})


def rule(name: str, selector: dict[str, str] | None, effect: str = "NoSchedule") -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": name, "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return DeviceTaintRule.from_dict({"metadata": {"name": name}, "spec": spec})


def taking(*devices: str, pool: str = "p", share: str | None = None, memory: str | None = None) -> Allocation:
    consumed = {} if memory is None else {"memory": Quantity.parse(memory)}
    return Allocation(
        results=tuple(
            DeviceResult("r", DRIVER, pool, name, share_id=share, consumed_capacity=consumed) for name in devices
        )
    )


def seen(inventory: Inventory, name: str) -> list[str]:
    """The devices a node can use."""
    inventory.refresh()
    return [f"{offer.id.pool}/{offer.id.device}" for offer in inventory.nodes[name].offers]


def device(name: str, pool: str = "p") -> DeviceId:
    return DeviceId(DRIVER, pool, name)


@pytest.fixture
def inventory() -> Inventory:
    found = Inventory()
    found.apply_node(node("n1", zone="a"))
    found.apply_node(node("n2", zone="b"))
    return found


class TestPools:
    def test_only_the_highest_generation_counts(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("old", "d1"))
        assert seen(inventory, "n1") == ["p/d1"]
        inventory.apply_slice(resource_slice("new", "d2", generation=2, nodeName="n2"))
        assert seen(inventory, "n1") == []
        assert seen(inventory, "n2") == ["p/d2"]
        assert inventory.device(device("d1")) is None

    def test_an_incomplete_pool_offers_nothing_until_it_is_complete(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("b", "d1", count=2))
        assert seen(inventory, "n1") == []
        assert inventory.nodes["n1"].sections[0].status == "incomplete"
        inventory.apply_slice(resource_slice("a", "d2", count=2))
        assert seen(inventory, "n1") == ["p/d2", "p/d1"], "slices in the order of their names"
        inventory.remove_slice("a")
        assert seen(inventory, "n1") == []

    @pytest.mark.parametrize(
        ("devices", "reason"),
        [
            (("d1", "d1"), "used twice"),
            (({"name": "d1", "consumesCounters": [{"counterSet": "s", "counters": {}}]},), "no slice defines"),
        ],
    )
    def test_an_invalid_pool_offers_nothing_and_says_why(
        self, inventory: Inventory, devices: tuple[Any, ...], reason: str
    ) -> None:
        inventory.apply_slice(resource_slice("s", *devices))
        assert seen(inventory, "n1") == []
        invalid = inventory.nodes["n1"].sections[0].pool.content.invalid
        assert invalid is not None
        assert reason in invalid

    def test_a_broken_pool_does_not_concern_others(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("broken", "d1", "d1", pool="broken"))
        inventory.apply_slice(resource_slice("s", "d1"))
        assert seen(inventory, "n1") == ["p/d1"]

    def test_pools_with_binding_conditions_come_last(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("a", {"name": "d", "bindingConditions": ["ready"]}, pool="a"))
        inventory.apply_slice(resource_slice("b", "d", pool="b"))
        assert seen(inventory, "n1") == ["b/d", "a/d"]

    def test_groups_without_the_feature_make_a_pool_incomplete(self) -> None:
        consumes = [{"counterSet": "s", "counters": {"u": {"value": "1"}}, "compatibilityGroups": ["x"]}]
        counters = ResourceSlice.from_dict(
            {
                "metadata": {"name": "c"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": "n1",
                    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
                    "sharedCounters": [{"name": "s", "counters": {"u": {"value": "1"}}}],
                },
            }
        )
        for on, expected in ((False, []), (True, ["p/d"])):
            found = Inventory(Features(compatibility_groups=on))
            found.apply_node(node("n1"))
            found.apply_slice(counters)
            found.apply_slice(resource_slice("s", {"name": "d", "consumesCounters": consumes}, count=2))
            assert seen(found, "n1") == expected


class TestNodes:
    def test_labels_decide_and_may_change(self, inventory: Inventory) -> None:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        inventory.apply_slice(resource_slice("s", "d", nodeSelector={"nodeSelectorTerms": [term]}))
        assert (seen(inventory, "n1"), seen(inventory, "n2")) == (["p/d"], [])
        inventory.apply_node(node("n2", zone="a"))
        inventory.apply_node(node("n1", zone="c"))
        assert (seen(inventory, "n1"), seen(inventory, "n2")) == ([], ["p/d"])

    def test_devices_may_choose_their_nodes(self, inventory: Inventory) -> None:
        own = {"name": "own", "nodeName": "n2"}
        inventory.apply_slice(resource_slice("s", own, {"name": "all", "allNodes": True}, perDeviceNodeSelection=True))
        assert (seen(inventory, "n1"), seen(inventory, "n2")) == (["p/all"], ["p/own", "p/all"])

    def test_slices_may_come_before_their_node(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d", nodeName="n3"))
        inventory.snapshot()
        assert "n3" not in inventory.node_names
        inventory.apply_node(node("n3"))
        assert seen(inventory, "n3") == ["p/d"]
        inventory.remove_node("n3")
        assert "n3" not in inventory.node_names

    def test_equal_nodes_are_in_one_state(self, inventory: Inventory) -> None:
        for name in ("n1", "n2"):
            devices = [{"name": f"{name}-{i}", "attributes": {"uuid": {"string": f"{name}-{i}"}}} for i in range(20)]
            inventory.apply_slice(resource_slice(name, *devices, pool=name, nodeName=name))
        inventory.snapshot()
        assert [state.nodes for state in inventory.states.populated()] == [["n1", "n2"]]
        inventory.use("u", taking("n2-3", pool="n2"))
        assert sorted(state.nodes for state in inventory.states.populated()) == [["n1"], ["n2"]]
        inventory.release("u")
        inventory.require([(DRIVER, "uuid")])
        assert sorted(state.nodes for state in inventory.states.populated()) == [["n1"], ["n2"]], "somebody reads it"


class TestTaintRules:
    @pytest.mark.parametrize(
        ("selector", "tainted"),
        [
            (None, set()),
            ({}, {"d1", "d2"}),
            ({"driver": DRIVER, "pool": "p", "device": "d1"}, {"d1"}),
            ({"device": "d2"}, {"d2"}),
            ({"pool": "other"}, set()),
            ({"driver": "e.example.com"}, set()),
        ],
    )
    def test_what_a_rule_selects(
        self, inventory: Inventory, selector: dict[str, str] | None, tainted: set[str]
    ) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.apply_taint_rule(rule("r", selector))
        found = {name for name in ("d1", "d2") if getattr(inventory.device(device(name)), "taints", ())}
        assert found == tainted
        inventory.remove_taint_rule("r")
        assert not any(getattr(inventory.device(device(name)), "taints", ()) for name in ("d1", "d2"))

    def test_rules_reach_devices_that_come_later(self, inventory: Inventory) -> None:
        inventory.apply_taint_rule(rule("b", {}))
        inventory.apply_taint_rule(rule("a", {"device": "d"}))
        inventory.apply_slice(resource_slice("s", {"name": "d", "taints": [{"key": "own", "effect": "NoExecute"}]}))
        found = inventory.device(device("d"))
        assert found is not None
        assert [taint.key for taint in found.taints] == ["own", "a", "b"]


class TestClasses:
    def test_selectors_are_compiled_before_a_claim_asks(self, inventory: Inventory) -> None:
        expression = 'device.driver == "compiled-ahead.example.com"'
        selectors = [{"cel": {"expression": text}} for text in ("device.driver ==", expression)]
        spec = {"selectors": selectors}
        inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": "c"}, "spec": spec}))
        compiled = cached_selector.cache_info().misses
        cached_selector(expression)
        assert cached_selector.cache_info().misses == compiled
        assert "c" in inventory.classes


class TestUsage:
    def test_a_claim_replaces_what_it_had(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.use("u", taking("d1"))
        inventory.use("u", taking("d2"))
        assert (inventory.users(device("d1")), inventory.users(device("d2"))) == ((), ("u",))
        inventory.release("u")
        inventory.release("u")
        assert inventory.users(device("d2")) == ()

    def test_usage_outlives_the_slice(self, inventory: Inventory) -> None:
        inventory.use("u", taking("d1"))
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.snapshot()
        assert inventory.nodes["n1"].used == 0b01
        inventory.remove_slice("s")
        inventory.apply_slice(resource_slice("s", "d0", "d1"))
        inventory.snapshot()
        assert inventory.nodes["n1"].used == 0b10

    def test_admin_access_takes_nothing(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1"))
        inventory.use("u", Allocation(results=(DeviceResult("r", DRIVER, "p", "d1", admin_access=True),)))
        assert inventory.users(device("d1")) == ()

    def test_the_version_grows_with_what_matters(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1"))
        version = inventory.version
        inventory.use("u", taking("d1"))
        assert inventory.version > version
        version = inventory.version
        inventory.use("u", taking("d1"))
        inventory.apply_node(node("n1", zone="a"))
        assert inventory.version == version

    def test_whoever_takes_a_whole_device_takes_the_same(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.refresh()
        inventory.use("a", taking("d1", "gone"))
        first, gone = inventory.usage.by_claim["a"]
        inventory.release("a")
        inventory.use("b", taking("d1"))
        assert (first.device, gone.device, first.share) == (device("d1"), device("gone"), None)
        assert inventory.usage.by_claim["b"][0] is first

    def test_a_claim_marks_its_pool_once(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2", "d3"))
        inventory.apply_slice(resource_slice("t", "d1", pool="q"))
        inventory.refresh()
        before = inventory.touched.end
        inventory.use("a", Allocation((*taking("d1", "d2", "d3").results, *taking("d1", pool="q").results)))
        assert [pool.pool for pool in inventory.touched.since(before) or ()] == ["p", "q"]


class TestCollisions:
    def test_a_device_taken_twice(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.use("a", taking("d1"))
        inventory.use("b", taking("d2"))
        assert inventory.collisions() == []
        inventory.use("c", taking("d1"))
        (found,) = inventory.collisions()
        assert (found.device, set(found.claims)) == (device("d1"), {"a", "c"})
        assert [item.claims for item in inventory.collisions_of("a")] == [found.claims]
        assert inventory.collisions_of("b") == []

    def test_shares_beyond_the_capacity(self, inventory: Inventory) -> None:
        shared = {"name": "d", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
        inventory.apply_slice(resource_slice("s", shared))
        inventory.use("a", taking("d", share="1", memory="6Gi"))
        inventory.use("b", taking("d", share="2", memory="4Gi"))
        assert inventory.collisions() == []
        inventory.use("c", taking("d", share="3", memory="1Gi"))
        assert "memory" in inventory.collisions()[0].reason

    def test_partitions_that_overlap(self, inventory: Inventory) -> None:
        uses = {"consumesCounters": [{"counterSet": "s", "counters": {"u": {"value": "2"}}}]}
        inventory.apply_slice(resource_slice("s", {"name": "d1", **uses}, {"name": "d2", **uses}, count=2))
        inventory.apply_slice(
            resource_slice(
                "c", count=2, nodeName="n1", sharedCounters=[{"name": "s", "counters": {"u": {"value": "3"}}}]
            )
        )
        inventory.use("a", taking("d1"))
        assert inventory.collisions() == []
        inventory.use("b", taking("d2"))
        (found,) = inventory.collisions()
        assert set(found.claims) == {"a", "b"}
        assert "counter s/u" in found.reason


class TestSnapshots:
    def test_reverts_last_first(self, inventory: Inventory) -> None:
        inventory.apply_slice(resource_slice("s", "d1", "d2"))
        inventory.use("a", taking("d1"))
        view = inventory.snapshot()
        undo_release = view.release("a")
        undo_use = view.use("b", taking("d1"))
        assert view.users(device("d1")) == ("b",)
        undo_use()
        undo_release()
        assert view.users(device("d1")) == ("a",)

    def test_leaving_the_block_takes_everything_back(self, inventory: Inventory) -> None:
        with inventory.snapshot() as view:
            view.use("a", taking("d1"))
        assert inventory.users(device("d1")) == ()

    def test_a_change_from_elsewhere_makes_it_stale(self, inventory: Inventory) -> None:
        view = inventory.snapshot()
        inventory.use("a", taking("d1"))
        with pytest.raises(StaleSnapshot):
            view.users(device("d1"))
