"""The command lines and configuration files of the programs of one instance.

Pure but for `write_configuration`. What is set here is set for one of three reasons, and everything else is left at
the upstream default so that the control plane behaves as a real one: it has no kubelets that heartbeat, it shares a
small machine with the tests, or it is thrown away afterwards.
"""

import base64
import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from devcluster.instance import Description, Folder

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
KUBELET: Final = "kubelet"

_HOST: Final = "127.0.0.1"
_SERVICE_CIDR: Final = "10.96.0.0/16"
# File name of a kubeconfig → user and groups. The simulated kubelet plays every node at once, which no Node
# authorizer would allow, so it is an administrator.
_USERS: Final[Mapping[str, tuple[str, str]]] = {
    "kubeconfig": ("kubernetes-admin", "system:masters"),
    "controller-manager.kubeconfig": ("system:kube-controller-manager", ""),
    "scheduler.kubeconfig": ("system:kube-scheduler", ""),
    "kubelet.kubeconfig": ("devcluster:kubelet", "system:masters"),
}


def server(description: Description) -> str:
    """The URL of the API server."""
    return f"https://{_HOST}:{description.ports.apiserver}"


def write_tokens(folder: Folder) -> None:
    """Make a token for each user and the file by which the API server knows them.

    Certificates are no work: the API server signs its own on its first start, and its key also signs service
    account tokens.
    """
    folder.certificates.mkdir(mode=0o700)
    tokens = {name: secrets.token_urlsafe(32) for name in _USERS}
    lines = [f'{token},{_USERS[name][0]},{_USERS[name][0]},"{_USERS[name][1]}"' for name, token in tokens.items()]
    _private(_token_file(folder), "\n".join(lines) + "\n")
    _private(folder.certificates / "tokens.json", json.dumps(tokens))


def write_configuration(folder: Folder, description: Description) -> None:
    """Write the kubeconfigs and the scheduler's configuration; the API server's certificate must be there."""
    authority = base64.b64encode(certificate(folder).read_bytes()).decode()
    tokens: dict[str, str] = json.loads((folder.certificates / "tokens.json").read_text())
    for name, token in tokens.items():
        _private(folder.path / name, _as_yaml(_kubeconfig(description, authority, token)))
    _private(_scheduler_config(folder), _as_yaml(_scheduler_configuration(folder)))


def certificate(folder: Folder) -> Path:
    """The API server's certificate with the authority that signed it; written by its first start."""
    return folder.certificates / "apiserver.crt"


def has_certificate(folder: Folder) -> bool:
    """Whether the API server has written both, and to the end."""
    path = certificate(folder)
    return path.exists() and path.read_text().count("-----END CERTIFICATE-----") == 2


def command(component: str, folder: Folder, description: Description) -> list[str]:
    """The argv of a component; `extra_args` of the description come last and so win."""
    known = {
        ETCD: _etcd,
        APISERVER: _apiserver,
        CONTROLLER_MANAGER: _controller_manager,
        SCHEDULER: _scheduler,
        KUBELET: _kubelet,
    }
    argv = known[component](folder, description)
    if component in (APISERVER, CONTROLLER_MANAGER, SCHEDULER) and description.feature_gates:
        gates = (f"{gate}={str(on).lower()}" for gate, on in sorted(description.feature_gates.items()))
        argv.append(f"--feature-gates={','.join(gates)}")
    return argv + description.extra_args.get(component, [])


def _etcd(folder: Folder, description: Description) -> list[str]:
    client = f"http://{_HOST}:{description.ports.etcd}"
    peer = f"http://{_HOST}:{description.ports.etcd_peer}"
    return [
        str(Path(description.binaries) / ETCD),
        f"--data-dir={folder.path / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # nothing here survives the instance
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def _apiserver(folder: Folder, description: Description) -> list[str]:
    key = folder.certificates / "apiserver.key"
    return [
        str(Path(description.binaries) / APISERVER),
        f"--etcd-servers=http://{_HOST}:{description.ports.etcd}",
        f"--cert-dir={folder.certificates}",
        f"--bind-address={_HOST}",
        f"--advertise-address={_HOST}",
        f"--secure-port={description.ports.apiserver}",
        f"--service-cluster-ip-range={_SERVICE_CIDR}",
        "--endpoint-reconciler-type=none",  # no Endpoints may name a loopback address
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={_token_file(folder)}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        # All of them are served by default in 1.37; said here so that a newer default cannot take them away.
        "--runtime-config=resource.k8s.io/v1=true,admissionregistration.k8s.io/v1=true",
    ]


def _controller_manager(folder: Folder, description: Description) -> list[str]:
    return [
        str(Path(description.binaries) / CONTROLLER_MANAGER),
        *_client("controller-manager.kubeconfig", folder),
        *_serving(folder, description.ports.controller_manager),
        f"--kubeconfig={folder.path / 'controller-manager.kubeconfig'}",
        f"--root-ca-file={certificate(folder)}",
        f"--service-account-private-key-file={folder.certificates / 'apiserver.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        # Simulated nodes send no heartbeats: 5,000 of them would load the machine and prove nothing.
        "--node-monitor-grace-period=8760h",
    ]


def _scheduler(folder: Folder, description: Description) -> list[str]:
    return [
        str(Path(description.binaries) / SCHEDULER),
        *_client("scheduler.kubeconfig", folder),
        *_serving(folder, description.ports.scheduler),
        f"--config={_scheduler_config(folder)}",
    ]


def _kubelet(folder: Folder, _description: Description) -> list[str]:
    return [sys.executable, "-m", "devcluster.kubelet", "--kubeconfig", str(folder.path / "kubelet.kubeconfig")]


def _client(kubeconfig: str, folder: Folder) -> list[str]:
    return [f"--{use}-kubeconfig={folder.path / kubeconfig}" for use in ("authentication", "authorization")]


def _serving(folder: Folder, port: int) -> list[str]:
    return [
        f"--bind-address={_HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate(folder)}",
        f"--tls-private-key-file={folder.certificates / 'apiserver.key'}",
    ]


def _token_file(folder: Folder) -> Path:
    return folder.certificates / "tokens.csv"


def _scheduler_config(folder: Folder) -> Path:
    return folder.path / "scheduler.yaml"


def _kubeconfig(description: Description, authority: str, token: str) -> dict[str, Any]:
    name = f"devcluster-{description.name}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server(description), "certificate-authority-data": authority}}
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _scheduler_configuration(folder: Folder) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(folder.path / "scheduler.kubeconfig"), "qps": 1000, "burst": 2000},
    }


def _as_yaml(document: dict[str, Any]) -> str:
    """JSON is YAML, and needs no library."""
    return json.dumps(document, indent=2) + "\n"


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
