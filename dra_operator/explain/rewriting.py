"""Selectors rewritten for a fix: another bound, without a term, or guarded against attributes that a device lacks.

A term is named by its text as it is printed (`term_texts`), so that rewrites can follow each other. Every result compiles and says
what it was meant to say, or there is none.
"""

from __future__ import annotations

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
        text = None if subject is None else _comparison(unparse(subject), operator, value)
        if text is None:
            continue
        terms[number] = parse(text)
        result = _checked(unparse(conjunction(terms)))
        comparison = None if result is None else cached_selector(result).conjuncts[number].comparison
        right = comparison is not None and (comparison.operator, comparison.bound) == (operator, value)
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


def _comparison(subject: str, operator: str, value: Any) -> str | None:
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
