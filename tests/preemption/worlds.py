"""A small cluster for tests of preemption: nodes with devices, who holds them, and what a preemptor asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dra_operator.allocator import Problem, Strategy, validate
from dra_operator.api.claims import Allocation, DeviceClass, DeviceResult, ResourceClaim, quantity
from dra_operator.api.core import Node
from dra_operator.api.meta import Key
from dra_operator.api.slices import ResourceSlice
from dra_operator.inventory import Inventory
from dra_operator.preemption.budgets import Budgets
from dra_operator.preemption.holders import Holder, HolderIndex, PodRef, Spare
from dra_operator.preemption.victims import NoVictims, Victims, choose

DRIVER = "gpu.example.com"


class World:
    """`holders` in the order they were added."""

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.index = HolderIndex()
        self.holders: dict[str, Holder] = {}
        self.budgets = Budgets()
        self.classes("gpu")
        #: CPU per node, and what pods take of it; empty = nobody cares.
        self.cpu: dict[str, int] = {}
        self.cpu_of: dict[str, tuple[str, int]] = {}

    def classes(self, *names: str) -> None:
        for name in names:
            self.inventory.apply_class(DeviceClass.from_dict({"metadata": {"name": name}, "spec": {}}))

    def node(
        self,
        name: str,
        devices: int | Iterable[dict[str, Any]] = 0,
        counters: dict[str, str] | None = None,
        cpu: int | None = None,
    ) -> World:
        """A node with devices d0, d1, … of its own, in pool NAME; `counters` make the set "all" of that pool."""
        self.inventory.apply_node(Node.from_dict({"metadata": {"name": name, "labels": {"name": name}}}))
        if cpu is not None:
            self.cpu[name] = cpu
        self.pool(name, devices, {"nodeName": name}, counters)
        return self

    def pool(
        self,
        pool: str,
        devices: int | Iterable[dict[str, Any]],
        where: dict[str, Any],
        counters: dict[str, str] | None = None,
    ) -> World:
        items = [{} for _ in range(devices)] if isinstance(devices, int) else list(devices)
        named = [{"name": f"d{number}", **item} for number, item in enumerate(items)]
        slices: list[dict[str, Any]] = [{"devices": named}] if named else []
        if counters:
            values = {key: {"value": value} for key, value in counters.items()}
            slices.append({"sharedCounters": [{"name": "all", "counters": values}]})
        for number, content in enumerate(slices):
            spec = {
                "driver": DRIVER,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": len(slices)},
                **where,
                **content,
            }
            self.inventory.apply_slice(
                ResourceSlice.from_dict({"metadata": {"name": f"{pool}-{number}"}, "spec": spec})
            )
        return self

    def hold(
        self,
        name: str,
        *devices: str,
        priority: int = 0,
        since: float = 0.0,
        pods: int = 1,
        labels: dict[str, str] | None = None,
        preemptible: bool = True,
        share: dict[str, str] | None = None,
        cpu: tuple[str, int] | None = None,
        running: bool = True,
        ready: bool = True,
        spares: tuple[tuple[Spare, int], ...] = (),
    ) -> World:
        """`devices` are "pool/device"; `share`: consumed capacity of each. `cpu`: (node, amount) of each of its pods."""
        results = []
        for text in devices:
            pool, device = text.split("/")
            amounts = {key: quantity(value) for key, value in (share or {}).items()}
            results.append(
                DeviceResult("r", DRIVER, pool, device, share_id=name if share else None, consumed_capacity=amounts)
            )
        claim = f"claim-{name}"
        self.inventory.use(claim, Allocation(results=tuple(results)))
        refs = tuple(
            PodRef(
                "team", name if pods == 1 else f"{name}-{number}", f"pod-{name}-{number}", labels or {}, priority,
                running=running, ready=ready,
            )
            for number in range(pods)
        )  # fmt: skip
        for ref in refs:
            if cpu is not None:
                self.cpu_of[ref.uid] = cpu
        holder = Holder(("pod", name), name, (claim,), refs, priority, since, len(devices), preemptible, spares)
        self.inventory.refresh()
        self._put(holder)
        return self

    def gang(self, name: str, *members: str, spare: int) -> World:
        """These holders are one gang, of which `spare` may go without the rest."""
        some = [self.holders[member] for member in members]
        room = Spare(Key("team", name), spare)
        for holder in some:
            self.holders.pop(holder.uid)
            self.index.drop(holder.uid)
            if spare:
                self._put(replace(holder, spares=((room, 1),)))
        whole = Holder(
            ("group", name),
            name,
            tuple(claim for holder in some for claim in holder.claims),
            tuple(pod for holder in some for pod in holder.pods),
            max(holder.priority for holder in some),
            min(holder.since for holder in some),
            sum(holder.devices for holder in some),
            all(holder.preemptible for holder in some),
            ((room, spare),) if spare else (),
            bool(spare),
        )
        self._put(whole)
        return self

    def _put(self, holder: Holder) -> None:
        self.holders[holder.uid] = holder
        uses = (use for claim in holder.claims for use in self.inventory.usage.by_claim[claim])
        offers = [self.inventory.offer(use.device) for use in uses]
        self.index.put(holder, [None if offer is None else offer.home for offer in offers])

    def budget(self, name: str, allowed: int, labels: dict[str, str] | None, **more: Any) -> World:
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
        self.budgets.apply(
            {
                "metadata": {"namespace": "team", "name": name, "generation": 1},
                "spec": {"selector": None if labels is None else {"matchLabels": labels}, **more},
                "status": status,
            }
        )
        return self

    def fits(self, node: str, gone: frozenset[str]) -> bool:
        """Is there one CPU for the preemptor?"""
        if node not in self.cpu:
            return True
        taken = sum(amount for uid, (where, amount) in self.cpu_of.items() if where == node and uid not in gone)
        return self.cpu[node] - taken >= 1

    def pods_of(self, claims: Iterable[str]) -> frozenset[str]:
        """UIDs of the pods that hold these claims."""
        wanted = set(claims)
        return frozenset(
            pod.uid for holder in self.holders.values() if wanted & set(holder.claims) for pod in holder.pods
        )

    def choose(
        self,
        problem: Problem,
        *,
        priority: int = 100,
        min_delta: int = 1,
        max_victims: int = 8,
        leaving: Sequence[str] = (),
    ) -> Victims | NoVictims:
        """Checks on the way that the snapshot is left as it was and that the solution is a valid allocation."""
        snapshot = self.inventory.snapshot()
        before = {uid: tuple(uses) for uid, uses in self.inventory.usage.by_claim.items()}
        chosen = choose(
            problem,
            snapshot,
            self.index,
            priority=priority,
            min_delta=min_delta,
            max_victims=max_victims,
            budgets=self.budgets,
            fits=lambda node, gone: self.fits(node, gone | self.pods_of(leaving)),
            leaving=frozenset(leaving),
        )
        assert {uid: tuple(uses) for uid, uses in self.inventory.usage.by_claim.items()} == before
        if isinstance(chosen, Victims):
            gone = [*chosen.claims, *leaving]
            reverts = [snapshot.release(uid) for uid in gone]
            assert validate(snapshot, problem.claims, chosen.solution.allocations, chosen.node) == []
            for revert in reversed(reverts):
                revert()
        return chosen


def ask(
    *requests: int | dict[str, Any],
    constraints: Sequence[dict[str, Any]] = (),
    strategy: Strategy = Strategy.Fragmentation,
    **more: Any,
) -> Problem:
    """One claim with these requests (a number: so many devices of class gpu)."""
    items = []
    for number, request in enumerate(requests):
        detail = {"count": request} if isinstance(request, int) else request
        items.append({"name": f"r{number}", "exactly": {"deviceClassName": "gpu", **detail}})
    claim = ResourceClaim.from_dict(
        {
            "metadata": {"namespace": "vip", "name": "wanted", "uid": "wanted"},
            "spec": {"devices": {"requests": items, "constraints": list(constraints)}},
        }
    )
    return Problem((claim,), strategy=strategy, **more)


def share(memory: str, **attributes: Any) -> dict[str, Any]:
    """A device that several claims can take, each some of its memory."""
    return {"allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}, "attributes": attributes}


def part(units: int, **attributes: Any) -> dict[str, Any]:
    """A partition that takes so many units of its pool's counter set "all"."""
    return {
        "consumesCounters": [{"counterSet": "all", "counters": {"units": {"value": str(units)}}}],
        "attributes": attributes,
    }
