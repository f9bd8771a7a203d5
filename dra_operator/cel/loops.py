"""Macros over lists and maps as Python loops.

Each does what the fold it stands for does, including which error wins: quantifiers keep the first and go on looking for an
element that decides; collecting macros keep going after a failed condition, and the last one is reported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dra_operator.cel.closures import Closure
from dra_operator.cel.costs import LIST_COST
from dra_operator.cel.errors import CostLimitError, EvaluationError
from dra_operator.cel.operators import MISSING
from dra_operator.cel.values import DeviceMap, map_key, no_overload, original_key, shown, type_name

__all__ = ["Loop", "bind", "bound", "loop"]


class Loop(NamedTuple):
    """A macro taken apart: closures, the frame slots of its variables, whether its body is a constant."""

    kind: str
    range: Closure
    slot: int
    slot2: int | None
    body: Closure
    filter: Closure | None
    constant: bool


def _singles(value: Any) -> Sequence[Any]:
    kind = type(value)
    if kind is tuple:
        return value  # type: ignore[no-any-return]
    if kind is dict or kind is DeviceMap:
        return [original_key(key) for key in value]
    raise EvaluationError(f"got '{type_name(value)}', expected iterable type")


def _pairs(value: Any) -> Sequence[tuple[Any, Any]]:
    kind = type(value)
    if kind is tuple:
        return list(enumerate(value))
    if kind is dict or kind is DeviceMap:
        return [(original_key(key), entry) for key, entry in value.items()]
    raise EvaluationError(f"unsupported comprehension range type: {type_name(value)}")


# What the fold's own bookkeeping costs, a round: names, logic, and for lists the list and the concatenation.
_ROUND = {"all": 3, "exists": 4, "existsOne": 0, "map": 12, "filter": 0, "transformList": 12}
_ROUND |= {"transformMap": 3, "transformMapEntry": 2}
_END = {"existsOne": 2}
_KEPT = {"filter": 12, "existsOne": 2}
# The conditional reads the accumulator without the name being charged.
_LEFT_OUT = 0


def _round(macro: Loop) -> int:
    # A list of one constant is a constant, and costs nothing.
    free = LIST_COST if macro.constant and macro.kind in ("map", "transformList") else 0
    return _ROUND[macro.kind] - free


def loop(macro: Loop) -> Closure:
    """The closure of a macro."""
    step = _STEPS[macro.kind]
    rounds, end = _round(macro), _END.get(macro.kind, 1)
    # With a filter, what an element costs depends on whether it passes.
    always = rounds if macro.filter is None else 0
    slot, slot2 = macro.slot, macro.slot2

    def run(frame: Any) -> Any:
        values = macro.range(frame)
        state = step(macro)
        meter = frame[1]
        items = _singles(values) if slot2 is None else _pairs(values)
        for number, item in enumerate(items, 1):
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            if meter is not None:
                meter.charge(always)
            if state.take(frame):
                if meter is not None and number < len(items):
                    # The condition is looked at once more before the fold stops.
                    meter.charge(rounds - 1)
                break
        if meter is not None:
            meter.charge(end)
        return state.result()

    return run


class _Quantifier:
    """`all` and `exists`: stop at the deciding value; errors matter only if none decides."""

    __slots__ = ("body", "decided", "decisive", "problem")

    def __init__(self, macro: Loop) -> None:
        self.body = macro.body
        self.decisive = macro.kind == "exists"
        self.decided = False
        self.problem: EvaluationError | None = None

    def take(self, frame: Any) -> bool:
        try:
            value = self.body(frame)
        except CostLimitError:
            raise
        except EvaluationError as error:
            self.problem = self.problem or error
            return False
        if value is self.decisive:
            self.decided = True
        elif value is not True and value is not False:
            self.problem = self.problem or no_overload()
        return self.decided

    def result(self) -> bool:
        if self.decided:
            return self.decisive
        if self.problem is not None:
            raise self.problem
        return not self.decisive


class _Collector(ABC):
    """What the collecting macros share: a condition whose last error wins over everything."""

    __slots__ = ("body", "filter", "kept", "kind", "problem")

    def __init__(self, macro: Loop) -> None:
        self.kind = macro.kind
        self.kept = _KEPT.get(macro.kind, _round(macro))
        self.body = macro.body
        self.filter = macro.filter
        self.problem: EvaluationError | None = None

    def take(self, frame: Any) -> bool:
        if self.filter is not None:
            try:
                value = self.filter(frame)
                if value is not True and value is not False:
                    raise no_overload()
            except CostLimitError:
                raise
            except EvaluationError as error:
                self.problem = error
                return False
            if frame[1] is not None:
                frame[1].charge(self.kept if value else _LEFT_OUT)
            if not value:
                return False
        if self.problem is None:
            try:
                self.keep(frame)
            except CostLimitError:
                raise
            except EvaluationError as error:
                self.problem = error
        return False

    @abstractmethod
    def keep(self, frame: Any) -> None:
        """Take in an element that meets the condition."""

    def failed(self) -> None:
        if self.problem is not None:
            raise self.problem


class _One(_Collector):
    """`existsOne`: the body is the condition."""

    __slots__ = ("count",)

    def __init__(self, macro: Loop) -> None:
        super().__init__(macro)
        self.filter = macro.body
        self.count = 0

    def keep(self, frame: Any) -> None:
        self.count += 1

    def result(self) -> bool:
        self.failed()
        return self.count == 1


class _ToList(_Collector):
    """`map`, `filter`, `transformList`."""

    __slots__ = ("values",)

    def __init__(self, macro: Loop) -> None:
        super().__init__(macro)
        self.values: list[Any] = []

    def keep(self, frame: Any) -> None:
        self.values.append(self.body(frame))

    def result(self) -> tuple[Any, ...]:
        self.failed()
        return tuple(self.values)


class _ToMap(_Collector):
    """`transformMap` under the range's keys, `transformMapEntry` under keys of its own. A key comes once."""

    __slots__ = ("slot", "values")

    def __init__(self, macro: Loop) -> None:
        super().__init__(macro)
        self.slot = macro.slot
        self.values: dict[Any, Any] = {}

    def keep(self, frame: Any) -> None:
        if self.kind == "transformMap":
            self.insert(map_key(frame[self.slot]), self.body(frame))
            return
        entries = self.body(frame)
        if type(entries) is not dict and type(entries) is not DeviceMap:
            raise no_overload("cel.@mapInsert", self.values, entries)
        for key, value in entries.items():
            self.insert(key, value)

    def insert(self, key: Any, value: Any) -> None:
        if self.values.get(key, MISSING) is not MISSING:
            raise EvaluationError(f"insert failed: key {shown(original_key(key))} already exists")
        self.values[key] = value

    def result(self) -> dict[Any, Any]:
        self.failed()
        return self.values


_STEPS: dict[str, Callable[[Loop], Any]] = {
    "all": _Quantifier,
    "exists": _Quantifier,
    "existsOne": _One,
    "map": _ToList,
    "filter": _ToList,
    "transformList": _ToList,
    "transformMap": _ToMap,
    "transformMapEntry": _ToMap,
}


class _Unset:
    """What a bound variable holds before it is first used."""


class _Failed:
    """What a bound variable holds whose value is an error."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def bind(slot: int, result: Closure) -> Closure:
    """`cel.bind`: the variable is evaluated at its first use, if ever, and once."""

    def run(frame: Any) -> Any:
        frame[slot] = _Unset
        return result(frame)

    return run


def bound(slot: int, init: Closure) -> Closure:
    """A use of a variable of `cel.bind`."""

    def run(frame: Any) -> Any:
        value = frame[slot]
        if value is _Unset:
            try:
                value = init(frame)
            except CostLimitError:
                raise
            except EvaluationError as error:
                value = _Failed(error)
            frame[slot] = value
        if type(value) is _Failed:
            raise value.error
        return value

    return run
