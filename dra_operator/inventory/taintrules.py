"""DeviceTaintRules: which taints an admin's rules add to which devices.

Since Kubernetes 1.35 a rule selects by driver, pool and device name only; every consumer of slices has to apply the rules itself.
"""

from __future__ import annotations

from itertools import product

from dra_operator.api.slices import DeviceTaintRule
from dra_operator.api.taints import Taint
from dra_operator.inventory.identity import DeviceId

Selection = tuple[str | None, str | None, str | None]


class TaintRules:
    """Rules by what they select, so that a device is compared with the few that can select it and not with all."""

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}
        self._by_selection: dict[Selection, dict[str, Taint]] = {}

    def put(self, rule: DeviceTaintRule) -> list[Selection]:
        """Add or replace a rule; returns what it selects and what it selected before."""
        touched = self.drop(rule.meta.name)
        if rule.selects:
            selection = _selection(rule)
            self._rules[rule.meta.name] = rule
            self._by_selection.setdefault(selection, {})[rule.meta.name] = rule.taint
            touched.append(selection)
        return touched

    def drop(self, name: str) -> list[Selection]:
        """Remove a rule; returns what it selected."""
        rule = self._rules.pop(name, None)
        if rule is None:
            return []
        selection = _selection(rule)
        rules = self._by_selection[selection]
        del rules[name]
        if not rules:
            del self._by_selection[selection]
        return [selection]

    def taints(self, device_id: DeviceId) -> tuple[Taint, ...]:
        """What the rules add to a device, in the order of the rules' names."""
        if not self._by_selection:
            return ()
        found: dict[str, Taint] = {}
        for selection in product((device_id.driver, None), (device_id.pool, None), (device_id.device, None)):
            found.update(self._by_selection.get(selection, {}))
        return tuple(found[name] for name in sorted(found))


def _selection(rule: DeviceTaintRule) -> Selection:
    return rule.driver, rule.pool, rule.device
