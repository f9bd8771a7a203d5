"""Which nodes a pod can run on, from what is bound (and about to be bound) there.

Models what kube-scheduler filters on most: cordons, taints, nodeSelector, required node affinity, resources, host ports. Volumes,
inter-pod affinity and topology spread are not modelled; placements that fail for them are learnt from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_operator.api.core import MOST_CONDITIONS, HostPort, Node, Pod, Resources
from dra_operator.api.taints import Taint, untolerated
from dra_operator.inventory.trail import Trail

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a pod cannot run on a node. `reason` groups nodes in messages; `needs` and `free` are set for resources."""

    reason: str
    resource: str = ""
    needs: int = 0
    free: int = 0

    def text(self) -> str:
        """ "not enough cpu (needs 64, free 8)"."""
        if not self.resource:
            return self.reason
        return f"{self.reason} (needs {amount_text(self.resource, self.needs)}, free {amount_text(self.resource, self.free)})"


@dataclass(frozen=True, slots=True)
class _Occupant:
    node: str
    priority: int
    requests: Resources
    ports: tuple[HostPort, ...]


@dataclass(slots=True)
class _Room:
    """What is taken on one node, summed by priority, so that what lower-priority pods hold can be counted as available."""

    taken: dict[int, dict[str, int]] = field(default_factory=dict)
    occupants: dict[str, _Occupant] = field(default_factory=dict)

    def add(self, uid: str, occupant: _Occupant, sign: int) -> None:
        level = self.taken.setdefault(occupant.priority, {})
        for name, amount in occupant.requests.items():
            level[name] = level.get(name, 0) + sign * amount
        if sign > 0:
            self.occupants[uid] = occupant
        else:
            del self.occupants[uid]
            if not any(level.values()):
                del self.taken[occupant.priority]


