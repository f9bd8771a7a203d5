"""Node labels of NVIDIA's GPU feature discovery as selectors on the devices themselves.

A label says what all GPUs of a node are; a claim asks for the GPU and finds the node by it. Source: the labels documented for
k8s-device-plugin (gpu-feature-discovery), the attributes that the DRA driver gpu.nvidia.com publishes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dra_operator.api.fieldpath import FieldPath
from dra_operator.cel.guards import guarded
from dra_operator.cel.parser import parse
from dra_operator.cel.unparse import quoted, unparse
from dra_operator.convert.remarks import Untranslatable

PREFIX = "nvidia.com/"
_ATTRIBUTES = "device.attributes['gpu.nvidia.com']"
_MEMORY = "device.capacity['gpu.nvidia.com'].memory"
_MIG_PRODUCT = re.compile(r"(?P<product>.+)-MIG-(?P<profile>.+)")
#: Says that the node has a GPU, which a claim for one implies.
PRESENT = "nvidia.com/gpu.present"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a node label, as node affinity writes it."""

    key: str
    operator: str
    values: tuple[str, ...]
    path: FieldPath

    def refuse(self, reason: str) -> Untranslatable:
        return Untranslatable(self.path, f"{self.key} {self.operator} {', '.join(self.values)}: {reason}")


@dataclass(frozen=True, slots=True)
class Condition:
    """What a requirement says about a device. `expression` "" asks for nothing more; `mig`: the device is a MIG slice."""

    expression: str
    mig: bool = False
    assumption: str = ""


def knows(key: str) -> bool:
    """Whether the label has a counterpart on devices. Others go on choosing nodes."""
    return key in _READERS


def condition(requirement: Requirement) -> Condition:
    """Raises Untranslatable."""
    if requirement.operator == "Exists":
        return Condition("")
    if requirement.operator == "DoesNotExist":
        raise requirement.refuse(
            "a claim cannot ask for the absence of a GPU; use another label to keep pods off these nodes"
        )
    if requirement.operator not in ("In", "NotIn", "Gt", "Lt") or not requirement.values:
        raise requirement.refuse("not an operator of node affinity")
    found = _READERS[requirement.key](requirement)
    return (
        Condition(unparse(guarded(parse(found.expression))), found.mig, found.assumption) if found.expression else found
    )


def _product(requirement: Requirement) -> Condition:
    if requirement.operator not in ("In", "NotIn"):
        raise requirement.refuse("a product is no number")
    if any(value.endswith("-SHARED") for value in requirement.values):
        raise requirement.refuse(
            "a time-sliced GPU is shared by unrelated pods, which a claim of its own does not do; share a claim"
        )
    migs = [_MIG_PRODUCT.fullmatch(value) for value in requirement.values]
    name = f"{_ATTRIBUTES}.productName.replace(' ', '-')"
    if not any(migs):
        return Condition(_among(name, requirement, quoted))
    first = migs[0]
    if len(migs) > 1 or first is None or requirement.operator != "In":
        raise requirement.refuse("several products, MIG slices among them, cannot be one request; name one")
    return Condition(
        f"{name} == {quoted(first['product'])} && {_ATTRIBUTES}.profile == {quoted(first['profile'])}", mig=True
    )


def _family(requirement: Requirement) -> Condition:
    if requirement.operator not in ("In", "NotIn"):
        raise requirement.refuse("a family is no number")
    return Condition(
        _among(
            f"{_ATTRIBUTES}.architecture.lowerAscii().replace(' ', '-')", requirement, lambda text: quoted(text.lower())
        )
    )


def _memory(requirement: Requirement) -> Condition:
    """The label counts MiB."""
    amounts = sorted(map(int, _numbers(requirement)))
    symbol = {"In": ">=", "Gt": ">", "Lt": "<"}.get(requirement.operator)
    if symbol is None:
        raise requirement.refuse("memory is asked for by a lower or upper bound; use In, Gt or Lt")
    amount = f"{amounts[0]}Mi"
    assumption = f"memory of at least {amount} is meant" if symbol == ">=" else ""
    return Condition(f"{_MEMORY}.compareTo(quantity('{amount}')) {symbol} 0", assumption=assumption)


def _part(attribute: str, part: str) -> Callable[[Requirement], Condition]:
    """A label that is one number of a version."""

    def read(requirement: Requirement) -> Condition:
        values = _numbers(requirement)
        value = f"{_ATTRIBUTES}.{attribute}.{part}()"
        if requirement.operator in ("Gt", "Lt"):
            return Condition(f"{value} {'>' if requirement.operator == 'Gt' else '<'} {values[0]}")
        return Condition(_among(value, requirement, str))

    return read


def _present(requirement: Requirement) -> Condition:
    if requirement.operator != "In" or requirement.values != ("true",):
        raise requirement.refuse(
            "a claim cannot ask for the absence of a GPU; use another label to keep pods off these nodes"
        )
    return Condition("")


def _among(value: str, requirement: Requirement, literal: Callable[[str], str]) -> str:
    literals = [literal(item) for item in requirement.values]
    if len(literals) == 1:
        return f"{value} {'==' if requirement.operator == 'In' else '!='} {literals[0]}"
    choice = f"{value} in [{', '.join(literals)}]"
    return choice if requirement.operator == "In" else f"!({choice})"


def _numbers(requirement: Requirement) -> Sequence[str]:
    for value in requirement.values:
        if not re.fullmatch(r"0|[1-9][0-9]{0,17}", value):
            raise requirement.refuse(f"{value!r} is not a whole number")
    return requirement.values


_READERS: Mapping[str, Callable[[Requirement], Condition]] = {
    PRESENT: _present,
    "nvidia.com/gpu.product": _product,
    "nvidia.com/gpu.family": _family,
    "nvidia.com/gpu.memory": _memory,
    "nvidia.com/gpu.compute.major": _part("cudaComputeCapability", "major"),
    "nvidia.com/gpu.compute.minor": _part("cudaComputeCapability", "minor"),
    "nvidia.com/cuda.driver.major": _part("driverVersion", "major"),
    "nvidia.com/cuda.driver.minor": _part("driverVersion", "minor"),
    "nvidia.com/cuda.driver.rev": _part("driverVersion", "patch"),
    "nvidia.com/cuda.driver-version.major": _part("driverVersion", "major"),
    "nvidia.com/cuda.driver-version.minor": _part("driverVersion", "minor"),
    "nvidia.com/cuda.driver-version.revision": _part("driverVersion", "patch"),
    "nvidia.com/cuda.runtime.major": _part("cudaDriverVersion", "major"),
    "nvidia.com/cuda.runtime.minor": _part("cudaDriverVersion", "minor"),
    "nvidia.com/cuda.runtime-version.major": _part("cudaDriverVersion", "major"),
    "nvidia.com/cuda.runtime-version.minor": _part("cudaDriverVersion", "minor"),
}
