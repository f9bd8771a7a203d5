"""What the tests of the dialect share: a device with one attribute of each type, and one-line evaluation."""

from __future__ import annotations

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver
from dra_operator.cel import CompileError, EvaluationError, bind_device, compile_selector

DEVICE = bind_device(
    "gpu.example.com",
    {
        "ready": True,
        "index": 1,
        "model": "a100",
        "driverVersion": Semver.parse("535.104.5"),
        "numas": (0, 1),
        "links": ("x", "y"),
        "net.example.com/zone": "z1",
    },
    {"memory": Quantity.parse("80Gi"), "cores": Quantity.parse("1500m")},
    True,
)


def outcome(expression: str) -> object:
    """True or False, or the text of what went wrong."""
    try:
        return compile_selector(expression).matches(DEVICE)
    except CompileError as error:
        return f"compile: {error.message}"
    except EvaluationError as error:
        return f"error: {error.message}"
