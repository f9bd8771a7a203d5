"""A real Kubernetes control plane on this machine, with simulated nodes and kubelets, for tests and demos.

`python -m devcluster up` on the command line, `ControlPlane.start()` in Python, `pytest_plugin` in tests. The
operator does not depend on any of it.
"""

from devcluster.binaries import BuildError
from devcluster.client import ApiError, Client
from devcluster.control_plane import ControlPlane, KubectlError, StartError
from devcluster.instance import InstanceError
from devcluster.waiting import NeverHappened, eventually
from dra_operator.profiles import ProfileError

__all__ = [
    "ApiError",
    "BuildError",
    "Client",
    "ControlPlane",
    "InstanceError",
    "KubectlError",
    "NeverHappened",
    "ProfileError",
    "StartError",
    "eventually",
]
