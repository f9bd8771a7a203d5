"""One simulated kubelet for every node: it runs no containers and says it does.

What it plays of a kubelet: a new node gets Ready; a pod on a node runs once all its ResourceClaims are allocated and
reserved for it; a pod annotated `dra-operator.dev/run-for: "85s"` succeeds after that time; a pod being deleted is
gone after its grace period. A node labelled `devcluster.dra-operator.dev/kubelet: "off"` has none: nothing happens
there. Not played: heartbeats (the control plane is told not to miss them), images, probes, volumes, restarts.

It shares the machine with the control plane it serves, so it is frugal: one watch a kind, one PATCH a change.

`python -m devcluster.kubelet --kubeconfig FILE` runs until it is killed; API server restarts do not bother it.
"""

import argparse
import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvloop

from devcluster import podstatus
from devcluster.watching import Api, Gone, Refused

RUN_FOR: Final = "dra-operator.dev/run-for"
SWITCH_LABEL: Final = "devcluster.dra-operator.dev/kubelet"
_MAX_REQUESTS: Final = 16  # at a time; more would only queue in the API server
_log: Final = logging.getLogger("kubelet")

Json = dict[str, Any]


@dataclass(slots=True)
class _Pod:
    """A pod bound to a node, and how far we are with it."""

    object: Json
    started: bool = False
    ending: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class Kubelet:
    """The simulated kubelet of all nodes of one cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._pods: dict[str, _Pod] = {}  # by uid
        self._pods_on: dict[str, set[str]] = defaultdict(set)  # node → pod uids
        self._served: set[str] = set()  # nodes that exist and are not switched off
        self._reserved: dict[tuple[str, str], frozenset[str]] = {}  # allocated claim → uids it is reserved for
        self._waiting: dict[tuple[str, str], set[str]] = defaultdict(set)  # claim → pod uids
        self._room = asyncio.Semaphore(_MAX_REQUESTS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Watch nodes, claims and pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._api.follow("/api/v1/nodes", self._on_node))
            group.create_task(self._api.follow("/apis/resource.k8s.io/v1/resourceclaims", self._on_claim))
            group.create_task(self._api.follow("/api/v1/pods", self._on_pod, fieldSelector="spec.nodeName!="))

    def _on_node(self, node: Json, deleted: bool) -> None:
        name = node["metadata"]["name"]
        if deleted or node["metadata"].get("labels", {}).get(SWITCH_LABEL) == "off":
            self._served.discard(name)
            return
        if not any(condition["type"] == "Ready" for condition in node.get("status", {}).get("conditions", ())):
            self._spawn(self._api.patch(f"/api/v1/nodes/{name}/status", podstatus.ready_node(node)), f"node {name}")
        if name not in self._served:
            self._served.add(name)
            for uid in self._pods_on[name]:
                self._consider(uid)

    def _on_claim(self, claim: Json, deleted: bool) -> None:
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        status = claim.get("status", {})
        if deleted or "allocation" not in status:
            self._reserved.pop(key, None)
            return
        self._reserved[key] = frozenset(consumer["uid"] for consumer in status.get("reservedFor", ()))
        for uid in list(self._waiting.get(key, ())):
            self._consider(uid)

    def _on_pod(self, pod: Json, deleted: bool) -> None:
        uid = pod["metadata"]["uid"]
        if deleted:
            self._forget(uid)
            return
        known = self._pods.get(uid)
        if known is None:
            self._pods[uid] = _Pod(pod)
            self._pods_on[pod["spec"]["nodeName"]].add(uid)
        else:
            known.object = pod
        self._consider(uid)

    def _consider(self, uid: str) -> None:
        """Do the next thing this pod needs, if it is time for it; called on every change that could matter."""
        pod = self._pods[uid]
        if pod.object["spec"]["nodeName"] not in self._served:
            return
        phase = pod.object.get("status", {}).get("phase")
        if "deletionTimestamp" in pod.object["metadata"]:
            self._end_after_grace(uid, pod)
        elif phase == "Pending" and not pod.started and self._claims_ready(uid, pod):
            pod.started = True
            self._spawn(self._start(uid, pod), podstatus.title(pod.object))
        elif phase == "Running" and not pod.started:  # from before our own start
            pod.started = True
            self._finish_later(uid, pod, datetime.fromisoformat(pod.object["status"]["startTime"]))

    def _claims_ready(self, uid: str, pod: _Pod) -> bool:
        ready = True
        for claim in podstatus.claims(pod.object):
            key = (pod.object["metadata"]["namespace"], claim)
            if uid in self._reserved.get(key, ()):
                self._stop_waiting(key, uid)
            else:
                self._waiting[key].add(uid)
                ready = False
        return ready and podstatus.has_all_claims(pod.object)

    async def _start(self, uid: str, pod: _Pod) -> None:
        await self._api.patch(podstatus.path(pod.object, "/status"), podstatus.running(pod.object, _now()))
        self._finish_later(uid, pod, _now())

    def _finish_later(self, uid: str, pod: _Pod, started: datetime) -> None:
        text = pod.object["metadata"].get("annotations", {}).get(RUN_FOR)
        if text is None:
            return
        try:
            seconds = podstatus.seconds(text)
        except ValueError as error:
            _log.warning("%s runs for ever: annotation %s: %s", podstatus.title(pod.object), RUN_FOR, error)
            return
        self._later(pod, (started - _now()).total_seconds() + seconds, self._finish, uid)

    def _finish(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is not None and not pod.ending:
            done = podstatus.ended(pod.object, _now(), succeeded=True)
            self._spawn(self._api.patch(podstatus.path(pod.object, "/status"), done), podstatus.title(pod.object))

    def _end_after_grace(self, uid: str, pod: _Pod) -> None:
        # The timestamp is when the grace period is over. It can only come closer, so a new one is a new timer.
        over = datetime.fromisoformat(pod.object["metadata"]["deletionTimestamp"])
        self._later(pod, (over - _now()).total_seconds(), self._end, uid)

    def _end(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is not None and not pod.ending:
            pod.ending = True
            self._spawn(self._remove(pod), podstatus.title(pod.object))

    async def _remove(self, pod: _Pod) -> None:
        phase = pod.object.get("status", {}).get("phase")
        if pod.object["metadata"].get("finalizers") and phase not in ("Succeeded", "Failed"):
            # It will stay on for others to see (a Job's controller counts it): say that it has ended.
            failed = podstatus.ended(pod.object, _now(), succeeded=False)
            await self._api.patch(podstatus.path(pod.object, "/status"), failed)
        await self._api.delete(podstatus.path(pod.object), pod.object["metadata"]["uid"])

    def _later(self, pod: _Pod, seconds: float, act: Any, uid: str) -> None:
        for timer in pod.timers:
            timer.cancel()
        pod.timers = [asyncio.get_running_loop().call_later(max(0.0, seconds), act, uid)]

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._pods_on[pod.object["spec"]["nodeName"]].discard(uid)
        for timer in pod.timers:
            timer.cancel()
        for claim in podstatus.claims(pod.object):
            self._stop_waiting((pod.object["metadata"]["namespace"], claim), uid)

    def _stop_waiting(self, key: tuple[str, str], uid: str) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(uid)
            if not waiting:
                del self._waiting[key]

    def _spawn(self, write: Coroutine[Any, Any, None], title: str) -> None:
        task = asyncio.create_task(self._insist(write, title))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _insist(self, write: Coroutine[Any, Any, None], title: str) -> None:
        async with self._room:
            try:
                await write
            except Gone:
                return
            except Refused as error:
                _log.error("%s: %s", title, error)


def _now() -> datetime:
    return datetime.now(UTC)


async def _main(kubeconfig: Path) -> None:
    async with Api.connect(kubeconfig) as api:
        await Kubelet(api).run()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.kubelet", description="Simulated kubelet of all nodes.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    uvloop.run(_main(parser.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
