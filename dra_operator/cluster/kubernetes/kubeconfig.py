"""kubernetes-asyncio's reading of kubeconfigs and service accounts, without the rest of that package.

Its `__init__` modules import hundreds of generated classes that nobody here uses: half of what a command takes to start, and tens of
megabytes. The two packages are therefore entered for the time of the import without being run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_PACKAGES = ("kubernetes_asyncio", "kubernetes_asyncio.client")


@contextmanager
def _not_run() -> Iterator[ModuleType]:
    """The packages in `sys.modules` as they are before their code runs; gone from there at the end, for others to import them whole."""
    entered: list[ModuleType] = []
    try:
        for name in _PACKAGES:
            spec = find_spec(name)
            assert spec is not None
            sys.modules[name] = module_from_spec(spec)
            entered.append(sys.modules[name])
        yield entered[-1]
    finally:
        for name in _PACKAGES[: len(entered)]:
            del sys.modules[name]


def _loaded() -> tuple[Any, Any]:
    if _PACKAGES[0] in sys.modules:
        return import_module("kubernetes_asyncio.config"), import_module("kubernetes_asyncio.client").Configuration
    with _not_run() as client:
        configuration = import_module("kubernetes_asyncio.client.configuration").Configuration
        client.Configuration = configuration  # type: ignore[attr-defined]
        # Named by a function that makes clients, which nobody calls here.
        client.ApiClient = object  # type: ignore[attr-defined]
        return import_module("kubernetes_asyncio.config"), configuration


#: `load_kube_config`, `load_incluster_config`; and the class of what they fill in.
loaders, Configuration = _loaded()

#: Set in pods.
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
