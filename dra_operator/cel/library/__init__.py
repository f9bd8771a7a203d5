"""The functions of the dialect, one module a family; `standard_registry` puts them together.

What the API server offers to device selectors of 1.37: the CEL standard functions and optionals, cel-go's strings v2, sets and
lists v3, and the Kubernetes libraries lists, regex, url, ip, cidr, format, quantity and semver. No math library, no authorizer.
"""

from __future__ import annotations

from functools import lru_cache

from dra_operator.cel.declarations import Registry
from dra_operator.cel.library import (
    collections,
    conversions,
    formats,
    kubernetes,
    network,
    optionals,
    regex,
    strings,
    times,
    urls,
)
from dra_operator.cel.library import operators as operator_signatures

__all__ = ["registry"]


@lru_cache(maxsize=2)
def registry(with_includes: bool) -> Registry:
    """All functions; `includes` depends on the environment. Shared: do not change it."""
    functions = Registry()
    for library in (
        *(operator_signatures, conversions, times, optionals, strings, collections),
        *(regex, urls, network, formats, kubernetes),
    ):
        library.declare(functions)
    if with_includes:
        collections.declare_includes(functions)
    return functions
