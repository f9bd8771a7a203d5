"""Allocations as the API server takes them, from a choice and the devices of one node.

Field for field what the in-tree allocator writes: results in the order of the requests, configuration assembled once a class, a node
selector that is as wide as the devices allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from dra_operator.allocator.capacity import consumption
from dra_operator.allocator.plan import Plan, Way
from dra_operator.allocator.search import Choice
from dra_operator.api.claims import (
    NO_CAPACITY,
    Allocation,
    ClaimSpec,
    DeviceConfig,
    DeviceResult,
    ResourceClaim,
)
from dra_operator.api.quantity import Quantity
from dra_operator.api.selectors import NodeSelector
from dra_operator.inventory.features import Features
from dra_operator.inventory.kinds import Kind
from dra_operator.inventory.pools import Offer, source_of
from dra_operator.inventory.views import NodeRecord

#: Namespace of share IDs: they are derived, so that the same input gives the same allocation.
SHARES = UUID("6f0d3a52-7d0e-5b0c-9a6e-0d2a7c1f4b11")


class Picks(NamedTuple):
    """A choice for the one claim of a unit. `devices`: ways and positions."""

    devices: tuple[tuple[Way, int], ...]
    config: tuple[DeviceConfig, ...]


class Assembler:
    """Makes allocations; what depends on the ways alone is made once."""

    def __init__(self, plan: Plan, features: Features) -> None:
        self._plan, self._features = plan, features
        self._configs: dict[tuple[int, ...], tuple[tuple[DeviceConfig, ...], ...]] = {}
        #: What a share of a device consumes, by way and kind.
        self._consumed: dict[tuple[int, Kind | None], Mapping[str, Quantity]] = {}

    def picks(self, choice: Choice, order: tuple[int, ...]) -> Picks | None:
        """The devices of a choice for one claim alone. `order` translates bits into positions."""
        if self._plan.claims != 1:
            return None
        devices = tuple([(way, order[bit]) for way, bits in choice for bit in bits])
        return Picks(devices, self._config(choice)[0]) if devices else None

    def picked(self, claim: ResourceClaim, picks: Picks, record: NodeRecord, seed: str) -> Allocation | None:
        """The allocation on one node, if all its devices there are for that node by name."""
        results: list[DeviceResult] = []
        offers = record.offers
        for way, position in picks.devices:
            offer = offers[position]
            if offer.plain and way.plain:
                results.append(DeviceResult(way.name, *offer.id))
            elif offer.named:
                results.append(self._result(claim, way, offer, len(results), seed))
            else:
                return None
        return Allocation(tuple(results), picks.config, record.selector)

    def _config(self, choice: Choice) -> tuple[tuple[DeviceConfig, ...], ...]:
        ways = tuple([way.index for way, _ in choice])
        configs = self._configs.get(ways)
        if configs is None:
            configs = self._configs[ways] = tuple(
                assemble_config(spec, tuple(way for way, _ in choice if way.claim == number))
                for number, spec in enumerate(self._plan.specs)
            )
        return configs

    def allocations(
        self, claims: tuple[ResourceClaim, ...], choice: Choice, order: tuple[int, ...], record: NodeRecord, seed: str
    ) -> tuple[Allocation, ...]:
        """One allocation a claim. `order` translates the choice's bits into positions of the node's devices."""
        results: list[list[DeviceResult]] = [[] for _ in claims]
        selectors: list[NodeSelector | None] = [None] * len(claims)
        for way, bits in choice:
            mine = results[way.claim]
            for bit in bits:
                offer = record.offers[order[bit]]
                if way.plain and offer.plain:
                    mine.append(DeviceResult(way.name, *offer.id))
                    selectors[way.claim] = record.selector
                else:
                    mine.append(self._result(claims[way.claim], way, offer, len(mine), seed))
        for number in range(len(claims)):
            if selectors[number] is None:
                offers = [record.offers[order[bit]] for way, bits in choice if way.claim == number for bit in bits]
                selectors[number] = node_selector(offers, record)
        configs = self._config(choice)
        return tuple(
            [
                Allocation(tuple(mine), config, selector)
                for mine, config, selector in zip(results, configs, selectors, strict=True)
            ]
        )

    def _result(self, claim: ResourceClaim, way: Way, offer: Offer, index: int, seed: str) -> DeviceResult:
        device_id, device, detail = offer.id, offer.device, way.detail
        if not device.allow_multiple and not device.binding_conditions and not offer.slice.skip_node_operations:
            if not detail.tolerations and not way.admin:
                return DeviceResult(way.name, device_id.driver, device_id.pool, device_id.device)
        share_id, consumed = None, NO_CAPACITY
        if device.allow_multiple and self._features.consumable_capacity:
            consumed = self._consumption(way, offer)
            owner = claim.meta.uid or str(claim.key)
            share_id = str(uuid5(SHARES, f"{seed}/{owner}/{way.name}/{index}/{device_id}"))
        bound = self._features.device_binding_and_status
        return DeviceResult(
            request=way.name,
            driver=device_id.driver,
            pool=device_id.pool,
            device=device_id.device,
            admin_access=way.admin,
            tolerations=detail.tolerations,
            binding_conditions=device.binding_conditions if bound else (),
            binding_failure_conditions=device.binding_failure_conditions if bound else (),
            share_id=share_id,
            consumed_capacity=consumed,
            skip_node_operations=offer.slice.skip_node_operations,
        )

    def _consumption(self, way: Way, offer: Offer) -> Mapping[str, Quantity]:
        """What a share consumes: the same of all devices of one kind."""
        key = way.index, offer.kind
        known = self._consumed.get(key)
        if known is None:
            fractional = self._features.fractional_capacity_range
            known = consumption(way.detail.capacity, offer.device, fractional) or NO_CAPACITY
            self._consumed[key] = known
        return known


def assemble_config(spec: ClaimSpec, ways: tuple[Way, ...]) -> tuple[DeviceConfig, ...]:
    """Configuration of the classes in the order of the requests, each once, then the claim's as far as it concerns what was chosen.

    `requests` is empty where the configuration concerns all of them.
    """
    collected: list[DeviceConfig] = []
    class_users: dict[str, list[str]] = {}
    for way in ways:
        class_users.setdefault(way.detail.device_class_name, []).append(way.name)
    for name, users in class_users.items():
        device_class = next(way.filter.device_class for way in ways if way.detail.device_class_name == name)
        collected += [DeviceConfig(tuple(users), item.opaque, "FromClass") for item in device_class.config]
    chosen = {name for way in ways for name in (way.name, way.name.partition("/")[0])}
    requested = {request.name for request in spec.requests}
    for item in spec.config:
        if not item.requests or any(name in chosen or name in requested for name in item.requests):
            collected.append(DeviceConfig(item.requests, item.opaque, "FromClaim"))
    return tuple(
        DeviceConfig((), item.opaque, item.source) if _concerns_all(item, ways) else item for item in collected
    )


def _concerns_all(config: DeviceConfig, ways: tuple[Way, ...]) -> bool:
    return all(way.name in config.requests or way.name.partition("/")[0] in config.requests for way in ways)


def node_selector(offers: list[Offer], record: NodeRecord) -> NodeSelector | None:
    """Where these devices can be used: on this node only if any of them is local or binds to it; None = anywhere."""
    fields: list[dict[str, Any]] = []
    expressions: list[dict[str, Any]] = []
    for offer in offers:
        source = source_of(offer)
        if source.node_name is not None or offer.device.binds_to_node:
            return record.selector
        if source.node_selector is None:
            continue
        terms = source.node_selector.source.get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            # Alternatives cannot be combined in one term; the API server accepts only one.
            return record.selector
        for term in terms:
            _add(term.get("matchFields") or (), fields)
            _add(term.get("matchExpressions") or (), expressions)
    if not fields and not expressions:
        return None
    term = {}
    if expressions:
        term["matchExpressions"] = expressions
    if fields:
        term["matchFields"] = fields
    return NodeSelector.from_dict({"nodeSelectorTerms": [term]})


def _add(requirements: Any, known: list[dict[str, Any]]) -> None:
    """Add what is not there yet; the order of values makes no difference."""
    for item in requirements:
        same = (
            other
            for other in known
            if other["key"] == item["key"]
            and other["operator"] == item["operator"]
            and set(other.get("values") or ()) == set(item.get("values") or ())
        )
        if next(same, None) is None:
            known.append(item)
