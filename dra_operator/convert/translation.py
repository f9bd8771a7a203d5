"""Selectors of the string dialect as v1 expressions, typed by a dictionary and guarded against missing attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.cel.ast import Call, Comprehension, Expr, ListExpr, Literal, Select
from dra_operator.cel.guards import Access, conjunction, disjunction, guarded, within_domain
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import unparse
from dra_operator.convert.dictionary import Dictionary
from dra_operator.convert.expressions import (
    DEVICE_TYPE,
    EQUALITY,
    ORDER,
    Operand,
    Untyped,
    is_dialect,
    key_of,
    literal_text,
    operand,
    shown,
)
from dra_operator.convert.selectortext import split_comments
from dra_operator.convert.texttypes import TextType, fits, looks_typed, version

__all__ = ["Translation", "read_selector", "translate"]

#: Longer expressions get a line for each term.
WIDTH = 100
_MIRRORED = {"_<_": "_>_", "_<=_": "_>=_", "_>_": "_<_", "_>=_": "_<=_", "_==_": "_==_", "_!=_": "_!=_"}
_COMPARED = {"isGreaterThan": "_>_", "isLessThan": "_<_"}


@dataclass(frozen=True, slots=True)
class Translation:
    """A v1 expression, and what was taken for granted."""

    expression: str
    assumptions: tuple[str, ...] = ()


def read_selector(text: str) -> Expr:
    """The tree of a selector of the dialect. Raises CompileError."""
    return parse(split_comments(text)[0])


def translate(text: str, dictionary: Dictionary) -> Translation:
    """Raises CompileError and Untyped."""
    comments = split_comments(text)[1]
    root = read_selector(text)
    translator = _Translator(dictionary)
    tree = guarded(translator.condition(root))
    lines = [unparse(tree, WIDTH), *(f"// {comment}" for comment in comments)]
    return Translation("\n".join(lines), tuple(dict.fromkeys(translator.assumptions)))


class _Translator:
    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.assumptions: list[str] = []

    def condition(self, node: Expr) -> Expr:
        """A node whose value is a truth."""
        key = key_of(node)
        if key is not None:
            return self.access(key, TextType.BOOL).expr()
        if isinstance(node, Call) and node.function in EQUALITY | ORDER:
            return self.comparison(node)
        if isinstance(node, Call) and node.function == "_&&_":
            return conjunction(map(self.condition, node.args))
        if isinstance(node, Call) and node.function == "_||_":
            return disjunction(map(self.condition, node.args))
        if isinstance(node, Call) and node.function in ("!_", "_?_:_"):
            return Call(0, node.function, [self.condition(term) for term in node.args])
        return self.other(node)

    def access(self, key: str, *wanted: TextType) -> Access:
        """Where the key is found; it must have one of the types."""
        texttype = self.dictionary.type_of(key)
        if texttype not in wanted:
            names = " or ".join(item.value for item in wanted)
            odd = next((value for item in wanted if (value := self.dictionary.misfit(key, item)) is not None), None)
            because = (
                f", but a device has {odd!r}" if odd is not None else f", but its values are of type {texttype.value}"
            )
            raise Untyped(f"{shown(key)} is used as {names} here{because}")
        return self.dictionary.access(key)

    # --- comparisons

    def comparison(self, node: Call) -> Expr:
        left, right = (operand(side) for side in node.args)
        if left is not None and right is not None:
            return self.both(node.function, left, right)
        if left is not None:
            return self.against(node.function, left, self.constant(node.args[1]))
        if right is not None:
            return self.against(_MIRRORED[node.function], right, self.constant(node.args[0]))
        return Call(0, node.function, [self.other(side) for side in node.args])

    def constant(self, node: Expr) -> str:
        converted = node.args[0] if isinstance(node, Call) and node.args else node
        text = literal_text(node) or literal_text(converted)
        assert text is not None, "the survey has let a comparison pass that has no constant"
        return text

    def both(self, function: str, left: Operand, right: Operand) -> Expr:
        texttype = self.dictionary.type_of(left.key)
        if function in ORDER and texttype in (TextType.STRING, TextType.BOOL):
            self.check_order(left.key, texttype)
        one, other = self.value(left), self.value(right)
        if texttype in (TextType.VERSION, TextType.QUANTITY):
            return Call(0, function, [Call(0, "compareTo", [other], one), Literal(0, 0)])
        return Call(0, function, [one, other])

    def against(self, function: str, found: Operand, text: str) -> Expr:
        """An attribute against a constant, the attribute on the left."""
        texttype = self.dictionary.type_of(found.key)
        if found.conversion is not None and texttype is TextType.STRING and found.conversion != "string":
            raise Untyped(
                self.mixture(found.key) or f"{shown(found.key)} is converted by {found.conversion}() but is text"
            )
        if function in ORDER:
            self.check_order(found.key, texttype, text)
        elif not fits(text, texttype):
            return self.never_equal(function, found, text, texttype)
        value, constant = self.value(found), _constant(text, texttype)
        if texttype in (TextType.VERSION, TextType.QUANTITY):
            return Call(0, function, [Call(0, "compareTo", [constant], value), Literal(0, 0)])
        return Call(0, function, [value, constant])

    def never_equal(self, function: str, found: Operand, text: str, texttype: TextType) -> Expr:
        """Compared with a text that no value can be."""
        article = "an" if texttype is TextType.INT else "a"
        self.assumptions.append(f"{shown(found.key)} is {article} {texttype.value} and never equals {text!r}")
        if function == "_==_":
            return Literal(0, False)
        return Literal(0, True) if found.default is not None else self.dictionary.access(found.key).test()

    def check_order(self, key: str, texttype: TextType, text: str | None = None) -> None:
        """An order between texts is what was written only if none of them is a number."""
        if texttype is TextType.BOOL:
            raise Untyped(f"{shown(key)} is a boolean, which has no order; compare with == or !=")
        if texttype is not TextType.STRING:
            return
        mixture = self.mixture(key)
        if mixture is not None or (text is not None and looks_typed(text)):
            raise Untyped(mixture or f"{shown(key)} is text and cannot be compared by size with {text!r}")
        self.assumptions.append(f"{shown(key)} is text and is compared letter by letter")

    def mixture(self, key: str) -> str | None:
        odd = self.dictionary.odd_text(key)
        if odd is None:
            return None
        return (
            f"the values of {shown(key)} have no common type ({odd[0]!r} and {odd[1]!r}) and cannot be compared by size; "
            "make them all numbers, or versions"
        )

    def value(self, found: Operand) -> Expr:
        """An attribute as a typed value."""
        access = self.dictionary.access(found.key)
        if found.default is None:
            return access.expr()
        texttype = self.dictionary.type_of(found.key)
        if not fits(found.default, texttype):
            raise Untyped(
                f"the default {found.default!r} of {shown(found.key)} is no {texttype.value}, as its values are"
            )
        place = access.expr()
        optional = Select(0, place.operand, place.field, optional=True)
        return Call(0, "orValue", [_constant(found.default, texttype)], optional)

    # --- everything else

    def other(self, node: Expr) -> Expr:
        match node:
            case Call(function="@in", args=[Literal(value=str() as key), Select(field="attributes")]):
                return self.dictionary.access(key).test()
            case Call(function="@in", args=[item, ListExpr() as choices]) if (found := operand(item)) is not None:
                return self.among(
                    found, [text for choice in choices.elements if (text := literal_text(choice)) is not None]
                )
            case Select(test=True, operand=Select(field="attributes"), field=key):
                return self.dictionary.access(key).test()
            case Select(test=True, field="type") if not is_dialect(node.operand):
                return self.dictionary.access(DEVICE_TYPE).test()
            case Call(function=function, target=Expr() as target) if (found := operand(target)) is not None:
                return self.method(node, function, found)
            case Call(function="size", target=None, args=[argument]) if (sized := key_of(argument)) is not None:
                return Call(0, "size", [self.access(sized, TextType.STRING).expr()])
        if within_domain(node) or not is_dialect(node):
            return node
        if isinstance(node, Comprehension):
            raise Untyped("a macro whose body reads text attributes cannot be translated; write its cases out")
        return _rebuilt(node, self.condition)

    def among(self, found: Operand, texts: list[str]) -> Expr:
        texttype = self.dictionary.type_of(found.key)
        fitting = [text for text in texts if fits(text, texttype)]
        if not fitting:
            return Literal(0, False)
        if texttype in (TextType.VERSION, TextType.QUANTITY):
            return disjunction(self.against("_==_", found, text) for text in fitting)
        choices = ListExpr(0, [_constant(text, texttype) for text in fitting])
        return Call(0, "@in", [self.value(found), choices])

    def method(self, node: Call, function: str, found: Operand) -> Expr:
        if function in _COMPARED:
            return self.against(_COMPARED[function], found, self.constant(node.args[0]))
        if function == "compareTo":
            self.access(found.key, TextType.VERSION, TextType.QUANTITY)
            constant = _constant(self.constant(node.args[0]), self.dictionary.type_of(found.key))
            return Call(0, function, [constant], self.value(found))
        if function in ("major", "minor", "patch"):
            self.access(found.key, TextType.VERSION)
            return Call(0, function, [], self.value(found))
        self.access(found.key, TextType.STRING)
        return Call(0, function, [self.other(argument) for argument in node.args], self.value(found))


def _constant(text: str, texttype: TextType) -> Expr:
    """A text as a constant of a type it fits."""
    match texttype:
        case TextType.BOOL:
            return Literal(0, text == "true")
        case TextType.INT:
            return Literal(0, int(text))
        case TextType.VERSION:
            return Call(0, "semver", [Literal(0, version(text))])
        case TextType.QUANTITY:
            return Call(0, "quantity", [Literal(0, text)])
        case TextType.STRING:
            return Literal(0, text)


def _rebuilt(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    match node:
        case Call():
            target = None if node.target is None else change(node.target)
            return Call(0, node.function, [change(arg) for arg in node.args], target)
        case Select():
            return Select(0, change(node.operand), node.field, optional=node.optional, test=node.test)
        case ListExpr():
            return ListExpr(0, [change(element) for element in node.elements], node.optional)
    raise Untyped("an attribute is used in a way that has no counterpart in v1; compare it with a constant")
