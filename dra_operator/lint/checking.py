"""The way in: all rules on all objects of an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra_operator.lint import (  # noqa: F401  imported for the rules they declare
    combinations,
    inventoryrules,
    networks,
    policies,
    refusals,
    requests,
    selectorrules,
    slicerules,
    structure,
    workloads,
)
from dra_operator.lint.findings import CHECKS, RULES, Finding, Found, finding
from dra_operator.lint.published import Inventory
from dra_operator.lint.scope import Scope
from dra_operator.lint.slicerules import readable
from dra_operator.lint.subjects import Subject

__all__ = ["RULES", "check", "unreadable"]


def check(objects: Sequence[Any], *, inventory: bool = False, cluster: Sequence[Any] | None = None) -> list[Finding]:
    """What will not work in the objects, one after the other in the order given.

    `objects`: plain values as read from YAML or JSON. `inventory`: check against the slices among them. `cluster`: objects of a
    cluster, which nothing is said about; they are there to be referred to, and their slices are the inventory: all
    DeviceClasses, ResourceSlices, Nodes, and the claims, templates and groups of the namespaces concerned.
    """
    around = list(cluster or ())
    given = [*objects, *_without(around, objects)]
    subjects = [Subject(index, value if isinstance(value, Mapping) else {}) for index, value in enumerate(given)]
    published = readable(subjects) if inventory or cluster is not None else []
    scope = Scope(subjects, Inventory(published) if published else None, complete=cluster is not None)
    found: dict[tuple[object, ...], Finding] = {}
    for subject in subjects[: len(objects)]:
        for rule, kinds, function in CHECKS:
            if (kinds and subject.kind not in kinds) or (rule.inventory and scope.inventory is None):
                continue
            for item in function(subject, scope):
                result = finding(subject.index, item, rule)
                found.setdefault((subject.index, result.path, result.code, result.message), result)
    return _without_echoes(list(found.values()))


def _without(cluster: Sequence[Any], objects: Sequence[Any]) -> list[Any]:
    """What is in the cluster and not given, which will replace it."""
    names = {_name(Subject(0, value)) for value in objects if isinstance(value, Mapping)}
    return [value for value in cluster if _name(Subject(0, value)) not in names]


def _name(subject: Subject) -> tuple[str, str, str, str]:
    return subject.kind, subject.group, subject.namespace, subject.name


def unreadable(message: str, repair: str = "") -> Finding:
    """The finding for text that could not be read at all, or holds nothing."""
    fix = f"{repair[:1].upper()}{repair[1:]}." if repair else ""
    return finding(-1, Found((), message, fix, code="unreadable"), RULES["unreadable"])


#: Findings that another one at the same place explains better.
_ECHOES = {
    "selector-fails": {"attribute-type", "unknown-attribute", "text-compared-as-number", "unguarded-attribute"},
    "matches-nothing": {"attribute-type", "unknown-attribute", "text-compared-as-number"},
    "invalid-value": {"wrong-type"},
    "missing-field": {"old-dialect", "unknown-field", "wrong-type"},
    "shared-claim": {"unknown-claim"},
}


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    codes: dict[tuple[int, object], set[str]] = {}
    for item in findings:
        codes.setdefault((item.subject, item.path), set()).add(item.code)
    return [item for item in findings if not _ECHOES.get(item.code, set()) & codes[item.subject, item.path]]
