"""What is fixed for a unit on all nodes with one view, whatever is taken there: which devices it could use, and why not the others."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from dra_operator.allocator import Trial
from dra_operator.allocator.capacity import CapacityError, consumption, shortfall
from dra_operator.allocator.memory import memory_of
from dra_operator.allocator.plan import Way
from dra_operator.allocator.selection import Broken, Rejected
from dra_operator.api.taints import untolerated
from dra_operator.cel import CompileError, EvaluationError
from dra_operator.explain.funnel import Verdict
from dra_operator.inventory import Inventory
from dra_operator.inventory.kinds import Kind, attribute_of
from dra_operator.inventory.pools import Offer
from dra_operator.inventory.views import View


@dataclass(slots=True)
class Own:
    """What is fixed for one way on all nodes with one view: `verdicts` of their own devices, with how many; `passing` bits."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    passing: int = 0
    shared: dict[int, Verdict | None] = field(default_factory=dict)


class Fixed:
    """Remembers by view."""

    def __init__(self, trial: Trial, inventory: Inventory) -> None:
        self._trial, self._plan, self._inventory = trial, trial.plan, inventory
        self._selectors = memory_of(inventory).selectors
        self._own: dict[View, list[Own]] = {}

    def of(self, view: View) -> list[Own]:
        """By way of the plan."""
        known = self._own.get(view)
        if known is not None:
            return known
        table = self._trial.table(view)
        bit_of = {position: bit for bit, position in enumerate(table.order)}
        found = [Own() for _ in self._plan.ways]
        for position, (kind, offer) in enumerate(zip(view.kinds, view.offers, strict=True)):
            for way, own in zip(self._plan.ways, found, strict=True):
                bit = bit_of.get(position)
                usable = bit is not None and bool(table.columns[way.index].usable >> bit & 1)
                verdict = None if usable else self._verdict(way, kind, offer, view.skips_allowed)
                if offer.home is None:
                    own.shared[bit if bit is not None else -position - 1] = verdict
                elif verdict is not None:
                    own.verdicts[verdict] += 1
                else:
                    assert bit is not None
                    own.passing |= 1 << bit
        self._own[view] = found
        return found

    def _verdict(self, way: Way, kind: Kind, offer: Offer, skips_allowed: bool) -> Verdict:
        """Why a device that the table does not offer falls out."""
        verdict = self.selection(way, kind)
        if verdict is not None:
            return verdict
        features, device = self._inventory.features, kind.device
        if (
            (device.binding_conditions and not features.device_binding_and_status)
            or (kind.skips_node and not (features.optional_node_operations and skips_allowed))
            or (device.consumes and not features.partitionable_devices)
        ):
            return Verdict("unsupported")
        if features.consumable_capacity:
            try:
                if consumption(way.detail.capacity, device, features.fractional_capacity_range) is None:
                    short = shortfall(way.detail.capacity, device, features.fractional_capacity_range)
                    return Verdict("size", detail=short)
            except CapacityError as error:
                return Verdict("error", detail=str(error))
        taint = untolerated(kind.taints, way.detail.tolerations) if features.device_taints else None
        if taint is not None:
            return Verdict("taint", detail=str(taint))
        for number in way.constraints:
            attributes = self._plan.rules[number].attributes
            expression = way.derived.get(attributes[0])
            if expression is not None:
                try:
                    self._selectors.value(expression, kind)
                except (CompileError, EvaluationError) as error:
                    return Verdict("error", detail=f"derived attribute {attributes[0]}: {error}")
            elif all(attribute_of(offer.device, kind.driver, name) is None for name in attributes):
                return Verdict("attribute", detail=attributes[0])
        return Verdict("attribute", detail="an attribute that it has as a list")

    def selection(self, way: Way, kind: Kind, *, once: bool = False) -> Verdict | None:
        outcome = way.filter.judge(kind) if once else way.filter.outcome(kind)
        match outcome:
            case None:
                return None
            case Rejected():
                return Verdict("class" if outcome.by_class else "request", outcome.index)
            case Broken():
                source = f"class {way.detail.device_class_name}" if outcome.by_class else "the request"
                return Verdict("error", detail=f"selector {outcome.index} of {source}: {_plain_error(outcome.message)}")


def _plain_error(message: str) -> str:
    """An error of a selector without what cel-go puts around it: the expression once more, and an arrow."""
    return re.sub(
        r"CEL (\w+) error: .*?ERROR: <input>:(\d+:\d+): (.*?)\s+\|.*", r"\1 error at \2: \3", message, flags=re.DOTALL
    )
