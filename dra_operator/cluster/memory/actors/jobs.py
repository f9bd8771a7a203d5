"""The Job controller: completions, parallelism, back-off limit, indexed jobs, suspension.

Pods carry the tracking finalizer until they are counted or their Job is gone, as the real ones do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dra_operator.api.meta import Key, format_time, parse_time
from dra_operator.cluster.memory.actors.objects import active, condition, deleting, terminal, uid
from dra_operator.cluster.memory.actors.objects import key as key_of
from dra_operator.cluster.memory.actors.pod_templates import Workload, pod_from, victims_first
from dra_operator.cluster.memory.identity import JOB_CONTROLLER
from dra_operator.cluster.memory.store import Change
from dra_operator.cluster.memory.subresources import set_condition
from dra_operator.cluster.memory.values import Object, clone, dig
from dra_operator.cluster.rest import JOBS, PODS, Resource

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
#: A failed pod is replaced after ten seconds, doubled with every further failure.
_BACKOFF, _BACKOFF_MOST = 10.0, 600.0


class JobController(Workload):
    user = JOB_CONTROLLER
    owners = JOBS
    watches = {JOBS: 0.005, PODS: 0.005}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._failed_at: dict[str, float] = {}
        self._gone: dict[Key, list[Object]] = {}

    def on_change(self, resource: Resource, change: Change) -> None:
        super().on_change(resource, change)
        if resource is JOBS and change.type == "DELETED":
            self._gone.setdefault(key_of(change.object), []).append(change.object)

    def reconcile(self, resource: Resource, key: Key) -> None:
        for gone in self._gone.pop(key, ()):
            # Nobody counts its pods any more: with the finalizer they would stay for ever.
            self._let_go(pod for pod in self.owned(gone) if _tracked(pod))
            self._failed_at.pop(uid(gone), None)
        job = self.get(JOBS, key)
        if job is None:
            return
        job = self._count(job)
        if job is None or deleting(job) or finished(job):
            return
        pods = [pod for pod in self.owned(job) if active(pod)]
        if dig(job, "spec", "suspend"):
            for pod in pods:
                self.delete(PODS, pod)
            return
        status = job.get("status") or {}
        succeeded, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
        completions = dig(job, "spec", "completions")
        if failed > int(dig(job, "spec", "backoffLimit") or 0):
            self._end(job, pods, "Failed", "BackoffLimitExceeded")
            return
        if (completions is not None and succeeded >= int(completions)) or (
            completions is None and succeeded and not pods
        ):
            self._end(job, pods, "Complete", "CompletionsReached")
            return
        wanted = int(dig(job, "spec", "parallelism") or 0)
        if completions is not None:
            wanted = min(wanted, int(completions) - succeeded)
        elif succeeded:
            wanted = min(wanted, len(pods))
        self._scale(job, pods, wanted, failed)
        self._tell_active(job)

    def _count(self, job: Object) -> Object | None:
        """Add the pods that have ended to the job's status, then let them go."""
        ended = [pod for pod in self.owned(job) if _tracked(pod) and _over(pod)]
        if not ended:
            return job
        updated = clone(job)
        status = updated.setdefault("status", {})
        for pod in ended:
            outcome = "succeeded" if dig(pod, "status", "phase") == "Succeeded" else "failed"
            status[outcome] = int(status.get(outcome) or 0) + 1
            if outcome == "failed":
                self._failed_at[uid(job)] = self.now
            elif (index := _index(pod)) is not None:
                done = {*_indexes(status.get("completedIndexes")), index}
                status["completedIndexes"] = ",".join(map(str, sorted(done)))
        response = self.put(JOBS, updated, "status")
        if not response.ok:
            self.after(0.1, JOBS, key_of(job))
            return None
        self._let_go(ended)
        return self.get(JOBS, key_of(job))

    def _let_go(self, pods: Iterable[Object]) -> None:
        """Without the finalizer, so that those that are deleted go."""
        for pod in pods:
            updated = clone(pod)
            updated["metadata"]["finalizers"] = [name for name in pod["metadata"]["finalizers"] if name != TRACKING]
            self.put(PODS, updated)

    def _scale(self, job: Object, pods: list[Object], wanted: int, failed: int) -> None:
        if failed and len(pods) < wanted:
            due = self._failed_at.get(uid(job), 0.0) + min(_BACKOFF * 2 ** (failed - 1), _BACKOFF_MOST)
            if self.now < due:
                self.at(due, JOBS, key_of(job))
                return
        indexed = dig(job, "spec", "completionMode") == "Indexed"
        taken = {_index(pod) for pod in pods} | set(_indexes(dig(job, "status", "completedIndexes")))
        free = (index for index in range(int(dig(job, "spec", "completions") or 0)) if index not in taken)
        for _ in range(wanted - len(pods)):
            if not self.make(job, self._pod(job, next(free) if indexed else None)):
                break
        for pod in victims_first(pods)[: max(0, len(pods) - wanted)]:
            self.delete(PODS, pod)

    def _pod(self, job: Object, index: int | None) -> Object:
        template: Object = clone(dig(job, "spec", "template") or {})
        template.setdefault("spec", {}).setdefault("restartPolicy", "Never")
        body = pod_from(JOBS, job, template)
        body["metadata"]["finalizers"].append(TRACKING)
        if index is not None:
            body["metadata"]["generateName"] = f"{job['metadata']['name']}-{index}-"
            body["metadata"]["annotations"][INDEX] = str(index)
            body["metadata"]["labels"][INDEX] = str(index)
        return body

    def _tell_active(self, job: Object) -> None:
        pods = [pod for pod in self.owned(job) if active(pod)]
        started = dig(job, "status", "startTime") or format_time(self.now)
        self._write(job, {"active": len(pods), "startTime": started})

    def _write(self, job: Object, status: dict[str, Any]) -> None:
        fresh = self.get(JOBS, key_of(job))
        if fresh is not None and any((fresh.get("status") or {}).get(name) != value for name, value in status.items()):
            updated = clone(fresh)
            updated["status"] = {**(updated.get("status") or {}), **status}
            self.put(JOBS, updated, "status")

    def _end(self, job: Object, pods: list[Object], outcome: str, reason: str) -> None:
        for pod in pods:
            self.delete(PODS, pod)
        updated = clone(self.get(JOBS, key_of(job)) or job)
        status = updated.setdefault("status", {})
        status["active"] = 0
        if outcome == "Complete":
            status["completionTime"] = format_time(self.now)
        set_condition(updated, {"type": outcome, "status": "True", "reason": reason}, self.now)
        self.put(JOBS, updated, "status")


def finished(job: Object) -> bool:
    return any((found := condition(job, type_)) and found["status"] == "True" for type_ in ("Complete", "Failed"))


def _tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _over(pod: Object) -> bool:
    """Ended, or deleted without a kubelet that would end it, or its deletion is due."""
    if terminal(pod) or (deleting(pod) and not dig(pod, "spec", "nodeName")):
        return True
    return (
        deleting(pod)
        and pod["metadata"].get("deletionGracePeriodSeconds") == 0
        and (parse_time(pod["metadata"]["deletionTimestamp"]) is not None)
    )


def _index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return None if text is None else int(text)


def _indexes(text: str | None) -> list[int]:
    """`0-2,5` as numbers."""
    found: list[int] = []
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
