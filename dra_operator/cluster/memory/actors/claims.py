"""The claim controller of kube-controller-manager: makes claims from templates, and frees what no pod uses any more.

After `pkg/controller/resourceclaim` of 1.37; see the facts on a claim's life in the project's reference (a freed named claim
loses its finalizer; an allocation without the finalizer is not cleared; pods with a node get their reservation back).
"""

from __future__ import annotations

from typing import Any

from dra_operator.api.claims import DELETE_PROTECTION, POD_CLAIM_NAME
from dra_operator.api.meta import Key
from dra_operator.cluster.memory.actors.actor import Reconciler
from dra_operator.cluster.memory.actors.objects import (
    claim_names,
    controller,
    deleting,
    key,
    node_of,
    reserved_for,
    terminal,
    uid,
)
from dra_operator.cluster.memory.identity import CLAIM_CONTROLLER
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

#: Leaves room for the hyphen and five random letters in a name of 63.
_BASE = 57
#: A write that failed, or a template that is missing, is tried again after this many seconds.
_RETRY = 1.0
#: Seconds between the two requests that free a claim: others can see it, and write to it, in between.
_BETWEEN_WRITES = 0.02


class ClaimController(Reconciler):
    user = CLAIM_CONTROLLER
    watches = {PODS: 0.004, RESOURCE_CLAIMS: 0.004, RESOURCE_CLAIM_TEMPLATES: 0.004}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._generated: dict[str, dict[str, str]] = {}
        self._claims_of: dict[Key, set[Key]] = {}
        self._waiting: dict[Key, set[Key]] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        if resource is RESOURCE_CLAIM_TEMPLATES:
            for pod in sorted(self._waiting.pop(key(change.object), ())):
                self.mark(PODS, pod)
            return
        if resource is RESOURCE_CLAIMS:
            self._index(change)
        self.mark(resource, key(change.object))

    def _index(self, change: Change) -> None:
        """Which claims refer to which pod, and which was generated for which entry of it."""
        claim, claim_key = change.object, key(change.object)
        owner = controller(claim)
        pods = {entry["name"] for entry in dig(claim, "status", "reservedFor") or ()}
        if owner is not None and owner["kind"] == "Pod":
            pods.add(owner["name"])
            entry = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME)
            if entry is not None and change.type != "DELETED":
                self._generated.setdefault(owner["uid"], {})[entry] = claim_key.name
            elif change.type == "DELETED":
                self._generated.pop(owner["uid"], None)
                self.mark(PODS, Key(claim_key.namespace, owner["name"]))
        for pod in pods:
            self._claims_of.setdefault(Key(claim_key.namespace, pod), set()).add(claim_key)
        if change.type == "DELETED":
            for pod in pods:
                self._claims_of[Key(claim_key.namespace, pod)].discard(claim_key)

    def reconcile(self, resource: Resource, key: Key) -> None:
        if resource is PODS:
            self._pod(key)
        else:
            self._claim(key)

    def _pod(self, key: Key) -> None:
        pod = self.get(PODS, key)
        if pod is None or done(pod):
            self._release(key)
            return
        if deleting(pod):
            return
        made: list[dict[str, Any]] = []
        for entry in dig(pod, "spec", "resourceClaims") or ():
            if entry.get("resourceClaimTemplateName") and self._lacks(pod, entry["name"]):
                name = self._generated.get(uid(pod), {}).get(entry["name"]) or self._generate(pod, entry)
                if name is not None:
                    made.append({"name": entry["name"], "resourceClaimName": name})
        if made:
            self.patch(PODS, key, {"metadata": {"uid": uid(pod)}, "status": {"resourceClaimStatuses": made}}, "status")
            pod = self.get(PODS, key)
        if pod is not None and node_of(pod):
            self._reserve(pod)

    def _lacks(self, pod: Object, entry: str) -> bool:
        """Its claim was not generated yet, or somebody has deleted it.

        The real controller takes a claim that it made less than a minute ago for still there.
        """
        name = claim_names(pod).get(entry, "")
        return name is None or (
            name != "" and self.get(RESOURCE_CLAIMS, Key(pod["metadata"]["namespace"], name)) is None
        )

    def _release(self, pod: Key) -> None:
        """The pod is gone or done: look at every claim that may still be reserved for it."""
        for claim in sorted(self._claims_of.get(pod, ())):
            self._claim(claim)

    def _generate(self, pod: Object, entry: dict[str, Any]) -> str | None:
        namespace = pod["metadata"]["namespace"]
        template_key = Key(namespace, entry["resourceClaimTemplateName"])
        template = self.get(RESOURCE_CLAIM_TEMPLATES, template_key)
        if template is None:
            self._waiting.setdefault(template_key, set()).add(key(pod))
            return None
        given = dig(template, "spec", "metadata") or {}
        body: Object = {
            "metadata": {
                "generateName": generate_name(pod["metadata"]["name"], entry["name"]),
                "labels": dict(given.get("labels") or {}),
                "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": pod["metadata"]["name"],
                        "uid": uid(pod),
                        "controller": True,
                    }
                ],
            },
            "spec": clone(dig(template, "spec", "spec") or {}),
        }
        response = self.create(RESOURCE_CLAIMS, namespace, body)
        if not response.ok:
            self.after(_RETRY, PODS, key(pod), background=True)
            return None
        return str(response.body["metadata"]["name"])

    def _reserve(self, pod: Object) -> None:
        """A pod that was bound past the scheduler, or lost its reservation, gets it (back) where the claim is allocated."""
        for name in claim_names(pod).values():
            claim = self.get(RESOURCE_CLAIMS, Key(pod["metadata"]["namespace"], name)) if name else None
            if claim is None or dig(claim, "status", "allocation") is None or reserved_for(claim, uid(pod)):
                continue
            updated = clone(claim)
            consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid(pod)}
            updated["status"].setdefault("reservedFor", []).append(consumer)
            self.put(RESOURCE_CLAIMS, updated, "status")

    def _claim(self, claim_key: Key) -> None:
        claim = self.get(RESOURCE_CLAIMS, claim_key)
        if claim is None:
            return
        consumers = dig(claim, "status", "reservedFor") or []
        valid = [entry for entry in consumers if self._in_use(claim_key.namespace, entry)]
        protected = DELETE_PROTECTION in (claim["metadata"].get("finalizers") or ())
        freed = protected and not valid and (bool(consumers) or deleting(claim))
        if freed or len(valid) < len(consumers):
            claim = self._free(claim, valid, deallocate=freed)
        elif valid or not self._owner_done(claim):
            # Nothing to free; a bound pod may be waiting for its reservation.
            self._reserve_bound(claim)
            return
        if claim is not None and not valid and self._owner_done(claim):
            self.delete(RESOURCE_CLAIMS, claim)

    def _free(self, claim: Object, valid: list[dict[str, Any]], *, deallocate: bool) -> Object | None:
        """Write the consumers that are left; without any, give the devices back and then let the claim go.

        None where the claim is not done with yet.
        """
        updated = clone(claim)
        updated.setdefault("status", {})["reservedFor"] = valid
        if deallocate:
            updated["status"].pop("allocation", None)
        response = self.put(RESOURCE_CLAIMS, updated, "status")
        if not response.ok:
            self.after(_RETRY, RESOURCE_CLAIMS, key(claim), background=True)
            return None
        if not deallocate:
            return response.body
        freed = response.body
        self.agenda.at(self.now + _BETWEEN_WRITES, lambda: self._let_go(freed))
        return None

    def _let_go(self, freed: Object) -> None:
        """The second request, of what the first one left: whoever wrote in between makes it fail, and the finalizer stays."""
        freed["metadata"]["finalizers"] = [
            name for name in freed["metadata"].get("finalizers") or () if name != DELETE_PROTECTION
        ]
        if not self.put(RESOURCE_CLAIMS, freed).ok:
            self.after(_RETRY, RESOURCE_CLAIMS, key(freed), background=True)
            return
        claim = self.get(RESOURCE_CLAIMS, key(freed))
        if claim is not None and self._owner_done(claim):
            self.delete(RESOURCE_CLAIMS, claim)

    def _reserve_bound(self, claim: Object) -> None:
        owner = controller(claim)
        if dig(claim, "status", "allocation") is None or owner is None or owner["kind"] != "Pod":
            return
        pod = self.get(PODS, Key(claim["metadata"]["namespace"], owner["name"]))
        if pod is not None and uid(pod) == owner["uid"] and node_of(pod) and not done(pod) and not deleting(pod):
            self._reserve(pod)

    def _in_use(self, namespace: str, consumer: dict[str, Any]) -> bool:
        """Consumers other than pods are somebody else's to remove."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = self.get(PODS, Key(namespace, consumer["name"]))
        return pod is not None and uid(pod) == consumer["uid"] and not done(pod)

    def _owner_done(self, claim: Object) -> bool:
        """Generated for a pod that has ended; of a pod that is gone the garbage collector takes care."""
        owner = controller(claim)
        if owner is None or owner["kind"] != "Pod":
            return False
        pod = self.get(PODS, Key(claim["metadata"]["namespace"], owner["name"]))
        return pod is not None and uid(pod) == owner["uid"] and done(pod)


def done(pod: Object) -> bool:
    """Ended, or deleted before it was scheduled: its claims are free."""
    return terminal(pod) or (deleting(pod) and not node_of(pod))


def generate_name(pod: str, entry: str) -> str:
    """`<pod>-<entry>-`, both parts cut in proportion where that is too long to append five letters to."""
    if len(pod) + 1 + len(entry) > _BASE:
        room = _BASE - 1
        pod_room = max(1, room * len(pod) // (len(pod) + len(entry)))
        pod, entry = pod[:pod_room], entry[: max(1, room - pod_room)]
    return f"{pod}-{entry}-"
