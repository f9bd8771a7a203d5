"""Selectors rewritten for a fix: another bound, without a term, or guarded against attributes that a device lacks.

A term is named by its text as it is printed (`term_texts`), so that rewrites can follow each other. Every result compiles and says
what it was meant to say, or there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import CompileError, cached_selector
from dra_operator.cel.analysis import conjuncts, reads
from dra_operator.cel.ast import Call, Expr
from dra_operator.cel.guards import conjunction, guarded
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import quoted, unparse


def term_texts(expression: str) -> tuple[str, ...]:
    """The terms of the outermost `&&`, printed; nothing for an expression that cannot be parsed."""
    return tuple(map(unparse, _terms(expression) or ()))


def rebound(expression: str, term: str, operator: str, value: Any) -> str | None:
    """The expression with a term that compares with another value."""
    terms = _terms(expression) or []
    for number, found in enumerate(terms):
        subject = _subject(found) if unparse(found) == term else None
        text = None if subject is None else comparison(unparse(subject), operator, value)
        if text is None:
            continue
        terms[number] = parse(text)
        result = _checked(unparse(conjunction(terms)))
        made = None if result is None else cached_selector(result).conjuncts[number].comparison
        right = made is not None and (made.operator, made.bound) == (operator, value)
        return result if right else None
    return None


def without(expression: str, term: str) -> str | None:
    """The expression without one term; "true" where it was the only one."""
    terms = _terms(expression) or []
    rest = [found for found in terms if unparse(found) != term]
    if len(rest) == len(terms):
        return None
    return _checked(unparse(conjunction(rest))) if rest else "true"


def guarding(expression: str) -> str | None:
    """The expression that does not match, instead of failing, where a device lacks what it reads; None if it does so already."""
    try:
        root = parse(expression)
    except (CompileError, RecursionError):
        return None
    result = guarded(root)
    return None if result is root else _checked(unparse(result))


@dataclass(frozen=True, slots=True)
class Mistyped:
    """A term that compares what the device has with text, by size. `name`: of the attribute or capacity, `capacity`: which it is."""

    term: str
    subject: str
    operator: str
    text: str
    name: str
    capacity: bool


def mistyped(expression: str) -> tuple[Mistyped, ...]:
    """The terms that compare by size with text: of a quantity, version or number this fails."""
    found = []
    for term in term_texts(expression):
        match = _BY_SIZE.fullmatch(term)
        if match is not None:
            capacity = match["subject"].startswith("device.capacity[")
            name = match["name"] or match["quoted"]
            found.append(Mistyped(term, match["subject"], match["operator"], match["text"], name, capacity))
    return tuple(found)


def retyped(expression: str, item: Mistyped, value: Quantity | Semver | int) -> str | None:
    """The expression with this term comparing with a value of the right type; None where it still does not compile."""
    terms = _terms(expression) or []
    for number, found in enumerate(terms):
        text = comparison(item.subject, item.operator, value) if unparse(found) == item.term else None
        if text is not None:
            terms[number] = parse(text)
            return _checked(unparse(conjunction(terms)))
    return None


#: As `unparse` prints it.
_BY_SIZE = re.compile(
    r"(?P<subject>device\.(?:attributes|capacity)\['[^']+'\](?:\.(?P<name>\w+)|\['(?P<quoted>[^']+)'\])) "
    r"(?P<operator>>=|<=|>|<) '(?P<text>[^'\\]*)'"
)


def _terms(expression: str) -> list[Expr] | None:
    try:
        return list(conjuncts(parse(expression)))
    except (CompileError, RecursionError):
        return None


def _subject(term: Expr) -> Expr | None:
    """The side of a comparison that reads the device."""
    if not isinstance(term, Call):
        return None
    sides = [*term.args, *([] if term.target is None else [term.target])]
    reading = [side for side in sides if reads(side)]
    if len(reading) != 1:
        return None
    side = reading[0]
    if isinstance(side, Call) and side.function == "compareTo":
        return side.target
    return side


def comparison(subject: str, operator: str, value: Any) -> str | None:
    """A term that compares what the device has with a value."""
    match value:
        case Quantity():
            return f"{subject}.compareTo(quantity({quoted(str(value))})) {operator} 0"
        case Semver():
            return f"{subject}.compareTo(semver({quoted(str(value))})) {operator} 0"
        case bool():
            return None
        case int():
            return f"{subject} {operator} {value}"
        case str():
            return f"{subject} {operator} {quoted(value)}"
    return None


def _checked(text: str) -> str | None:
    try:
        cached_selector(text)
    except CompileError:
        return None
    return text
