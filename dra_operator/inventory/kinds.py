"""Kinds: devices that no selector seen so far can tell apart, whatever they are called.

A device's name, UUID or PCI address differs on every node; as long as no expression reads it, it makes no difference to an allocation.
A kind therefore holds a device without its name and only with the attributes that somebody reads (the *projection*), so that equal
nodes of a large cluster are found to be equal. Attributes read by constraints alone are not part of a kind: there, only equality
within a node matters (see `views`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.api.slices import AttributeValue, Device
from dra_operator.api.taints import BLOCKING_EFFECTS, Taint

#: An attribute by domain and name; the domain of an unqualified name is the driver. Name None: all of the domain.
Attribute = tuple[str, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """`device` is the first device seen of this kind: read from it only what the projection covers.

    `unreadable` names an attribute of a type this version does not know; no expression can be evaluated on such a device.
    `sizes`: its capacities in 10^-9, by name. `family`: kinds with the same number differ in attributes, and in which counters they
    consume, alone.
    """

    seq: int
    driver: str
    device: Device
    taints: tuple[Taint, ...]
    skips_node: bool
    sizes: tuple[tuple[str, int], ...]
    unreadable: str | None = None
    family: int = -1


class Kinds:
    """Interns kinds under a projection.

    In it are the attributes that somebody reads, and from the start those with few values (`FEW`): they hardly tell apart more
    kinds, and having them saves doing everything anew for the first one who reads them.
    """

    FEW = 16

    def __init__(self) -> None:
        self._kinds: dict[tuple[object, ...], Kind] = {}
        self._families: dict[tuple[object, ...], int] = {}
        self._read: set[Attribute] = set()
        self._read_all = False
        self._domains: set[str] = set()
        self._names: dict[str, tuple[str, ...]] = {}
        #: Values seen of each published name, by driver; None once there are too many.
        self._values: dict[str, dict[str, set[object] | None]] = {}
        self._texts: dict[int, tuple[Quantity, str]] = {}
        self._outgrown = False
        self._count = 0

    @property
    def read(self) -> frozenset[Attribute] | None:
        """The attributes somebody reads; None when every one is read."""
        return None if self._read_all else frozenset(self._read)

    def observe(self, driver: str, device: Device) -> None:
        """Take note of a device before kinds are asked for."""
        known = self._values.setdefault(driver, {})
        for name, value in device.attributes.items():
            if name not in known:
                known[name] = {typed(value)}
                self._names.pop(driver, None)
                continue
            values = known[name]
            if values is None:
                continue
            values.add(typed(value))
            if len(values) > self.FEW:
                known[name] = None
                if not self._is_read(driver, name):
                    self._names.pop(driver, None)
                    self._outgrown = True

    def outgrown(self) -> bool:
        """True, once, if an attribute has left the projection since the last call: all kinds are to be asked for anew."""
        if not self._outgrown:
            return False
        self._outgrown = False
        self._forget()
        return True

    def covers(self, name: str) -> bool:
        """Do kinds tell apart the values of a fully qualified attribute, whoever publishes it?"""
        if self._read_all:
            return True
        domain, _, bare = name.partition("/")
        for driver, known in self._values.items():
            for published in (name, bare) if domain == driver else (name,):
                if known.get(published, ()) is None and not self._is_read(driver, published):
                    return False
        return True

    def require(self, attributes: Iterable[Attribute] | None) -> bool:
        """Widen the projection (None: to everything). True if kinds interned before may now be too coarse."""
        if self._read_all:
            return False
        if attributes is None:
            self._read_all = True
        else:
            missing = set(attributes) - self._read
            if not missing:
                return False
            self._read |= missing
            self._domains |= {domain for domain, name in missing if name is None}
            if not any(self._leaves_out(*attribute) for attribute in missing):
                return False
        self._names.clear()
        self._forget()
        return True

    def _forget(self) -> None:
        self._kinds.clear()
        self._families.clear()

    def _leaves_out(self, domain: str, name: str | None) -> bool:
        """Is an attribute that was not read so far, or any of a domain, outside the projection?"""
        for driver, known in self._values.items():
            for published, values in known.items():
                where, _, bare = published.rpartition("/")
                if (where or driver) == domain and name in (None, bare) and values is None:
                    return True
        return False

    def _is_read(self, driver: str, published: str) -> bool:
        where, _, bare = published.rpartition("/")
        domain = where or driver
        return self._read_all or domain in self._domains or (domain, bare) in self._read

    def of(self, driver: str, device: Device, taints: tuple[Taint, ...], skips_node: bool) -> Kind:
        """The kind of a device with these taints (its own and those of rules)."""
        blocking = tuple(taint for taint in taints if taint.effect in BLOCKING_EFFECTS) if taints else ()
        unreadable = None
        for name, value in device.attributes.items():
            if value is None:
                unreadable = name
                break
        sizes = tuple(sorted((name, amount.nano) for name, amount in device.capacity.items()))
        consumption = _consumption(device)
        common = (
            driver,
            sizes,
            tuple([self._text(device.capacity[name]) for name, _ in sizes]),
            _policies(device),
            bool(consumption),
            blocking,
            device.allow_multiple,
            bool(device.binding_conditions),
            skips_node,
            unreadable,
        )
        key = (common, tuple(self._projected(driver, device)), consumption)
        kind = self._kinds.get(key)
        if kind is None:
            self._count += 1
            family = self._families.setdefault(common, self._count)
            kind = Kind(self._count, driver, device, blocking, skips_node, sizes, unreadable, family)
            self._kinds[key] = kind
        return kind

    def _text(self, amount: Quantity) -> str:
        """How an amount prints; equal texts are parsed to one object, so that few are ever worked out."""
        known = self._texts.get(id(amount))
        if known is None:
            if len(self._texts) > 65_536:
                self._texts.clear()
            known = self._texts[id(amount)] = amount, str(amount)
        return known[1]

    def _projected(self, driver: str, device: Device) -> Iterator[object]:
        attributes = device.attributes
        if not attributes:
            return
        names = self._names.get(driver)
        if names is None:
            known = self._values.get(driver, {})
            names = self._names[driver] = tuple(
                sorted(name for name, values in known.items() if values is not None or self._is_read(driver, name))
            )
        for name in names:
            if name in attributes:
                yield name
                yield typed(attributes[name])


def typed(value: AttributeValue) -> object:
    """A hashable stand-in for an attribute value that keeps types apart: 1, true, "1" and 1.0.0 all differ, as do 1.0.0+a and 1.0.0+b."""
    if value.__class__ is str or value.__class__ is int:
        return value
    if value.__class__ is bool:
        return ("bool", value)
    if value.__class__ is Semver:
        return ("version", str(value))
    if isinstance(value, tuple):
        return ("list", *map(typed, value))
    return ("unknown",)


def _policies(device: Device) -> tuple[object, ...]:
    if not device.policies:
        return ()
    return tuple(
        (
            name,
            str(policy.default),
            None if policy.valid_values is None else tuple(map(str, policy.valid_values)),
            str(policy.minimum),
            str(policy.maximum),
            str(policy.step),
        )
        for name, policy in sorted(device.policies.items())
    )


def _consumption(device: Device) -> tuple[object, ...]:
    return tuple(
        (
            item.counter_set,
            tuple((name, amount.nano) for name, amount in sorted(item.counters.items())),
            item.compatibility_groups,
        )
        for item in device.consumes
    )


def attribute_of(device: Device, driver: str, name: str) -> AttributeValue:
    """The value of a fully qualified attribute, or None: by its full name, else by its bare name where the domain is the driver."""
    value = device.attributes.get(name)
    if value is None:
        domain, slash, bare = name.partition("/")
        if slash and domain == driver:
            value = device.attributes.get(bare)
    return value
