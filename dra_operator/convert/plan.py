"""What must be known of the whole input before one object of it can be converted, and where remarks go meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.dictionary import Dictionary
from dra_operator.convert.remarks import Assumption

#: (namespace, name); "" is the namespace of objects that name none.
Name = tuple[str, str]


@dataclass(slots=True)
class Plan:
    """Filled by a survey, read by the conversions.

    `slices_at`: how many slices of the dialect each node has, `devices_at`: (node, device) of their devices.
    `slices_in`: how many slices of each (driver, pool) are in the input, `split_in`: how many of them become two.
    `templates`: names of claim templates that are taken. `classes_for`: classes of the input by the extended resource they serve.
    """

    dictionary: Dictionary = field(default_factory=Dictionary)
    slices_at: Counter[str] = field(default_factory=Counter)
    devices_at: set[tuple[str, str]] = field(default_factory=set)
    slices_in: Counter[tuple[str, str]] = field(default_factory=Counter)
    split_in: Counter[tuple[str, str]] = field(default_factory=Counter)
    templates: set[Name] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    classes_for: dict[str, str] = field(default_factory=dict)
    _given: dict[tuple[str, ...], str] = field(default_factory=dict)

    def name_template(self, purpose: tuple[str, ...], namespace: str, candidates: Iterable[str]) -> str:
        """The first of the names that is free in the namespace; the same one whenever the same purpose asks."""
        if purpose not in self._given:
            name = next(name for name in candidates if (namespace, name) not in self.templates)
            self.templates.add((namespace, name))
            self._given[purpose] = name
        return self._given[purpose]


@dataclass(slots=True)
class Notes:
    """Collects what the conversion of one object assumed."""

    assumptions: list[Assumption] = field(default_factory=list)

    def assume(self, path: FieldPath, message: str) -> None:
        self.assumptions.append(Assumption(path, message))
