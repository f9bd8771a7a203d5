"""What an expression can cost at worst, from its types and the API's limits alone.

The API server refuses new selectors by this number; here it also decides whether a selector needs metering at all.
Source: cel-go `checker/cost`, with the sizes of k8s.io/dynamic-resource-allocation `cel/compile`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dra_operator.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from dra_operator.cel.costs import LIST_COST, MAP_COST
from dra_operator.cel.estimate_calls import EntrySize, Size, Sized, add, call_estimate, scaled, union
from dra_operator.cel.values import TypeValue, Uint

__all__ = ["estimate"]

Cost = tuple[int, int]
_ZERO: Cost = (0, 0)
_ONE: Cost = (1, 1)

# The API's limits: domain, identifier, driver, entries of a map, and a value (the longest text or list).
_DOMAIN, _IDENTIFIER, _DRIVER, _ENTRIES, _VALUE = 63, 32, 63, 32, 64


@dataclass(slots=True)
class _Variable:
    path: tuple[str, ...] | None
    size: Size | None
    entries: EntrySize | None


def estimate(root: Expr) -> int:
    """The cost at most, in CEL's units; 2^64 - 1 where nothing bounds it."""
    return _Estimator().cost(root)[1]


# (size, then where a step leads) for each part of the device; "*" is any name.
_PARTS: dict[str, tuple[Size | None, dict[str, str]]] = {
    "device": ((0, 0), {name: name for name in ("driver", "allowMultipleAllocations", "attributes", "capacity")}),
    "driver": ((0, _DRIVER), {}),
    "allowMultipleAllocations": ((0, 1), {}),
    "attributes": ((0, _ENTRIES), {"@items": "domain", "@values": "domain", "@keys": "domain name"}),
    "capacity": ((0, _ENTRIES), {"@items": "quantities", "@values": "quantities", "@keys": "domain name"}),
    "domain": ((0, _ENTRIES), {"@items": "value", "@values": "value", "@keys": "identifier", "*": "value"}),
    "quantities": ((0, _ENTRIES), {"@items": "quantity", "@values": "quantity", "@keys": "identifier"}),
    "domain name": ((0, _DOMAIN), {}),
    "identifier": ((0, _IDENTIFIER), {}),
    "value": ((0, _VALUE), {}),
    "quantity": ((0, 0), {}),
}


def _device_size(path: tuple[str, ...]) -> Size | None:
    """How large the part of the device at a path can be."""
    part = "device"
    for step in path[1:]:
        steps = _PARTS[part][1]
        following = steps.get(step) or (steps.get("*") if not step.startswith("@") else None)
        if following is None:
            return None
        part = following
    return _PARTS[part][0]


