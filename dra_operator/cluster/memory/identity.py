"""Who sends a request. Admission policies look at the name; nothing else of authentication or RBAC is modelled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


def service_account(namespace: str, name: str) -> User:
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    )


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
OPERATOR = service_account("dra-operator", "dra-operator")
SCHEDULER = User("system:kube-scheduler")
CLAIM_CONTROLLER = service_account("kube-system", "resource-claim-controller")
GARBAGE_COLLECTOR = service_account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = service_account("kube-system", "namespace-controller")
TAINT_EVICTION = service_account("kube-system", "device-taint-eviction-controller")
DISRUPTION_CONTROLLER = service_account("kube-system", "disruption-controller")
DEPLOYMENT_CONTROLLER = service_account("kube-system", "deployment-controller")
REPLICA_SET_CONTROLLER = service_account("kube-system", "replicaset-controller")
STATEFUL_SET_CONTROLLER = service_account("kube-system", "statefulset-controller")
DAEMON_SET_CONTROLLER = service_account("kube-system", "daemon-set-controller")
JOB_CONTROLLER = service_account("kube-system", "job-controller")


def kubelet(node: str) -> User:
    return User(f"system:node:{node}", ("system:nodes", "system:authenticated"))
