"""What a selector costs: compiling it and evaluating it, beside the in-tree code, cel-python and cel-expr-python.

    python -m bench.cel

Prints one line a selector, times in microseconds. "metered" charges every step against the cost limit, as is done where an
estimate does not rule out that it is reached; "projection" is what looking a device up among those already judged costs.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import timeit
from collections.abc import Callable
from typing import Any

from dra_operator.cel import Device, compile_selector
from dra_operator.cli.cel import _device

DEVICE: dict[str, Any] = {
    "driver": "gpu.nvidia.com",
    "attributes": {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-8a10b6f7-4c9d-4c21-9b2e-0c2d5f6a7b8c"},
        "productName": {"string": "NVIDIA A100-SXM4-40GB"},
        "architecture": {"string": "Ampere"},
        "cudaComputeCapability": {"version": "8.0.0"},
        "driverVersion": {"version": "580.126.9"},
        "index": {"int": 3},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:10"},
        "resource.kubernetes.io/numaNode": {"int": 0},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}
GPU = 'device.attributes["gpu.nvidia.com"]'
SELECTORS = {
    "driver and bound": f'device.driver == "gpu.nvidia.com" && {GPU}.index >= 2',
    "memory": 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
    "version": f'{GPU}.cudaComputeCapability.isGreaterThan(semver("7.5.0"))',
    "model": f'{GPU}.productName.matches("^NVIDIA A100") && {GPU}.type in ["gpu", "mig"]',
    "optional": f"{GPU}.?index.orValue(0) > 1 && !has({GPU}.profile)",
    "macro": f'{GPU}.exists(name, name == "uuid")',
    "five terms": f'device.driver == "gpu.nvidia.com" && {GPU}.type == "gpu" && {GPU}.architecture == "Ampere" && '
    f'device.attributes["resource.kubernetes.io"].numaNode == 0 && {GPU}.index < 8',
}


def micros(run: Callable[[], object]) -> float:
    """The best of five means, in microseconds."""
    timer = timeit.Timer(run)
    number, _ = timer.autorange()
    return min(timer.repeat(5, max(number // 4, 1))) / max(number // 4, 1) * 1e6


def in_tree() -> dict[str, dict[str, float]]:
    """The Go code's times by selector; empty where it cannot be built."""
    from tests.differential.gobuild import Unavailable, program

    try:
        built = program()
    except Unavailable as reason:
        print(f"note: no comparison with the in-tree code: {reason}", file=sys.stderr)
        return {}
    lines = "".join(
        json.dumps({"expression": text, "device": DEVICE, "features": {}}) + "\n" for text in SELECTORS.values()
    )
    done = subprocess.run([str(built), "cel-bench"], input=lines, capture_output=True, text=True, check=True)
    return {answer["expression"]: answer for answer in map(json.loads, done.stdout.splitlines())}


def other_libraries() -> dict[str, Callable[[str], Callable[[], object]]]:
    """By library, what compiles a selector of core CEL to an evaluation on the device. Capacity is left out: quantities are not core."""
    values = {name: next(iter(value.values())) for name, value in DEVICE["attributes"].items()}
    own = {name: value for name, value in values.items() if "/" not in name}
    foreign = {name.partition("/")[2]: value for name, value in values.items() if "/" in name}
    attributes = {"gpu.nvidia.com": own, "resource.kubernetes.io": foreign}
    device = {"driver": DEVICE["driver"], "attributes": attributes, "capacity": {}}
    found: dict[str, Callable[[str], Callable[[], object]]] = {}
    try:
        import celpy
        from celpy.adapter import json_to_cel

        logging.disable(logging.CRITICAL)
        environment = celpy.Environment()
        values_there = {"device": json_to_cel(device)}

        def with_cel_python(text: str) -> Callable[[], object]:
            evaluator = environment.program(environment.compile(text))
            return lambda: evaluator.evaluate(values_there)

        found["cel-python"] = with_cel_python
    except ImportError:
        pass
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional

        cpp = cel.NewEnv(variables={"device": cel.Type.DYN}, extensions=[ext_optional.ExtOptional()])
        activation = cpp.Activation({"device": device})

        def with_cel_cpp(text: str) -> Callable[[], object]:
            compiled = cpp.compile(text)
            return lambda: compiled.eval(activation).value()

        found["cel-expr-py"] = with_cel_cpp
    except ImportError:
        pass
    return found


def evaluation(compile_text: Callable[[str], Callable[[], object]], text: str) -> float | None:
    """Another library's time for an evaluation, where it has an answer."""
    try:
        evaluate = compile_text(text)
        if not isinstance(evaluate(), int):  # cel-python's booleans are ints; an error may come as a value
            return None
    except Exception:
        return None
    return micros(evaluate)


def main() -> None:
    device: Device = _device(DEVICE)
    theirs = in_tree()
    others = other_libraries()
    columns = ("compile", "matches", "metered", "projection", "Go compile", "Go matches", *others)
    print(f"{'selector':18}" + "".join(f"{column:>12}" for column in columns))
    for name, text in SELECTORS.items():
        selector = compile_selector(text)
        figures: list[float | None] = [
            micros(lambda text=text: compile_selector(text)),  # type: ignore[misc]
            micros(lambda selector=selector: selector.matches(device)),  # type: ignore[misc]
            micros(lambda selector=selector: selector.measure(device)),  # type: ignore[misc]
            micros(lambda selector=selector: selector.projection(device)),  # type: ignore[misc]
            theirs.get(text, {}).get("compileMicros"),
            theirs.get(text, {}).get("evaluationMicros"),
            *(evaluation(compile_text, text) for compile_text in others.values()),
        ]
        print(f"{name:18}" + "".join(f"{'-' if figure is None else f'{figure:.2f}':>12}" for figure in figures))


if __name__ == "__main__":
    main()
