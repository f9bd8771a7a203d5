"""Where an explanation's objects come from: manifests played on the embedded cluster, or lists read from a cluster.

The engine is the operator's in both cases. Of a cluster only GETs are made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from dra_operator.api.meta import Key
from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.live import Listed, read_cluster
from dra_operator.explain.account import Account
from dra_operator.explain.explanation import listed

if TYPE_CHECKING:
    from dra_operator.engine.engine import Engine

Kind = Literal["claim", "pod"]
_NAMES = {"claim": "ResourceClaim", "pod": "Pod"}


def explain_files(paths: Sequence[str], kind: str, key: Key) -> tuple[Account, bool]:
    """From manifests, as `simulate` reads and plays them; False beside it if something in them could not be used."""
    from dra_operator.cli.simulation import play_files
    from dra_operator.cluster.rest import BY_KIND

    run = play_files(paths)
    account = run.engine.explain(cast(Kind, kind), key, run.world.now)
    if account is None:
        resource = BY_KIND[_NAMES[kind]]
        keys = [Key(item["metadata"]["namespace"], item["metadata"]["name"]) for item in run.store.listed(resource)]
        where = "in what could be used of the input" if run.bad else "in the input"
        raise _missing(kind, key, keys, where)
    return account, not run.bad


def explain_cluster(kubeconfig: Path | None, context: str | None, kind: str, key: Key) -> Account:
    """From a cluster's objects, as an observing operator sees them now. Raises CommandFailed."""
    listed = read_cluster(kubeconfig, context, meanwhile=_import_engine)
    engine, now = observing(listed, time.time())
    account = engine.explain(cast(Kind, kind), key, now)
    if account is None:
        objects = next(items for resource, items in listed if resource.kind == _NAMES[kind])
        keys = [Key(item["metadata"].get("namespace") or "", item["metadata"]["name"]) for item in objects]
        raise _missing(kind, key, keys, "in the cluster")
    return account


def _import_engine() -> None:
    """What takes longest to import. By then the reading has all it needs, so that no thread waits for the imports of the other."""
    import_module("dra_operator.engine.engine")


def observing(listed: Listed, now: float) -> tuple[Engine, float]:
    """An engine that has seen these objects and has made up its mind; it decides nothing that would be written."""
    from dra_operator.engine.engine import Engine
    from dra_operator.engine.settings import EngineSettings

    engine = Engine(EngineSettings(mode="observe"))
    for resource, items in listed:
        for item in items:
            engine.observe(resource.kind, "ADDED", item, now)
        engine.synced(resource.kind)
    engine.decide(now)
    return engine, now


def _missing(kind: str, key: Key, known: Sequence[Key], where: str) -> CommandFailed:
    elsewhere = sorted(other.namespace for other in known if other.name == key.name)
    if elsewhere:
        return CommandFailed(f"there is no {kind} {key} {where}, but one in namespace {', '.join(elsewhere)}; say -n")
    here = sorted(other.name for other in known if other.namespace == key.namespace)
    # What a workload or a template makes begins with its name.
    near = [name for name in here if name.startswith(f"{key.name}-")] or get_close_matches(key.name, here, 3, 0.5)
    meant = f"; did you mean {listed(near, 3)}?" if near else ""
    return CommandFailed(f"there is no {kind} {key} {where}{meant}")
