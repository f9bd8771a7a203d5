"""The Kubernetes device-selector dialect of CEL: parse, check, compile to closures, and say what an expression reads.

Knows devices as values only, nothing of pools, claims or allocation. How an expression goes through the modules:
`lexer` → `parser` (with `macros`) → `checker` → `validators` → `estimate` and `analysis` → `compiler` (with `closures`, `loops`).
`library/` holds the functions, `values` and `operators` what they work on.
"""

from __future__ import annotations

from dra_operator.cel.allowance import Allowance
from dra_operator.cel.analysis import Comparison, Read
from dra_operator.cel.device import AttributeValue, Device, bind_device
from dra_operator.cel.environment import CelFeatures, EnvironmentKind
from dra_operator.cel.errors import CompileError, CostLimitError, EvaluationError, Position
from dra_operator.cel.selector import (
    COST_LIMIT,
    MAX_BYTES,
    Conjunct,
    DerivedAttribute,
    Selector,
    cached_selector,
    compile_ahead,
    compile_derived,
    compile_selector,
)

# What `Selector.matches` takes.
DeviceView = Device

__all__ = [
    "COST_LIMIT",
    "MAX_BYTES",
    "Allowance",
    "AttributeValue",
    "CelFeatures",
    "Comparison",
    "CompileError",
    "Conjunct",
    "CostLimitError",
    "DerivedAttribute",
    "Device",
    "DeviceView",
    "EnvironmentKind",
    "EvaluationError",
    "Position",
    "Read",
    "Selector",
    "bind_device",
    "cached_selector",
    "compile_ahead",
    "compile_derived",
    "compile_selector",
]