class _Estimator:
    def __init__(self) -> None:
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, EntrySize] = {}
        self.scopes: dict[str, list[_Variable]] = {}

    def cost(self, node: Expr) -> Cost:
        match node:
            case Ident():
                return self.ident(node)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case Comprehension():
                return self.bind(node) if node.kind == "bind" else self.fold(node)
            case Literal(value=TypeValue()):
                # The name of a type is a name.
                return _ONE
        return _ZERO

    # --- paths and sizes

    def local(self, name: str) -> _Variable | None:
        found = self.scopes.get(name)
        return found[-1] if found else None

    def path(self, node: Expr) -> tuple[str, ...]:
        if isinstance(node, Ident) and (variable := self.local(node.name)):
            return variable.path or ()
        return self.paths.get(id(node), ())

    def size(self, node: Expr) -> Size | None:
        if id(node) in self.sizes:
            return self.sizes[id(node)]
        match node:
            case Literal():
                size = _literal_size(node.value)
                if size is not None:
                    return size, size
            case ListExpr():
                return len(node.elements), len(node.elements)
            case MapExpr():
                return len(node.entries), len(node.entries)
        path = self.path(node)
        if path and path[0] == "device" and (known := _device_size(path)) is not None:
            self.sizes[id(node)] = known
            return known
        if node.type.is_scalar:
            return 1, 1
        if isinstance(node, Ident) and (variable := self.local(node.name)):
            return variable.size
        return None

    def entry_size(self, node: Expr) -> EntrySize | None:
        if id(node) in self.entries:
            return self.entries[id(node)]
        if isinstance(node, Ident) and (variable := self.local(node.name)):
            return variable.entries
        return None

    def set_size(self, node: Expr, size: Size | None) -> None:
        if size is not None:
            self.sizes[id(node)] = size

    def set_entries(self, node: Expr, entries: EntrySize | None) -> None:
        if entries is not None:
            self.entries[id(node)] = entries

    def sized(self, node: Expr) -> Sized:
        """A node as the call estimates see it."""
        path = self.path(node)
        if path and path[0].startswith("@result"):
            path = ()
        element = None
        if node.type.params:
            known = _device_size((*path, "@items")) if path and path[0] == "device" else None
            element = (node.type.params[0], known)
        return Sized(node.type, self.size(node), element, self.entry_size(node), node)

    # --- nodes

    def ident(self, node: Ident) -> Cost:
        variable = self.local(node.name)
        self.paths[id(node)] = (variable.path or ()) if variable else (node.name,)
        return _ONE

    def select(self, node: Select) -> Cost:
        operand = self.cost(node.operand)
        if node.test:
            return operand
        if node.optional:
            # To cel-go this is a call with the field's name as a literal.
            return add(operand, _ONE)
        total = operand
        if node.operand.type.kind in ("map", "struct", "parameter"):
            total = add(total, _ONE)
        self.paths[id(node)] = (*self.path(node.operand), node.field)
        return total

    def call(self, node: Call) -> Cost:
        if node.function == "dyn":
            inner = self.cost(node.args[0])
            self.copy(node, node.args[0])
            return add(_ONE, inner)
        costs = [self.cost(arg) for arg in node.args]
        args = [self.sized(arg) for arg in node.args]
        if not node.overloads:
            return _ZERO
        target_cost, target = _ZERO, None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self.sized(node.target)
        highest: Cost = (2**64 - 1, 0)
        result: Size | None = None
        for overload in node.overloads:
            found = call_estimate(node.function, overload, target, args, costs)
            highest = min(highest[0], found.cost[0]), max(highest[1], found.cost[1])
            if found.result is not None:
                result = found.result if result is None else union(result, found.result)
            self.set_entries(node, found.entries)
            if overload in ("index_list", "index_map") and node.args:
                entries = self.entry_size(node.args[0])
                result = entries.value if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = (*self.path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        self.set_size(node, result)
        return add(target_cost, highest)

    def list_literal(self, node: ListExpr) -> Cost:
        total: Cost = (LIST_COST, LIST_COST)
        item: Size = (2**64 - 1 if node.elements else 0, 0)
        for element in node.elements:
            total = add(total, self.cost(element))
            item = union(item, self.size(element) or (0, 2**64 - 1))
        self.entries[id(node)] = EntrySize("list", (1, 1), item)
        return total

    def map_literal(self, node: MapExpr) -> Cost:
        total: Cost = (MAP_COST, MAP_COST)
        key: Size = (2**64 - 1 if node.entries else 0, 0)
        value = key
        for entry in node.entries:
            total = add(add(total, self.cost(entry.key)), self.cost(entry.value))
            key = union(key, self.size(entry.key) or (0, 2**64 - 1))
            value = union(value, self.size(entry.value) or (0, 2**64 - 1))
        self.entries[id(node)] = EntrySize("map", key, value)
        return total

    def copy(self, target: Expr, source: Expr) -> None:
        self.set_size(target, self.size(source))
        self.set_entries(target, self.entry_size(source))

    # --- macros

    def push(self, name: str, variable: _Variable) -> None:
        self.scopes.setdefault(name, []).append(variable)

    def fold(self, node: Comprehension) -> Cost:
        total = add(self.cost(node.range), self.cost(node.init))
        init = _Variable(self.path(node.init), self.size(node.init), self.entry_size(node.init))
        self.push(node.accu, init)
        entries = self.entry_size(node.range)
        container = entries.container if entries else node.range.type.kind
        path = self.path(node.range)
        key = entries.key if entries else None
        value = entries.value if entries else None
        is_list = container == "list"
        if node.var2 is not None:
            self.push(node.var, _Variable((*path, "@indices" if is_list else "@keys"), key, None))
            self.push(node.var2, _Variable((*path, "@items" if is_list else "@values"), value, None))
        else:
            element = _Variable((*path, "@items" if is_list else "@keys"), value if is_list else key, None)
            self.push(node.var, element)
        loop = self.cost(node.condition)
        step = self.cost(node.step)
        self.scopes[node.var].pop()
        if node.var2 is not None:
            self.scopes[node.var2].pop()
        total = add(total, self.cost(node.result))
        self.scopes[node.accu].pop()
        rounds = self.size(node.range) or (0, 2**64 - 1)
        total = add(total, scaled(rounds, add(step, loop)))
        if isinstance(node.init, Literal):
            self.set_size(node, self.size(node.init))
        elif isinstance(node.init, ListExpr | MapExpr):
            self.set_size(node, rounds)
            self.set_entries(node, self.entry_size(node.step))
        return total

    def bind(self, node: Comprehension) -> Cost:
        total = add(self.cost(node.range), self.cost(node.init))
        self.push(node.accu, _Variable(self.path(node.init), self.size(node.init), self.entry_size(node.init)))
        total = add(total, self.cost(node.result))
        self.scopes[node.accu].pop()
        self.copy(node, node.result)
        return total


def _literal_size(value: object) -> int | None:
    match value:
        case str() | bytes():
            return len(value)
        case bool() | int() | Uint() | float() | None:
            return 1
    return None
