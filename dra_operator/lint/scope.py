"""All that rules may ask about the rest of the input: objects by name, compiled selectors, the inventory and what matches in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from dra_operator.cel import CompileError, EvaluationError, Selector, compile_selector
from dra_operator.lint.published import Inventory, Published
from dra_operator.lint.subjects import Detail, Place, Subject, mapping, selectors


@dataclass(frozen=True, slots=True)
class Failure:
    """A selector that has no answer for a device."""

    place: int
    device: Published
    message: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """What selectors leave of an inventory. `rejected`: how many devices the first of the selectors (by index) rejected."""

    devices: tuple[Published, ...]
    failures: tuple[Failure, ...]
    rejected: dict[int, int]


class Scope:
    """`inventory` is None where nothing is to be checked against one."""

    def __init__(self, subjects: Sequence[Subject], inventory: Inventory | None = None) -> None:
        self.subjects = subjects
        self.inventory = inventory
        #: For what rules derive from the input and several objects need.
        self.memo: dict[str, object] = {}
        self._compiled: dict[str, Selector | CompileError] = {}
        self._candidates: dict[tuple[str, ...], Candidates] = {}

    # --- objects

    @cached_property
    def classes(self) -> dict[str, Subject]:
        """DeviceClasses of the input."""
        return self._named("DeviceClass")

    @cached_property
    def class_names(self) -> set[str]:
        """Names under which claims can ask, those included that are made from NetworkDeviceClasses."""
        return set(self.classes) | set(self._named("NetworkDeviceClass"))

    def first(self, subject: Subject) -> Subject:
        """The first object of the kind and name of this one."""
        return self._first[subject.kind, subject.group, subject.namespace, subject.name]

    @cached_property
    def _first(self) -> dict[tuple[str, str, str, str], Subject]:
        found: dict[tuple[str, str, str, str], Subject] = {}
        for subject in self.subjects:
            found.setdefault((subject.kind, subject.group, subject.namespace, subject.name), subject)
        return found

    def claim(self, kind: str, namespace: str, name: str) -> Subject | None:
        """A ResourceClaim or ResourceClaimTemplate of the input."""
        return self._claims.get((kind, namespace, name))

    def claim_names(self, kind: str, namespace: str) -> list[str]:
        return sorted(name for found, space, name in self._claims if (found, space) == (kind, namespace))

    @cached_property
    def _claims(self) -> dict[tuple[str, str, str], Subject]:
        kinds = ("ResourceClaim", "ResourceClaimTemplate")
        found = [subject for subject in self.subjects if subject.kind in kinds and subject.current]
        return {(subject.kind, subject.namespace, subject.name): subject for subject in found}

    def _named(self, kind: str) -> dict[str, Subject]:
        return {subject.name: subject for subject in self.subjects if subject.kind == kind and subject.current}

    # --- selectors

    def compiled(self, expression: str) -> Selector | CompileError:
        """As the API server compiles new objects."""
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = compile_selector(expression, env="NewExpressions")
            except CompileError as error:
                found = error
            self._compiled[expression] = found
        return found

    def class_places(self, name: str) -> list[Place] | None:
        """The selectors of a class; None if the class is not in the input."""
        subject = self.classes.get(name)
        return None if subject is None else list(selectors(mapping(subject.value.get("spec")), ("spec",)))

    def places(self, detail: Detail) -> list[Place] | None:
        """All selectors that a device for a request must pass, the class's first; None if the class is not in the input."""
        of_class = self.class_places(detail.device_class)
        return None if of_class is None else [*of_class, *selectors(detail.value, detail.path)]

    def candidates(self, places: Iterable[Place]) -> Candidates | None:
        """The devices that pass selectors; None without an inventory, or if one does not compile."""
        expressions = tuple(place.expression for place in places)
        if self.inventory is None:
            return None
        if expressions not in self._candidates:
            compiled = [self.compiled(expression) for expression in expressions]
            if not all(isinstance(item, Selector) for item in compiled):
                return None
            chain = [item for item in compiled if isinstance(item, Selector)]
            self._candidates[expressions] = _filter(chain, self.inventory.devices)
        return self._candidates[expressions]


def _filter(chain: Sequence[Selector], devices: Iterable[Published]) -> Candidates:
    passed: list[Published] = []
    failures: list[Failure] = []
    rejected: dict[int, int] = {}
    for device in devices:
        for index, selector in enumerate(chain):
            try:
                if selector.matches(device.view):
                    continue
            except EvaluationError as error:
                failures.append(Failure(index, device, str(error)))
            rejected[index] = rejected.get(index, 0) + 1
            break
        else:
            passed.append(device)
    return Candidates(tuple(passed), tuple(failures), rejected)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant. Names of one series (gpu, gpu-0, gpu-1) are not mistaken for one another."""
    names = [item for item in known if item != name]
    folded = {_folded(item): item for item in names}
    if _folded(name) in folded:
        return folded[_folded(name)]
    others = [item for item in names if _series(item) != _series(name)]
    found = get_close_matches(name, others, 1, 0.75)
    return found[0] if found else None


def same_but_for_case(name: str, other: str) -> bool:
    """Whether names differ in nothing but case, - and _: then it is certain what was meant."""
    return _folded(name) == _folded(other)


def _series(name: str) -> str:
    return re.sub(r"[-_.]?[0-9]+", "", name)


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def listed(names: Iterable[str], most: int = 6) -> str:
    """Some names for a message."""
    items = list(names)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