class NodeLedger:
    """Nodes and what pods take of them."""

    def __init__(self, ignored_resource: Callable[[str], bool] = lambda name: False) -> None:
        """`ignored_resource`: extended resources that DeviceClasses serve and no node counts (KEP-5004)."""
        self._nodes: dict[str, Node] = {}
        self._rooms: dict[str, _Room] = {}
        self._where: dict[str, str] = {}
        self._ignored = ignored_resource
        #: Nodes of which `room` may be another than before.
        self.changes = Trail[str]()

    @property
    def nodes(self) -> dict[str, Node]:
        return self._nodes

    def apply_node(self, node: Node) -> bool:
        """Returns whether anything changed that fitting looks at (most node updates are heartbeats)."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if old is not None and _fit_fields(old) == _fit_fields(node):
            return False
        self.changes.note(node.name)
        return True

    def remove_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self.changes.note(name)

    def occupy(self, pod: Pod, node: str) -> None:
        """The pod runs on `node`, or will: its allocation was written. Replaces what was known of the pod."""
        uid = pod.meta.uid
        occupant = _Occupant(node, pod.priority, pod.requests, pod.host_ports)
        room = self._rooms.get(self._where.get(uid, ""))
        if room is not None:
            if room.occupants[uid] == occupant:
                return
            self.vacate(uid)
        self._rooms.setdefault(node, _Room()).add(uid, occupant, 1)
        self._where[uid] = node
        self.changes.note(node)

    def vacate(self, uid: str) -> bool:
        """The pod takes nothing any more; returns whether it did before."""
        node = self._where.pop(uid, None)
        if node is None:
            return False
        room = self._rooms[node]
        room.add(uid, room.occupants[uid], -1)
        if not room.occupants:
            del self._rooms[node]
        self.changes.note(node)
        return True

    def place_of(self, uid: str) -> str | None:
        """The node the pod occupies."""
        return self._where.get(uid)

    def uids_on(self, node: str) -> tuple[str, ...]:
        """The pods that occupy the node."""
        room = self._rooms.get(node)
        return () if room is None else tuple(room.occupants)

    def misfit(
        self, pod: Pod, name: str, *, empty: bool = False, without: frozenset[str] = frozenset()
    ) -> Misfit | None:
        """Why `pod` cannot run on the node, None if it can. `empty`: as if nothing else ran there; `without`: UIDs of pods to leave out."""
        node = self._nodes.get(name)
        if node is None:
            return Misfit("node does not exist")
        if pod.conditions > MOST_CONDITIONS:
            return Misfit(
                f"the pod's node selector, required node affinity and tolerations have {pod.conditions} entries, more than the "
                f"{MOST_CONDITIONS} that are looked at: label the nodes that are meant and ask for that label"
            )
        if node.unschedulable and not any(toleration.tolerates(UNSCHEDULABLE) for toleration in pod.tolerations):
            return Misfit("node is cordoned")
        taint = untolerated(node.taints, pod.tolerations)
        if taint is not None:
            return Misfit(f"node has taint {taint} that the pod does not tolerate")
        if not pod.fits_affinity(node):
            return Misfit("node does not match the pod's node selector or affinity")
        room = None if empty else self._rooms.get(name)
        short = self._shortage(pod, node, room, without)
        if short is not None:
            return short
        if room is not None and pod.host_ports and self._port_taken(pod, room, without):
            return Misfit("host port is taken")
        return None

    def together(
        self, pods: Iterable[Pod], name: str, *, empty: bool = False, without: frozenset[str] = frozenset()
    ) -> bool:
        """Can all these pods run on the node at once? As `misfit`, one on top of the other."""
        kept = self._rooms.get(name)
        room = self._rooms[name] = _Room() if kept is None or empty else kept
        added: list[str] = []
        try:
            # Those of lower priority last: they do not stand in the way of the others.
            for pod in sorted(pods, key=lambda pod: -pod.priority):
                if self.misfit(pod, name, without=without) is not None:
                    return False
                if pod.meta.uid not in room.occupants:
                    room.add(pod.meta.uid, _Occupant(name, pod.priority, pod.requests, pod.host_ports), 1)
                    added.append(pod.meta.uid)
            return True
        finally:
            for uid in added:
                room.add(uid, room.occupants[uid], -1)
            if kept is None:
                del self._rooms[name]
            else:
                self._rooms[name] = kept

    def cost(self, pod: Pod, name: str, *, without: frozenset[str] = frozenset()) -> float:
        """How much of the node's allocatable the pod would take from lower-priority pods (0: nothing), as the largest share.
        `without`: UIDs of pods to leave out."""
        node, room = self._nodes.get(name), self._rooms.get(name)
        if node is None or room is None:
            return 0.0
        worst = 0.0
        gone = [room.occupants[uid] for uid in without if uid in room.occupants]
        for resource, needs in pod.requests.items():
            allocatable = node.allocatable.get(resource, 0)
            if allocatable:
                taken = sum(level.get(resource, 0) for level in room.taken.values())
                taken -= sum(occupant.requests.get(resource, 0) for occupant in gone)
                over = needs + taken - allocatable
                worst = max(worst, over / allocatable)
        return worst

    def free(self, name: str, resource: str) -> int:
        """What is left of the node's allocatable, whoever has the rest."""
        node, room = self._nodes.get(name), self._rooms.get(name)
        allocatable = 0 if node is None else node.allocatable.get(resource, 0)
        if room is None:
            return allocatable
        return max(allocatable - sum([level.get(resource, 0) for level in room.taken.values()]), 0)

    def room(self, node: str) -> tuple[int, int]:
        """The CPU (in thousandths) and memory (in bytes) left, whoever has the rest."""
        return self.free(node, "cpu"), self.free(node, "memory")

    def _shortage(self, pod: Pod, node: Node, room: _Room | None, without: frozenset[str]) -> Misfit | None:
        gone = self._not_counted(pod, room, without)
        for resource, needs in pod.requests.items():
            if not needs or self._ignored(resource):
                continue
            free = node.allocatable.get(resource, _DEFAULT_PODS if resource == "pods" else 0)
            if room is not None:
                free -= self._taken(pod, room, resource)
                if gone:
                    free += sum(occupant.requests.get(resource, 0) for occupant in gone)
            if needs > free:
                return Misfit(f"not enough {resource}", resource, needs, max(free, 0))
        return None

    @staticmethod
    def _not_counted(pod: Pod, room: _Room | None, without: frozenset[str]) -> list[_Occupant]:
        """Occupants that `_taken` counts but that do not stand in the way: the pod itself, and those left out."""
        if room is None:
            return []
        gone = [room.occupants[uid] for uid in (without | {pod.meta.uid}) if uid in room.occupants] if without else []
        if not without:
            own = room.occupants.get(pod.meta.uid)
            gone = [] if own is None else [own]
        return [each for each in gone if pod.preemption_policy == "Never" or each.priority >= pod.priority]

    @staticmethod
    def _taken(pod: Pod, room: _Room, resource: str) -> int:
        """What pods hold that this one cannot push aside: all of them with preemptionPolicy Never, else those not below it."""
        taken, every = 0, pod.preemption_policy == "Never"
        for priority, level in room.taken.items():
            if every or priority >= pod.priority:
                taken += level.get(resource, 0)
        return taken

    @staticmethod
    def _port_taken(pod: Pod, room: _Room, without: frozenset[str]) -> bool:
        return any(
            wanted.conflicts(held)
            for uid, occupant in room.occupants.items()
            if uid != pod.meta.uid
            and uid not in without
            and (occupant.priority >= pod.priority or pod.preemption_policy == "Never")
            for held in occupant.ports
            for wanted in pod.host_ports
        )


def beside_devices(pod: Pod) -> tuple[int, int]:
    """What the pod takes of `NodeLedger.room`."""
    return pod.requests.get("cpu", 0), pod.requests.get("memory", 0)


#: kubelet's default; nodes offline often state no pod count.
_DEFAULT_PODS = 110


def _fit_fields(node: Node) -> tuple[object, ...]:
    return (node.unschedulable, node.taints, node.allocatable, node.labels)


def describe_misfits(misfits: Iterable[Misfit]) -> str:
    """ "2 nodes: not enough cpu (needs 64, most free 8); 1 node: node is cordoned", most frequent first."""
    groups: dict[str, list[Misfit]] = {}
    for misfit in misfits:
        groups.setdefault(misfit.reason, []).append(misfit)
    parts = []
    for reason, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        text = f"{len(found)} node{'s' if len(found) > 1 else ''}: {reason}"
        if found[0].resource:
            best = max(misfit.free for misfit in found)
            text += f" (needs {amount_text(found[0].resource, found[0].needs)}, most free {amount_text(found[0].resource, best)})"
        parts.append(text)
    return "; ".join(parts)


def amount_text(resource: str, value: int) -> str:
    """An amount in the units of `Pod.requests`, as a person writes it."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") and value >= 1 << 20:
        return f"{value / (1 << 20):.0f}Mi"
    return str(value)
