"""The keys of the string dialect over a whole input: what type each has, and what it is called in v1.

Filled first with everything the input says (`publish`, `use`), then asked. One dictionary serves slices and selectors alike, so
that what one publishes the other finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_operator.cel.guards import Access
from dra_operator.convert.expressions import DEVICE_TYPE, Use
from dra_operator.convert.names import identifier, is_subdomain
from dra_operator.convert.texttypes import Evidence, TextType, fits, looks_typed

#: The driver under which devices of the dialect are published; it is also the domain of their attributes.
DRIVER = "legacy.dra-operator.dev"

#: What the attribute `type` is called where devices have both it and a different type of their own.
_OTHER_TYPE = "attribute_type"


class Dictionary:
    """Keys are as written in the input; `expressions.DEVICE_TYPE` stands for `device.type`."""

    def __init__(self) -> None:
        self._evidence: dict[str, Evidence] = {}
        self._two_types = False
        self._by_name: dict[tuple[str, str], str] = {}

    # --- filling

    def publish(self, key: str, text: str) -> None:
        """A device has this."""
        self._of(key).published.add(text)

    def use(self, use: Use) -> None:
        """An expression does this."""
        evidence = self._of(use.key)
        evidence.ordered.update(use.ordered)
        evidence.equal.update(use.equal)
        if use.forced is not None:
            evidence.forced.add(use.forced)
        if use.other is not None:
            self._join(use.key, use.other)

    def separate_types(self) -> None:
        """Some device has a type and an attribute `type` that says something else."""
        self._two_types = True

    def settle(self) -> None:
        """Everything has been seen. A device's type and the attribute `type` are one, unless devices have both."""
        if not self._two_types and {DEVICE_TYPE, "type"} <= self._evidence.keys():
            self._join(DEVICE_TYPE, "type")
        for key in self._evidence:
            access = self.access(key)
            # The two readings of `type` may share a name, everything else must not.
            self._by_name.setdefault((access.domain, access.name), "type" if key == DEVICE_TYPE else key)

    def _of(self, key: str) -> Evidence:
        evidence = self._evidence.get(key)
        if evidence is None:
            evidence = self._evidence[key] = Evidence({key})
        return evidence

    def _join(self, left: str, right: str) -> None:
        one, other = self._of(left), self._of(right)
        if one is not other:
            one.add(other)
            for key in one.keys:
                self._evidence[key] = one

    # --- asking

    @property
    def keys(self) -> Iterable[str]:
        return self._evidence.keys()

    def type_of(self, key: str) -> TextType:
        return self._of(key).type()

    def access(self, key: str) -> Access:
        """Where a v1 selector finds it."""
        domain, slash, name = key.rpartition("/")
        if not slash or not is_subdomain(domain, 63):
            domain, name = DRIVER, key
        if key == DEVICE_TYPE:
            name = "type"
        elif key == "type" and self._two_types:
            name = _OTHER_TYPE
        kind = "capacity" if self.type_of(key) is TextType.QUANTITY else "attributes"
        return Access(kind, domain, identifier(name))

    def same_name(self, key: str) -> str | None:
        """Another key that would get the same name in v1."""
        access = self.access(key)
        first = self._by_name.get((access.domain, access.name))
        return None if first is None or first in (key, "type") else first

    def odd_text(self, key: str) -> tuple[str, str] | None:
        """Two values of the key that cannot be put in one order: one that is a number, version or boolean and one that is text."""
        values = [*sorted(self._of(key).published), *sorted(self._of(key).ordered)]
        typed = [value for value in values if looks_typed(value)]
        plain = [value for value in values if not looks_typed(value)]
        return (typed[0], plain[0] if plain else typed[-1]) if typed else None

    def misfit(self, key: str, type: TextType) -> str | None:
        """A value of the key that is not of a type."""
        return next((value for value in sorted(self._of(key).published) if not fits(value, type)), None)
