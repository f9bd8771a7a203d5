"""What a rule finds, and the table of rules: code, what it means at run time, the repair.

A rule is a function that yields what it finds in one object; `rule` puts it into the table. `docs/lint.md` shows the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dra_operator.api.fieldpath import FieldPath

if TYPE_CHECKING:
    from dra_operator.lint.scope import Scope
    from dra_operator.lint.subjects import Subject

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A certain repair of the text: `rename` a key, `quote` a scalar as it stands, or `set` a scalar."""

    path: FieldPath
    action: Literal["rename", "quote", "set"]
    value: Any = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule yields. `problem` is the particular; what it leads to and the usual repair are the rule's."""

    path: FieldPath
    problem: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of one object. `edits` repair it for certain; none where a person must decide."""

    subject: int
    path: FieldPath
    code: str
    level: Level
    message: str
    fix: str
    edits: tuple[Edit, ...] = ()


Check = Callable[["Subject", "Scope"], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`outcome`: what happens at run time. `repair`: where the finding has no better one. `inventory`: needs slices."""

    code: str
    what: str
    outcome: str
    repair: str
    level: Level
    inventory: bool


RULES: dict[str, Rule] = {}
CHECKS: list[tuple[Rule, frozenset[str], Check]] = []


def declare(
    code: str, what: str, outcome: str, repair: str, *, level: Level = "error", inventory: bool = False
) -> Rule:
    """Put a code into the table without a check of its own."""
    assert code not in RULES, code
    RULES[code] = Rule(code, what, outcome, repair, level, inventory)
    return RULES[code]


def rule(
    code: str,
    *kinds: str,
    what: str,
    outcome: str,
    repair: str,
    level: Level = "error",
    inventory: bool = False,
) -> Callable[[Check], Check]:
    """Make a function a rule for objects of some kinds (none: for all)."""
    entry = declare(code, what, outcome, repair, level=level, inventory=inventory)

    def register(check: Check) -> Check:
        CHECKS.append((entry, frozenset(kinds), check))
        return check

    return register


def check_for(*kinds: str, inventory: bool = False) -> Callable[[Check], Check]:
    """Make a function a check that says with each finding which declared code it has."""

    def register(check: Check) -> Check:
        CHECKS.append((Rule("", "", "", "", "error", inventory), frozenset(kinds), check))
        return check

    return register


def finding(subject: int, found: Found, rule: Rule) -> Finding:
    """The finding with what the rule says of all of its kind."""
    rule = RULES[found.code] if found.code else rule
    message = f"{found.problem}; {rule.outcome}" if rule.outcome else found.problem
    return Finding(subject, found.path, rule.code, rule.level, message, found.fix or rule.repair, found.edits)
