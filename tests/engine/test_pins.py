"""A pod as its controller would make it anew: the operator's pin is not in its template, one of the user's is."""

from __future__ import annotations

import pytest

from dra_operator.api.core import Pod
from dra_operator.api.selectors import node_by_name
from dra_operator.engine.names import UNGATED_AT
from dra_operator.engine.pods import unpinned


@pytest.mark.parametrize(
    ("controller", "ungated", "stays"),
    [
        ("ReplicaSet", True, False),
        ("StatefulSet", True, False),
        ("ReplicaSet", False, True),  # the operator never let it go, so the pin is its own
        ("Job", True, True),  # the operator pins no such pods
        ("DaemonSet", True, True),
        (None, True, True),
    ],
)
def test_whose_pin_it_is(controller: str | None, ungated: bool, stays: bool) -> None:
    owner = {"apiVersion": "apps/v1", "kind": controller, "name": "w", "uid": "u-w", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "default",
        "uid": "u-p",
        "annotations": {UNGATED_AT: "2026-01-01T00:00:00Z"} if ungated else {},
        "ownerReferences": [owner] if controller else [],
    }
    pin = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_by_name("n1")}}
    found = unpinned(Pod.from_dict({"metadata": metadata, "spec": {"nodeName": "n1", "affinity": pin}}))
    assert found.node_name is None
    assert (found.pinned_to == "n1") is stays
