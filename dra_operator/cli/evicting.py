"""A proven plan carried out in a cluster: one eviction after another, each waited for, none after a surprise.

The only write is the Eviction of a pod; the API server counts it against disruption budgets. Allocations are the operator's: the
guard policy would refuse them here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_operator.cli.defragging import Plan, Step
from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.live import run_in_cluster
from dra_operator.cli.output import note
from dra_operator.cluster.rest import PODS, Request, Response

#: Seconds to wait for the pod in the place of an evicted one, and between two looks.
PATIENCE = 300.0
EVERY = 1.0


def carry_out(plan: Plan, kubeconfig: Path | None, context: str | None) -> None:
    """Evict the plan's pods in order. Raises CommandFailed at the first thing that is not as planned."""

    async def work(client: Any) -> None:
        for step in plan.steps:
            await _move(client, step)
        note(f"{plan.unit.kind}/{plan.unit.subject}: all moves are done; the operator allocates as the last pod ends")

    run_in_cluster(kubeconfig, context, work)


async def _move(client: Any, step: Step) -> None:
    if step.kind != "pod":
        raise CommandFailed(f"claim {step.key} is in use by no pod; only its owner can delete it")
    found = await client.send(Request("GET", PODS.path(*step.key)))
    pod = _expect(found, f"pod {step.key}")
    if pod["metadata"]["uid"] != step.uid:
        raise CommandFailed(f"pod {step.key} is another one than planned for by now; plan again")
    controller = _controller(pod)
    before = {item["metadata"]["uid"] for item in await _siblings(client, step.key.namespace, controller)}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": step.key.name, "namespace": step.key.namespace},
        "deleteOptions": {"preconditions": {"uid": step.uid}},
    }
    answer = await client.send(Request("POST", PODS.path(*step.key, "eviction"), body))
    if not answer.ok:
        why = "its disruption budget allows no more now" if answer.status == 429 else answer.message
        raise CommandFailed(f"pod {step.key} was not evicted: {why}; try again later, what was moved stays moved")
    note(f"evicted pod {step.key}")
    end = time.monotonic() + PATIENCE
    while True:
        new = [
            item
            for item in await _siblings(client, step.key.namespace, controller)
            if item["metadata"]["uid"] not in before
        ]
        bound = next((item for item in new if item["spec"].get("nodeName")), None)
        left = await client.send(Request("GET", PODS.path(*step.key)))
        if bound is not None and (left.status == 404 or left.body["metadata"]["uid"] != step.uid):
            note(f"pod {step.key.namespace}/{bound['metadata']['name']} has its place on {bound['spec']['nodeName']}")
            return
        if time.monotonic() > end:
            raise CommandFailed(
                f"no pod took the place of {step.key} within {PATIENCE:g} s; "
                "nothing more is evicted, `kubectl-dra explain` says what its successor waits for"
            )
        await asyncio.sleep(EVERY)


async def _siblings(client: Any, namespace: str, controller: str) -> Sequence[dict[str, Any]]:
    found = _expect(await client.send(Request("GET", PODS.path(namespace))), f"the pods of namespace {namespace}")
    return [item for item in found.get("items") or () if _controller(item) == controller]


def _controller(pod: dict[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _expect(answer: Response, what: str) -> dict[str, Any]:
    if not answer.ok:
        raise CommandFailed(f"{what} cannot be read: {answer.message}")
    return answer.body
