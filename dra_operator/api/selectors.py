"""Label selectors and node selectors, with the semantics of `metav1.LabelSelector` and `corev1.NodeSelector`."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.errors import InvalidField, each
from dra_operator.api.sharing import Sharing, packed, shared_text


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression over a label (or, in `matchFields`, over a field)."""

    key: str
    operator: str
    values: tuple[str, ...]
    #: The values, for looking one up: a list of hostnames is as long as the cluster is large.
    _among: Container[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_among", self.values if len(self.values) < _FEW else frozenset(self.values))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Requirement:
        values = tuple(shared_text(value) for value in data.get("values") or ())
        requirement = cls(shared_text(data["key"]), shared_text(data["operator"]), values)
        if requirement.operator not in _OPERATORS:
            raise InvalidField(
                f"unknown operator {requirement.operator!r}, use one of {', '.join(_OPERATORS)}", "operator"
            )
        if requirement.operator in ("Gt", "Lt"):
            if len(requirement.values) != 1 or _integer(requirement.values[0]) is None:
                raise InvalidField(f"operator {requirement.operator} needs exactly one integer value", "values")
        return requirement

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self._among
            case "NotIn":
                return value is None or value not in self._among
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                found, bound = _integer(value), _integer(self.values[0])
                if found is None or bound is None:
                    return False
                return found > bound if self.operator == "Gt" else found < bound


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


#: Fewer values than this are looked through.
_FEW = 8
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)


def _integer(text: str | None) -> int | None:
    """As Go's ParseInt reads an int64: no blanks, no underscores, nothing beyond 64 bits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; an empty selector matches everything."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LabelSelector:
        labels = tuple(
            Requirement(key, "In", (value,)) for key, value in sorted((data.get("matchLabels") or {}).items())
        )
        return cls(labels + each("matchExpressions", data.get("matchExpressions"), Requirement.from_dict))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """A term without any requirement matches nothing (corev1.NodeSelectorTerm)."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NodeSelectorTerm:
        fields = each("matchFields", data.get("matchFields"), Requirement.from_dict)
        for index, requirement in enumerate(fields):
            if requirement.key != "metadata.name":
                raise InvalidField(
                    f"unknown field {requirement.key!r}, only metadata.name", f"matchFields[{index}].key"
                )
        return cls(each("matchExpressions", data.get("matchExpressions"), Requirement.from_dict), fields)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(requirement.matches(labels) for requirement in self.expressions) and all(
            requirement.matches({"metadata.name": name}) for requirement in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms are ORed; no term matches no node. `source` is the object as read, to be written back unchanged."""

    terms: tuple[NodeSelectorTerm, ...]
    source: dict[str, Any]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NodeSelector:
        """Equal selectors give one object: all that is allocated on a node has the same."""
        try:
            key = packed(data)
        except TypeError:
            return cls._read(data)
        return _NODE_SELECTORS.get(key, lambda: cls._read(data))

    @classmethod
    def _read(cls, data: dict[str, Any]) -> NodeSelector:
        return cls(each("nodeSelectorTerms", data.get("nodeSelectorTerms"), NodeSelectorTerm.from_dict), data)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(name, labels) for term in self.terms)

    @property
    def size(self) -> int:
        """Its entries. One field a term is free, so that naming a node in each term does not change it."""
        return sum(len(term.expressions) + max(len(term.fields), 1) for term in self.terms)

    def only_node(self) -> str | None:
        """The one node this selector names by `metadata.name`, or None if it is not of that form."""
        if len(self.terms) == 1 and len(self.terms[0].fields) == 1:
            field = self.terms[0].fields[0]
            if field.operator == "In" and len(field.values) == 1:
                return field.values[0]
        return None

    def __hash__(self) -> int:
        return hash(self.terms)


_NODE_SELECTORS = Sharing()


def node_by_name(name: str) -> dict[str, Any]:
    """The node selector that the allocator writes for node-local devices."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}
