"""Selectors that do not fail for want of an attribute: a device without it does not match instead.

`guarded` rewrites an expression so that it is true exactly where the original is true. Where the original is false, or has no
answer because an attribute or capacity it reads is missing, the result is false. It goes by truth: under `!` an expression must
be known to be false, which takes the attribute as much as being true does. Errors of other kinds stay. What an operand or the
body of a macro may read counts as read, so there the result can be false where the original is true; never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, Literal, Select

__all__ = ["Access", "access_of", "conjunction", "disjunction", "guarded", "negation", "unguarded", "within_domain"]


class Access(NamedTuple):
    """`device.attributes['domain'].name`, or of `capacity`."""

    kind: str
    domain: str
    name: str

    def expr(self) -> Select:
        """The access as a tree."""
        return Select(0, _domain(self), self.name)

    def test(self) -> Expr:
        """The expression that says whether the device has it."""
        return Select(0, _domain(self), self.name, test=True)


def _domain(access: Access) -> Expr:
    kind = Select(0, Ident(0, "device"), access.kind)
    return Call(0, "_[_]", [kind, Literal(0, access.domain)])


def guarded(root: Expr) -> Expr:
    """The expression that is true where `root` is true and false where `root` is false or lacks what it reads.

    The very same tree, if every access is guarded already.
    """
    return _known(root, True, frozenset())


def unguarded(root: Expr) -> tuple[Access, ...]:
    """What the expression reads without having made sure that the device has it, in order, each once."""
    return tuple(dict.fromkeys(_missing(root, frozenset())))


def access_of(node: Expr) -> Access | None:
    """The access that a node is, read outright: neither optional nor a test."""
    match node:
        case Select(optional=False, test=False):
            operand, name = node.operand, node.field
        case Call(function="_[_]", args=[operand, Literal(value=str() as name)]):
            pass
        case _:
            return None
    return Access(*place, name) if (place := _place(operand)) else None


def within_domain(node: Expr) -> bool:
    """Whether a node asks a domain (`device.attributes['domain']`) for a name, or whether it has one, in whatever way."""
    match node:
        case Select() | Call(function="_[_]" | "_[?_]"):
            return _place(next(node.children())) is not None
        case Call(function="@in", args=[_, container]):
            return _place(container) is not None
        case Comprehension():
            return _place(node.range) is not None
    return False


def conjunction(terms: Iterable[Expr]) -> Expr:
    """All of the terms; nested conjunctions become one."""
    return _junction("_&&_", terms)


def disjunction(terms: Iterable[Expr]) -> Expr:
    """Any of the terms."""
    return _junction("_||_", terms)


def negation(term: Expr) -> Expr:
    if isinstance(term, Call) and term.function == "!_":
        return term.args[0]
    return Call(0, "!_", [term])


def _junction(function: str, terms: Iterable[Expr]) -> Expr:
    flat: list[Expr] = []
    for term in terms:
        flat.extend(term.args if isinstance(term, Call) and term.function == function else (term,))
    return flat[0] if len(flat) == 1 else Call(0, function, flat)


def _place(node: Expr) -> tuple[str, str] | None:
    """(kind, domain) of `device.attributes['domain']`."""
    match node:
        case Call(function="_[_]", args=[Select(optional=False, test=False) as kind, Literal(value=str() as domain)]):
            pass
        case Select(optional=False, test=False, operand=Select(optional=False, test=False) as kind, field=domain):
            pass
        case _:
            return None
    if kind.field in ("attributes", "capacity") and isinstance(kind.operand, Ident) and kind.operand.name == "device":
        return kind.field, domain
    return None


def _test_of(node: Expr) -> Access | None:
    """The access whose presence a node tests: `has(…)` or `'name' in …`."""
    match node:
        case Select(test=True):
            operand, name = node.operand, node.field
        case Call(function="@in", args=[Literal(value=str() as name), operand]):
            pass
        case _:
            return None
    return Access(*place, name) if (place := _place(operand)) else None


def _tests(node: Expr, wanted: bool) -> frozenset[Access]:
    """What a device surely has where `node` is known to be `wanted`."""
    match node:
        case Call(function="!_", args=[inner]):
            return _tests(inner, not wanted)
        case Call(function="_&&_" | "_||_" as function, args=terms) if (function == "_&&_") == wanted:
            return frozenset().union(*(_tests(term, wanted) for term in terms))
    access = _test_of(node) if wanted else None
    return frozenset() if access is None else frozenset([access])


def _missing(node: Expr, known: frozenset[Access]) -> Iterator[Access]:
    """Accesses that are not in `known` and not guarded within `node`."""
    match node:
        case Call(function="_&&_" | "_||_" as function, args=terms):
            # Every term may rely on what the others test, whatever the order: a failing term does not matter once
            # another has decided.
            decided = function == "_&&_"
            for index, term in enumerate(terms):
                others = (_tests(other, decided) for i, other in enumerate(terms) if i != index)
                yield from _missing(term, known.union(*others))
            return
        case Call(function="_?_:_", args=[condition, truthy, falsy]):
            yield from _missing(condition, known)
            yield from _missing(truthy, known | _tests(condition, True))
            yield from _missing(falsy, known | _tests(condition, False))
            return
        case Select(test=True) | Select(optional=True) | Call(function="_[?_]"):
            if _test_of(node) is not None or _optional(node):
                return
        case Comprehension():
            yield from _missing(node.range, known)
            for part in (node.filter, node.result if node.kind == "bind" else node.body):
                if part is not None:
                    yield from _missing(part, known)
            if node.kind == "bind":
                yield from _missing(node.init, known)
            return
    access = access_of(node)
    if access is not None and access not in known:
        yield access
    for child in node.children():
        yield from _missing(child, known)


def _optional(node: Expr) -> bool:
    operand = node.operand if isinstance(node, Select) else next(node.children())
    return _place(operand) is not None


def _known(node: Expr, wanted: bool, known: frozenset[Access]) -> Expr:
    """The expression that is true where `node` is surely `wanted`."""
    missing = tuple(dict.fromkeys(_missing(node, known)))
    if not missing:
        return node if wanted else negation(node)
    match node:
        case Call(function="!_", args=[inner]):
            return _known(inner, not wanted, known)
        case Call(function="_&&_" | "_||_" as function, args=terms):
            return _known_junction(terms, function == "_&&_", wanted, known)
        case Call(function="_?_:_", args=[condition, truthy, falsy]):
            # Only conditions come here, so both choices are conditions too.
            yes, no = known | _tests(condition, True), known | _tests(condition, False)
            return disjunction(
                [
                    conjunction([_known(condition, True, known), _known(truthy, wanted, yes)]),
                    conjunction([_known(condition, False, known), _known(falsy, wanted, no)]),
                ]
            )
    return conjunction([*(access.test() for access in missing), node if wanted else negation(node)])


def _known_junction(terms: list[Expr], both: bool, wanted: bool, known: frozenset[Access]) -> Expr:
    """For `&&` (`both`) and `||`. To be wanted, either all terms must be, or one of them suffices."""
    results: list[Expr] = []
    for index, term in enumerate(terms):
        sure = known.union(*(_tests(other, both) for i, other in enumerate(terms) if i != index))
        result = _known(term, wanted, sure)
        if both == wanted:
            # What this term now tests, the later ones need not test again.
            known |= _tests(result, True)
        results.append(result)
    return conjunction(results) if both == wanted else disjunction(results)
