"""Where the objects come from that `top` looks at: a cluster's lists, or a snapshot in files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_operator.cli.live import read_cluster
from dra_operator.cli.manifests import SCENARIO, read_manifests
from dra_operator.cli.standing import latest_time
from dra_operator.cli.telling import tell
from dra_operator.cli.usage import Usage
from dra_operator.cluster.memory.world import EPOCH
from dra_operator.cluster.rest import Resource


def look_at_cluster(kubeconfig: Path | None, context: str | None) -> Usage:
    """Raises CommandFailed."""
    return Usage(read_cluster(kubeconfig, context), time.time())


def look_at_files(paths: Sequence[str]) -> tuple[Usage, bool]:
    """At the latest time the objects tell of; False beside it if something in the input could not be used.

    Raises CommandFailed where nothing could.
    """
    manifests = read_manifests(paths)
    fine = tell(manifests)
    objects: dict[Resource, list[dict[str, Any]]] = {}
    for manifest in manifests.objects:
        if manifest.resource is not SCENARIO:
            objects.setdefault(manifest.resource, []).append(manifest.object)
    now = latest_time(manifest.object for manifest in manifests.objects)
    return Usage(objects.items(), EPOCH if now is None else now), fine
