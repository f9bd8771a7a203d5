"""Nodes whose devices a device plugin hands out as well: these are left to the plugin (migration, phase 1).

A plugin knows nothing of allocations and chooses devices by itself, so where both serve a node, counting does not keep them apart: the
devices of that node are treated as tainted. Which classes stand for which plugin resource is said on the class, by an annotation;
without it nothing is done here. A request that tolerates the taint gets the devices all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from dra_operator.api.claims import DeviceClass
from dra_operator.api.meta import ObjectMeta
from dra_operator.api.slices import DeviceTaintRule
from dra_operator.api.taints import Taint
from dra_operator.cel import CompileError, EvaluationError, Selector, bind_device, compile_selector
from dra_operator.engine.names import BRIDGE_DRIVER, PLUGIN_TAINT
from dra_operator.engine.state import State
from dra_operator.inventory.identity import PoolId


class PluginNodes:
    """Keeps the taints in step with classes, slices and what nodes offer. Cheap where no class has the annotation."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rules: dict[PoolId, str] = {}
        self._seen: tuple[int, int, int] | None = None

    def refresh(self) -> None:
        """To be called before anything is placed."""
        state = self._state
        known = state.inventory.classes
        classes = [(known[name], resource) for name, resource in state.plugin_resources.items() if name in known]
        if not classes and not self._rules:
            return
        if self._seen == (state.layout, state.changes, state.plugins.version):
            return
        wanted = dict(self._pools(classes))
        for pool in self._rules.keys() - wanted.keys():
            state.inventory.remove_taint_rule(_name(pool))
        for pool, resource in wanted.items():
            if self._rules.get(pool) != resource:
                state.inventory.apply_taint_rule(_rule(pool, resource))
        if wanted != self._rules:
            self._rules = wanted
            state.relaid()
        self._seen = state.layout, state.changes, state.plugins.version

    def _pools(self, classes: list[tuple[DeviceClass, str]]) -> Iterator[tuple[PoolId, str]]:
        """Pools with devices of a class on a node that offers the class's plugin resource, and the resource."""
        nodes = self._state.ledger.nodes
        in_use = {resource: self._state.plugins.nodes(resource) for _, resource in classes}
        compiled: dict[str, list[Selector]] = {}
        for offer in self._state.inventory.offers():
            node = None if offer.home is None else nodes.get(offer.home)
            if node is None or offer.id.driver == BRIDGE_DRIVER:
                continue  # what the bridge publishes is the plugin's, and goes through it
            for device_class, resource in classes:
                if node.allocatable.get(resource, 0) <= 0 and node.name not in in_use[resource]:
                    continue
                if device_class.name not in compiled:
                    compiled[device_class.name] = _selectors(device_class)
                device = offer.device
                bound = bind_device(offer.id.driver, device.attributes, device.capacity, device.allow_multiple)
                if _matches(compiled[device_class.name], bound):
                    yield PoolId(offer.id.driver, offer.id.pool), resource


def _selectors(device_class: DeviceClass) -> list[Selector]:
    """None that compile: nobody gets devices of such a class anyway."""
    try:
        return [compile_selector(text or "false") for text in device_class.selectors]
    except CompileError:
        return [compile_selector("false")]


def _matches(selectors: list[Selector], bound: object) -> bool:
    try:
        return all(selector.matches(bound) for selector in selectors)  # type: ignore[arg-type]
    except EvaluationError:
        return False


def _name(pool: PoolId) -> str:
    # A slash: no DeviceTaintRule of the API can have this name.
    return f"{PLUGIN_TAINT}/{pool.driver}/{pool.pool}"


def _rule(pool: PoolId, resource: str) -> DeviceTaintRule:
    meta = ObjectMeta.from_dict({"name": _name(pool)})
    # Taint values are label values, which have no slash.
    taint = Taint(PLUGIN_TAINT, resource.replace("/", "_"), "NoSchedule")
    return DeviceTaintRule(meta, selects=True, driver=pool.driver, pool=pool.pool, device=None, taint=taint)
