"""Random expressions over the whole dialect, random devices, and the settings a selector is compiled under.

Expressions are grown from templates by kind of value, so most of them compile; now and then a part of the wrong kind is put in,
so that type errors and run-time errors are compared as well.
"""

from __future__ import annotations

import re
from typing import Any

from tests.allocator.problems import Choices
from tests.differential.grammar import TEMPLATES
from tests.differential.leaves import DOMAIN, LEAVES

__all__ = ["choose_case", "choose_derived_case", "choose_expression"]

_PART = re.compile(r"\{([a-z]+)(?:\|([^}]*))?\}")
_KINDS = sorted(set(LEAVES) - {"pattern", "zone"})
#: How often a part is of the wrong kind.
_MISFIT = 0.016


def choose_case(random: Choices) -> dict[str, Any]:
    """A selector to evaluate on a device."""
    return {
        "expression": choose_expression(random),
        "device": _device(random),
        "features": random.choice(_FEATURES),
        "envType": random.choice(("StoredExpressions", "NewExpressions")),
    }


def choose_derived_case(random: Choices) -> dict[str, Any]:
    """A derived attribute to evaluate on a device."""
    case = choose_case(random)
    return {**case, "expression": choose_expression(random, random.choice(_DERIVED)), "derived": True}


_FEATURES = [
    {"EnableConsumableCapacity": sharing, "EnableListTypeAttributes": lists}
    for sharing in (True, False)
    for lists in (True, False)
]
_DERIVED = ("bool", "int", "string", "semver", "ints", "strings", "dyn", "double", "map")


def choose_expression(random: Choices, kind: str = "bool", depth: int = 4) -> str:
    """An expression, of the given kind unless something in it is of the wrong one."""
    return _grow(random, kind, 1 + random.randrange(depth), {})


def _grow(random: Choices, kind: str, depth: int, scope: dict[str, str]) -> str:
    leaves = [name for name, known in scope.items() if known == kind] * 2 + LEAVES[kind]
    if depth <= 0 or not TEMPLATES[kind]:
        return random.choice(leaves)
    template = random.choice(leaves + TEMPLATES[kind])

    def part(match: re.Match[str]) -> str:
        wanted, names = match[1], dict(scope)
        for entry in filter(None, (match[2] or "").split(",")):
            name, known = entry.split(":")
            names[name] = known
        if random.random() < _MISFIT:
            wanted = random.choice(_KINDS)
        grown = _grow(random, wanted, depth - 1, names)
        return grown if re.fullmatch(r"[\w.]+|\[[^\[\]]*\]|[\w.]+\([^()]*\)", grown) else f"({grown})"

    return _PART.sub(part, template.replace("{{", "\0").replace("}}", "\1")).replace("\0", "{").replace("\1", "}")


_VALUES: list[dict[str, Any]] = [
    *({"int": value} for value in (0, 1, 2, 7, 40, 80, -1, 2**63 - 1)),
    *({"string": value} for value in ("", "a", "a100", "A100-40GB", "1.5", "10.0.0.1", "é")),
    *({"bool": value} for value in (False, True)),
    *({"version": value} for value in ("1.0.0", "8.0.0", "1.2.3-rc.1", "535.104.5+x")),
]
_LISTS: list[dict[str, Any]] = [
    *({"ints": value} for value in ([0], [1, 2], [3, 1, 2], [0, 0, 1, 1])),
    *({"strings": value} for value in (["a"], ["x", "b"], ["a", "b", "a"])),
    *({"bools": value} for value in ([True], [False, True])),
    *({"versions": value} for value in (["1.0.0"], ["2.0.0", "1.0.0"])),
]


def _device(random: Choices) -> dict[str, Any]:
    """A device with some of the attributes that expressions ask for, mostly of the type one would expect."""
    usual: dict[str, Any] = {
        "index": {"int": random.choice((0, 1, 3))},
        "model": {"string": random.choice(("a100", "a", "A100-40GB"))},
        "ready": {"bool": random.choice((False, True))},
        "driverVersion": {"version": random.choice(("1.0.0", "535.104.5"))},
        "numas": random.choice(_LISTS),
        "links": random.choice(_LISTS),
        "other.example.com/zone": random.choice(_VALUES),
    }
    attributes = {name: value for name, value in usual.items() if random.random() > 0.1}
    if random.random() < 0.1:
        attributes[random.choice(sorted(usual))] = random.choice(_VALUES)
    if random.random() < 0.5:
        attributes = {name if "/" in name else f"{DOMAIN}/{name}": value for name, value in attributes.items()}
    memory = {"memory": {"value": random.choice(("40Gi", "80Gi", "1500m", "0"))}}
    return {
        "driver": random.choice((DOMAIN, DOMAIN, "other.example.com")),
        "attributes": attributes,
        "capacity": memory if random.random() > 0.1 else {},
        "allowMultipleAllocations": random.choice((False, True)),
    }
