"""A typed tree to one closure.

Two forms exist of the same tree: `metered` charges every step as the API server does; the other charges nothing, folds
constants and looks device values up directly, and may be used where the cost cannot reach the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra_operator.cel import closures, loops
from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, MapExpr, Select
from dra_operator.cel.calls import implementation
from dra_operator.cel.closures import Closure, constant
from dra_operator.cel.constants import Constants
from dra_operator.cel.costs import LIST_COST, MAP_COST, PAID_AFTERWARDS, call_cost
from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import CompileError, EvaluationError
from dra_operator.cel.library.regex import compiled
from dra_operator.cel.operators import INDEX_KINDS, MISSING, qualify_optional
from dra_operator.cel.values import NONE, Optional, map_key, no_overload, shown, type_name

__all__ = ["Program", "compile_tree"]

_PATTERNS = frozenset(("matches", "find", "findAll"))
_ORDER = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}


class Program:
    """A compiled tree and the size of the frame it runs in."""

    __slots__ = ("run", "slots")

    def __init__(self, run: Closure, slots: int) -> None:
        self.run = run
        self.slots = slots


def compile_tree(root: Expr, functions: Registry, *, metered: bool) -> Program:
    """Raises CompileError where a constant part can only fail."""
    compiler = _Compiler(functions, metered)
    return Program(compiler.compile(root), compiler.slots)


class _Compiler:
    def __init__(self, functions: Registry, metered: bool) -> None:
        self.functions = functions
        self.metered = metered
        self.fold = Constants(functions, with_parsers=not metered).value
        self.slots = 2
        self.scopes: list[dict[str, Closure]] = []

    def compile(self, node: Expr) -> Closure:
        value = self.fold(node)
        if value is not MISSING:
            return constant(value)
        match node:
            case Ident():
                return self.charged(self.variable(node), 1)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.charged(self.list_literal(node), LIST_COST)
            case MapExpr():
                return self.charged(self.map_literal(node), MAP_COST)
            case Comprehension():
                return self.comprehension(node)
        raise AssertionError(f"unexpected node {node!r}")

    def charged(self, run: Closure, cost: int) -> Closure:
        """The closure, paying for itself when it is done."""
        if not self.metered:
            return run

        def paying(frame: Any) -> Any:
            value = run(frame)
            frame[1].charge(cost)
            return value

        return paying

    # --- names and access

    def variable(self, node: Ident) -> Closure:
        if not node.leading_dot:
            for scope in reversed(self.scopes):
                if node.name in scope:
                    return scope[node.name]
        return closures.device_map()

    def is_device(self, node: Expr) -> bool:
        if not isinstance(node, Ident) or node.name != "device":
            return False
        return node.leading_dot or not any("device" in scope for scope in self.scopes)

    def device_domain(self, node: Expr) -> tuple[str, str] | None:
        """(map, domain) of `device.attributes["domain"]` and the like."""
        if isinstance(node, Select) and not node.test and not node.optional:
            operand, key = node.operand, node.field
        elif isinstance(node, Call) and node.function == "_[_]" and len(node.args) == 2:
            operand, key = node.args[0], self.fold(node.args[1])
        else:
            return None
        if not isinstance(operand, Select) or operand.test or operand.optional or type(key) is not str:
            return None
        if operand.field in ("attributes", "capacity") and self.is_device(operand.operand):
            return operand.field, key
        return None

    def select(self, node: Select) -> Closure:
        if self.is_device(node.operand):
            return self.device_field(node)
        domain = None if self.metered else self.device_domain(node.operand)
        if domain:
            if node.test:
                return closures.device_presence(*domain, node.field)
            if node.optional:
                return closures.device_optional(*domain, node.field)
            return closures.device_value(*domain, node.field)
        operand = self.compile(node.operand)
        if node.test:
            name = node.field
            test: Closure = lambda frame: qualify_optional(operand(frame), name) is not NONE  # noqa: E731
            return test if _is_attribute(node.operand) else self.charged(test, 1)
        return self.accessed(node.operand, closures.field(operand, node.field, node.optional))

    def accessed(self, operand: Expr, run: Closure) -> Closure:
        """Access to a part, charged where there is one; a chain that starts from no name pays for its start as well."""
        if not self.metered:
            return run
        start = 0 if _is_attribute(operand) else 1

        def paying(frame: Any) -> Any:
            part = run(frame)
            frame[1].charge(start if part is NONE else start + 1)
            return part

        return paying

    def device_field(self, node: Select) -> Closure:
        name = "allow_multiple_allocations" if node.field == "allowMultipleAllocations" else node.field
        if node.test:
            return self.charged(constant(True), 1)
        accessors: dict[str, Closure] = {
            "driver": lambda frame: frame[0].driver,
            "attributes": lambda frame: frame[0].attributes,
            "capacity": lambda frame: frame[0].capacity,
            "allow_multiple_allocations": lambda frame: frame[0].allow_multiple_allocations,
        }
        read = self.charged(accessors[name], 2)
        return (lambda frame: Optional(read(frame))) if node.optional else read

    # --- calls

    def call(self, node: Call) -> Closure:
        special = _SPECIAL.get(node.function)
        if special is not None and (run := special(self, node)) is not None:
            return run
        function = self.functions.get(node.function)
        assert function is not None
        args = [node.target, *node.args] if node.target is not None else node.args
        run = self.with_pattern(node, args) or implementation(node, function)
        return self.apply(node, run, [self.compile(arg) for arg in args])

    def with_pattern(self, node: Call, args: list[Expr]) -> Callable[..., Any] | None:
        """Check a constant regular expression now; `matches` also gets it ready to search with."""
        pattern = self.fold(args[1]) if node.function in _PATTERNS and len(args) > 1 else MISSING
        if type(pattern) is not str:
            return None
        try:
            search = compiled(pattern).search
        except EvaluationError as error:
            raise CompileError(f"program instantiation failed: {error}") from None
        if node.function != "matches":
            return None

        def found(text: Any, _: Any) -> bool:
            if type(text) is not str:
                raise no_overload("matches")
            try:
                return search(text) is not None
            except UnicodeEncodeError:
                raise EvaluationError("text is not valid Unicode") from None

        return found

    def apply(self, node: Call, run: Callable[..., Any], args: list[Closure]) -> Closure:
        """A call with its arguments evaluated from left to right."""
        if self.metered:
            cost = call_cost(node.function, node.overloads)

            def paying(frame: Any) -> Any:
                values = tuple([arg(frame) for arg in args])
                frame[1].charge(cost(values, None))
                return run(*values)

            def paying_afterwards(frame: Any) -> Any:
                values = tuple([arg(frame) for arg in args])
                result = run(*values)
                frame[1].charge(cost(values, result))
                return result

            return paying_afterwards if node.function in PAID_AFTERWARDS else paying
        match args:
            case [only]:
                return lambda frame: run(only(frame))
            case [first, second]:
                return lambda frame: run(first(frame), second(frame))
        return lambda frame: run(*[arg(frame) for arg in args])

    def junction(self, node: Call) -> Closure:
        terms = [self.compile(arg) for arg in node.args]
        return closures.and_(terms) if node.function == "_&&_" else closures.or_(terms)

    def negation(self, node: Call) -> Closure:
        return self.charged(closures.not_(self.compile(node.args[0])), 1)

    def condition(self, node: Call) -> Closure:
        condition, truthy, falsy = node.args
        return closures.conditional(self.compile(condition), self.branch(truthy), self.branch(falsy))

    def branch(self, node: Expr) -> Closure:
        """One side of a conditional, which reads a name or a part without the name being charged."""
        run = self.compile(node)
        tested = isinstance(node, Select) and node.test
        return self.charged(run, -1) if _is_attribute(node) and not tested and self.fold(node) is MISSING else run

    def equality(self, node: Call) -> Closure:
        left, right = map(self.compile, node.args)
        negated = node.function == "_!=_"
        if self.metered:
            bare = closures.equality(lambda pair: pair[0], lambda pair: pair[1], negated)
            return self.apply(node, lambda *pair: bare(pair), [left, right])
        return closures.equality(left, right, negated, self.fold(node.args[1]))

    def comparison(self, node: Call) -> Closure | None:
        if self.metered:
            return None
        left, right = map(self.compile, node.args)
        return closures.order(_ORDER[node.function], left, right, self.fold(node.args[1]))

    def index(self, node: Call) -> Closure:
        key = self.fold(node.args[1])
        optional = node.function == "_[?_]"
        if type(key) is str and not self.metered and (domain := self.device_domain(node.args[0])):
            access = closures.device_optional if optional else closures.device_value
            return access(*domain, key)
        operand = self.compile(node.args[0])
        if type(key) is str:
            return self.accessed(node.args[0], closures.field(operand, key, optional))
        if key is not MISSING and type(key) not in INDEX_KINDS:
            raise CompileError(f"program instantiation failed: invalid qualifier type: {type_name(key)}")
        return self.accessed(node.args[0], closures.index(operand, self.compile(node.args[1]), optional))

    def membership(self, node: Call) -> Closure | None:
        item, container = self.fold(node.args[0]), self.fold(node.args[1])
        if type(container) is tuple:
            # The API server turns a list of constants into a set, which costs nothing to look into; if it is empty
            # it does not even evaluate the item.
            if not container:
                return constant(False)
            return closures.membership(self.compile(node.args[0]), container)
        if type(item) is str and not self.metered and (domain := self.device_domain(node.args[1])):
            return closures.device_presence(*domain, item)
        return None

    def optional_or(self, node: Call) -> Closure:
        assert node.target is not None
        left, right = self.compile(node.target), self.compile(node.args[0])
        return closures.optional_or(left, right, node.function == "orValue")

    # --- aggregates

    def list_literal(self, node: ListExpr) -> Closure:
        elements = [self.compile(element) for element in node.elements]
        if not node.optional:
            return lambda frame: tuple([element(frame) for element in elements])
        optional = node.optional

        def run(frame: Any) -> tuple[Any, ...]:
            values = []
            for position, element in enumerate(elements):
                value = element(frame)
                if position in optional:
                    if type(value) is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {shown(value)}"
                        )
                    if value is NONE:
                        continue
                    value = value.value
                values.append(value)
            return tuple(values)

        return run

    def map_literal(self, node: MapExpr) -> Closure:
        entries = [(self.compile(entry.key), self.compile(entry.value), entry.optional) for entry in node.entries]

        def run(frame: Any) -> dict[Any, Any]:
            values: dict[Any, Any] = {}
            for key_of, value_of, optional in entries:
                key, value = key_of(frame), value_of(frame)
                place = map_key(key)
                if optional:
                    if type(value) is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry '{shown(key)}' from non-optional value {shown(value)}"
                        )
                    if value is NONE:
                        values.pop(place, None)
                        continue
                    value = value.value
                values[place] = value
            return values

        return run

    # --- macros

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def comprehension(self, node: Comprehension) -> Closure:
        if node.kind == "bind":
            slot = self.new_slot()
            use = loops.bound(slot, self.compile(node.init))
            self.scopes.append({node.accu: use})
            result = self.compile(node.result)
            self.scopes.pop()
            return loops.bind(slot, result)
        range_ = self.compile(node.range)
        slot = self.new_slot()
        slot2 = self.new_slot() if node.var2 is not None else None
        names = {node.var: _read(slot)}
        if node.var2 is not None and slot2 is not None:
            names[node.var2] = _read(slot2)
        self.scopes.append(names)
        body = self.compile(node.body)
        filter_ = None if node.filter is None else self.compile(node.filter)
        self.scopes.pop()
        is_constant = self.fold(node.body) is not MISSING
        return loops.loop(loops.Loop(node.kind, range_, slot, slot2, body, filter_, is_constant))


def _read(slot: int) -> Closure:
    return lambda frame: frame[slot]


def _is_attribute(node: Expr) -> bool:
    """Whether cel-go reads a node as a name with parts, in one step."""
    if isinstance(node, Call):
        return node.function in ("_[_]", "_[?_]", "_?_:_")
    return isinstance(node, Ident | Select)


_SPECIAL: dict[str, Callable[[_Compiler, Call], Closure | None]] = {
    "_&&_": _Compiler.junction,
    "_||_": _Compiler.junction,
    "!_": _Compiler.negation,
    "_?_:_": _Compiler.condition,
    "_==_": _Compiler.equality,
    "_!=_": _Compiler.equality,
    **dict.fromkeys(_ORDER, _Compiler.comparison),
    "_[_]": _Compiler.index,
    "_[?_]": _Compiler.index,
    "@in": _Compiler.membership,
    "or": _Compiler.optional_or,
    "orValue": _Compiler.optional_or,
}
