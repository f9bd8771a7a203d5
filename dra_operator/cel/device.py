"""A device as expressions see it.

Built once per device and kept; cheap enough for tens of thousands. Attributes stay in the map they came in: they are grouped
by domain only if an expression asks for a whole domain.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel.values import DeviceMap

__all__ = ["AttributeValue", "Device", "bind_device"]

Scalar = bool | int | str | Semver
AttributeValue = Scalar | tuple[Scalar, ...] | None

# What the API allows for one device; the cost estimate rests on it.
_MOST_ENTRIES = 32
_LONGEST_TEXT = 64
_MOST_VALUES = 48


class Device:
    """A device bound for evaluation.

    `within_limits`: no larger than the API server accepts, and with values of known types only.
    """

    __slots__ = (
        "_attributes",
        "_capacity",
        "allow_multiple_allocations",
        "driver",
        "raw_attributes",
        "raw_capacity",
        "within_limits",
    )

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, AttributeValue],
        capacity: Mapping[str, Quantity],
        allow_multiple_allocations: bool,
    ) -> None:
        self.driver = driver
        self.raw_attributes = attributes
        self.raw_capacity = capacity
        self.allow_multiple_allocations = allow_multiple_allocations
        self.within_limits = _within_limits(driver, attributes, capacity)
        self._attributes: DeviceMap | None = None
        self._capacity: DeviceMap | None = None

    @property
    def unsupported(self) -> str | None:
        """The name of an attribute whose value is of a type that is not known here."""
        return next((name for name, value in self.raw_attributes.items() if value is None), None)

    @property
    def attributes(self) -> DeviceMap:
        """Attribute values by domain and name."""
        if self._attributes is None:
            self._attributes = _grouped(self.driver, self.raw_attributes)
        return self._attributes

    @property
    def capacity(self) -> DeviceMap:
        """Quantities by domain and name."""
        if self._capacity is None:
            self._capacity = _grouped(self.driver, self.raw_capacity)
        return self._capacity


def bind_device(
    driver: str,
    attributes: Mapping[str, AttributeValue],
    capacity: Mapping[str, Quantity],
    allow_multiple_allocations: bool = False,
) -> Device:
    """A device ready for evaluation. The maps are kept, not copied: do not change them afterwards."""
    return Device(driver, attributes, capacity, allow_multiple_allocations)


def _grouped(driver: str, values: Mapping[str, object]) -> DeviceMap:
    grouped = DeviceMap()
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        if slash:
            grouped.setdefault(domain, {}).setdefault(identifier, value)
        else:
            # The driver's own name goes before the same name written out.
            grouped.setdefault(driver, {})[name] = value
    return grouped


def _within_limits(driver: str, attributes: Mapping[str, AttributeValue], capacity: Mapping[str, Quantity]) -> bool:
    if len(attributes) + len(capacity) > _MOST_ENTRIES or len(driver) > _LONGEST_TEXT:
        return False
    for value in attributes.values():
        kind = type(value)
        if kind is str:
            if len(value) > _LONGEST_TEXT:  # type: ignore[arg-type]
                return False
        elif kind is tuple:
            if not _list_within_limits(value):  # type: ignore[arg-type]
                return False
        elif value is None:
            return False
    return True


def _list_within_limits(values: tuple[Scalar, ...]) -> bool:
    return len(values) <= _MOST_VALUES and all(type(v) is not str or len(v) <= _LONGEST_TEXT for v in values)
