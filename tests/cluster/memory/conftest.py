"""A fresh embedded cluster a test."""

from __future__ import annotations

import pytest

from dra_operator.cluster.memory.assembly import embedded_cluster
from tests.cluster.memory.stand_in import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(embedded_cluster(seed=1))
