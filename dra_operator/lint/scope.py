"""All that rules may ask about the rest of the input: objects by name, compiled selectors, the inventory and what matches in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

from dra_operator.cel import CompileError, EvaluationError, Selector, compile_selector
from dra_operator.lint.published import Inventory, Published, per_node
from dra_operator.lint.subjects import Detail, Place, Subject, mapping, selectors


@dataclass(frozen=True, slots=True)
class Failure:
    """A selector that has no answer for a device."""

    place: int
    device: Published
    message: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """What selectors leave of an inventory.

    `rejected`: how many devices each of the selectors (by index) was the first to reject. `local`: how many devices are left
    on each node that alone can use them, `anywhere`: how many that several nodes can use.
    """

    devices: tuple[Published, ...] = ()
    failures: tuple[Failure, ...] = ()
    rejected: dict[int, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    anywhere: int = 0

    @property
    def most_on_a_node(self) -> int:
        return max(self.local.values(), default=0) + self.anywhere


class Scope:
    """`inventory` is None where nothing is to be checked against one. `complete`: all classes that there are, are known."""

    def __init__(
        self, subjects: Sequence[Subject], inventory: Inventory | None = None, *, complete: bool = False
    ) -> None:
        self.subjects = subjects
        self.complete = complete
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

    def groups(self, namespace: str) -> list[str]:
        """The ClaimGroups of a namespace."""
        return [item.name for item in self.subjects if item.kind == "ClaimGroup" and item.namespace == namespace]

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
    local, anywhere = per_node(passed)
    return Candidates(tuple(passed), tuple(failures), rejected, local, anywhere)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, given that `name` is wrong for sure."""
    names = [item for item in known if item != name]
    same = next((item for item in names if same_but_for_case(item, name)), None)
    if same is not None:
        return same
    found = get_close_matches(name, names, 1, 0.75)
    return found[0] if found else None


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name of which `name` is a misspelling; for names that may well exist elsewhere.

    train-a is no misspelling of train-b, nor gpu-a100 of gpu-h100, nor gpu-1 of gpu: one word of four letters or more must be
    slightly off, and all others the same.
    """
    for other in known:
        if other != name and (same_but_for_case(name, other) or _one_word_off(name, other)):
            return other
    return None


def _one_word_off(name: str, other: str) -> bool:
    mine, theirs = re.split(r"[-_.]", name), re.split(r"[-_.]", other)
    if len(mine) != len(theirs):
        return False
    off = [(one, two) for one, two in zip(mine, theirs, strict=True) if one != two]
    if len(off) != 1:
        return False
    one, two = off[0]
    words = one.isalpha() and two.isalpha() and min(len(one), len(two)) >= 4
    return words and one[0] == two[0] and bool(get_close_matches(one, [two], 1, 0.8))


def same_but_for_case(name: str, other: str) -> bool:
    """Whether names differ in nothing but case, - and _: then it is certain what was meant."""
    return _folded(name) == _folded(other)


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def listed(names: Iterable[str], most: int = 6) -> str:
    """Some names for a message."""
    items = list(names)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
