"""Types every node, resolves names and overloads, and complains as cel-go's checker does.

It writes `type` and `overloads` on the nodes and may replace a node's reading (a dotted name that is a type, a function of a
namespace); the corrected tree is its result. Values are looked at only where they decide (`.?field`, literals).
Source: the CEL specification, "Gradual type checking"; behaviour of cel-go's checker.
"""

from __future__ import annotations

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from dra_operator.cel.declarations import Function, Overload
from dra_operator.cel.environment import DEVICE, Environment
from dra_operator.cel.errors import Issue
from dra_operator.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Substitution,
    Type,
    list_of,
    map_of,
    most_general,
    optional_of,
)
from dra_operator.cel.values import Uint

__all__ = ["check"]

_LITERALS = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def check(root: Expr, environment: Environment) -> tuple[Expr, list[Issue]]:
    """The tree with types, and what is wrong with it (nothing, if it may be evaluated)."""
    checker = _Checker(environment)
    root = checker.check(root)
    for node in checker.typed:
        node.type = checker.types.apply(node.type, unbound_as_dyn=True)
    return root, checker.issues


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.types = Substitution()
        self.issues: list[Issue] = []
        self.scopes: list[dict[str, Type]] = []
        self.typed: list[Expr] = []
        self.done: dict[int, Expr] = {}

    def complain(self, node: Expr, message: str) -> Type:
        self.issues.append(Issue(max(node.offset, 0), message))
        return ERROR

    def check(self, node: Expr) -> Expr:
        """Type a node once (macros repeat nodes) and return it, or what it turned out to be."""
        if isinstance(node, Ident):
            return self.noted(self.ident(node))
        if id(node) not in self.done:
            self.done[id(node)] = self.noted(self.visit(node))
        return self.done[id(node)]

    def noted(self, node: Expr) -> Expr:
        self.typed.append(node)
        return node

    def visit(self, node: Expr) -> Expr:
        match node:
            case Literal():
                node.type = _LITERALS.get(type(node.value), DYN) if node.type is DYN else node.type
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                node.type = self.list_literal(node)
            case MapExpr():
                node.type = self.map_literal(node)
            case Comprehension():
                node.type = self.comprehension(node)
        return node

    # --- names

    def ident(self, node: Ident) -> Expr:
        if not node.leading_dot:
            for scope in reversed(self.scopes):
                if node.name in scope:
                    node.type = scope[node.name]
                    return node
        if node.name == "device":
            node.type = DEVICE
            # `.device` below a variable of that name is the device all the same.
            return node
        if node.name in self.environment.constants:
            return self.constant(node, node.name)
        node.type = self.complain(node, f"undeclared reference to '{node.name}' (in container '')")
        return node

    def constant(self, node: Expr, name: str) -> Expr:
        literal = Literal(node.offset, self.environment.constants[name][1], node.start, node.end)
        literal.type = self.environment.constants[name][0]
        return literal

    def is_local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def select(self, node: Select) -> Expr:
        name = _dotted(node)
        if name in self.environment.constants and not self.is_local(name.partition(".")[0]):
            return self.constant(node, name)
        node.operand = self.check(node.operand)
        field = self.field_type(node, node.optional)
        node.type = BOOL if node.test else self.types.apply(field)
        node.overloads = ("select_optional_field",) if node.optional else ()
        return node

    def field_type(self, node: Select, optional: bool) -> Type:
        target = self.types.apply(node.operand.type)
        is_optional = target.is_optional
        target = target.params[0] if is_optional else target
        result = ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            fields = self.environment.device_fields if target == DEVICE else {}
            if target != DEVICE:
                self.complain(node, f"unexpected failed resolution of '{target.name}'")
            elif node.field not in fields:
                self.complain(node, f"undefined field '{node.field}'")
            result = fields.get(node.field, ERROR)
        elif target.kind == "parameter":
            self.types.try_assign([DYN], [target])
            result = DYN
        else:
            if not target.is_dyn and target.kind != "error":
                self.complain(node, f"type '{target}' does not support field selection")
            result = DYN
        return optional_of(result) if is_optional or optional else result

    # --- calls

    def call(self, node: Call) -> Expr:
        node.args = [self.check(arg) for arg in node.args]
        function = None
        if node.target is not None:
            prefix = _dotted(node.target)
            qualified = f"{prefix}.{node.function}" if prefix else ""
            function = self.environment.functions.get(qualified)
            if function is not None:
                node.target, node.function = None, qualified
            else:
                node.target = self.check(node.target)
        function = function or self.environment.functions.get(node.function)
        if function is None:
            node.type = self.complain(node, f"undeclared reference to '{node.function}' (in container '')")
            return node
        if node.function in ("_&&_", "_||_"):
            node.type = self.logical(node, function)
        else:
            self.resolve(node, function)
        return node

    def logical(self, node: Call, function: Function) -> Type:
        node.overloads = (function.overloads[0].id,)
        result = BOOL
        for arg in node.args:
            if not self.types.try_assign([arg.type], [BOOL]):
                self.complain(arg, f"expected type 'bool' but found '{arg.type}'")
                result = ERROR
        return result

    def resolve(self, node: Call, function: Function) -> None:
        args = [node.target, *node.args] if node.target is not None else node.args
        types = [arg.type for arg in args]
        chosen: list[str] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member != (node.target is not None) or len(overload.args) != len(types):
                continue
            wanted, returned = self.instance(overload)
            if not self.types.try_assign(types, wanted):
                continue
            chosen.append(overload.id)
            returned = self.types.apply(returned)
            if result is None:
                result = returned
            elif not result.is_dyn and returned != result:
                result = DYN
        node.overloads = tuple(chosen)
        if result is None:
            shown = [str(self.types.apply(type_, unbound_as_dyn=True)) for type_ in types]
            receiver = f"{shown.pop(0)}." if node.target is not None else ""
            signature = f"{receiver}({', '.join(shown)})"
            result = self.complain(node, f"found no matching overload for '{function.name}' applied to '{signature}'")
        node.type = result

    def instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """An overload's argument and result types with type parameters of their own."""
        fresh: dict[str, Type] = {}
        args = [self.renamed(arg, fresh) for arg in overload.args]
        return args, self.renamed(overload.result, fresh)

    def renamed(self, type_: Type, fresh: dict[str, Type]) -> Type:
        if type_.kind == "parameter":
            if type_.name not in fresh:
                fresh[type_.name] = self.types.fresh()
            return fresh[type_.name]
        if not type_.params:
            return type_
        return Type(type_.kind, type_.name, tuple(self.renamed(part, fresh) for part in type_.params))

    # --- literals of several

    def list_literal(self, node: ListExpr) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            node.elements[index] = element = self.check(element)
            type_ = self.unwrapped(element) if index in node.optional else element.type
            joined = self.join(joined, type_)
        return list_of(joined or self.types.fresh())

    def map_literal(self, node: MapExpr) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            entry.key = self.check(entry.key)
            key_type = self.join(key_type, entry.key.type)
            entry.value = self.check(entry.value)
            type_ = self.unwrapped(entry.value) if entry.optional else entry.value.type
            value_type = self.join(value_type, type_)
        return map_of(key_type or self.types.fresh(), value_type or self.types.fresh())

    def unwrapped(self, node: Expr) -> Type:
        """The type inside an optional element."""
        if node.type.is_optional:
            return node.type.params[0]
        if not node.type.is_dyn:
            self.complain(node, f"expected type '{optional_of(node.type)}' but found '{node.type}'")
        return node.type

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.types.try_assign([previous], [current]):
            return most_general(previous, current)
        # The validators judge literals of mixed types; here they are just untyped.
        return DYN

    # --- folds

    def comprehension(self, node: Comprehension) -> Type:
        node.range = self.check(node.range)
        node.init = self.check(node.init)
        range_type = self.types.apply(node.range.type)
        accu = node.init.type
        var, var2 = self.variables(node, range_type)
        self.scopes.append({node.accu: accu})
        names = {node.var: var}
        if node.var2 is not None:
            names[node.var2] = var2
        self.scopes.append(names)
        node.condition = self.check(node.condition)
        self.require(node.condition, BOOL)
        node.step = self.check(node.step)
        self.require(node.step, accu)
        self.scopes.pop()
        node.result = self.check(node.result)
        self.scopes.pop()
        return self.types.apply(node.result.type)

    def variables(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        match range_type.kind:
            case "list":
                element = range_type.params[0]
                return (INT, element) if node.var2 is not None else (element, element)
            case "map":
                return range_type.params[0], range_type.params[1]
            case "dyn" | "error" | "parameter":
                self.types.try_assign([DYN], [range_type])
                return DYN, DYN
        self.complain(
            node.range,
            f"expression of type '{range_type}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def require(self, node: Expr, wanted: Type) -> None:
        if not self.types.try_assign([wanted], [node.type]):
            self.complain(node, f"expected type '{wanted}' but found '{node.type}'")


def _dotted(node: Expr) -> str:
    """`a.b.c` as text, or ""."""
    if isinstance(node, Ident) and not node.leading_dot:
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = _dotted(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""
