"""Problems for the allocator: what one pod or bare claim may be given, on which nodes it may run, and what its policy prefers.

Whoever asks for the devices of a unit asks with these, so that victims are chosen for what will be placed, and what is explained is
what is placed. It solves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dra_operator.allocator import Bar, Problem, Strategy, UnitConstraint
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.preferring import NodeWishes, device_wishes
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim, View
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.nodefit import Misfit, beside_devices

_NOBODY: frozenset[str] = frozenset()

#: By node why the pod cannot run there, None where it can; filled as nodes are asked about.
Misfits = dict[str, Misfit | None]


class Problems:
    """Makes them from the state."""

    def __init__(self, state: State) -> None:
        self._state, self._wishes = state, NodeWishes(state)

    def of_unit(
        self,
        pod: Pod | None,
        todo: Sequence[SeenClaim],
        fixed: list[Allocation],
        terms: AllocationPolicySpec,
        *,
        in_gang: bool = False,
        strategy: Strategy | None = None,
        nodes: Sequence[str] | None = None,
        fits: Callable[[str], bool] | None = None,
        forbidden: frozenset[DeviceId] = NOTHING,
        barred: tuple[tuple[int, Bar], ...] = (),
        constraints: tuple[UnitConstraint, ...] = (),
        empty: bool = False,
        without: frozenset[str] = _NOBODY,
    ) -> Problem:
        """`todo` are the claims to be allocated, `fixed` the allocations the pod has already.

        `in_gang`: it is placed with others; which nodes are preferred is then a matter of the gang as a whole. `strategy`: another than
        the policy's. `nodes`: only these, in this order. `fits`: as `fits` says here; None where the caller asks that himself.
        `constraints`: those across the claims that the pod asks for. `empty`: as if nothing else was there; then only whether it fits
        is asked. `without`: as if these pods (UIDs) were not.
        """
        own = self.candidates(pod, fixed)
        if own is not None and nodes is not None:
            own = [name for name in nodes if name in own]
        strategy = strategy or Strategy(terms.placement.strategy)
        minds = strategy is Strategy.Fragmentation
        state = self._state
        if not empty:
            constraints += device_wishes([claim.claim for claim in todo], terms)
        problem = Problem(
            claims=tuple(claim.claim for claim in todo),
            nodes=nodes if own is None else own,
            fits=fits,
            needs_node=pod is not None,
            strategy=strategy,
            cost=None if pod is None or empty else lambda name: state.ledger.cost(pod, name, without=without),
            forbidden=forbidden,
            barred=barred,
            rooms=state.ledger if minds and not empty else None,
            beside=(0, 0) if pod is None else beside_devices(pod),
            constraints=constraints,
            demand=state.expecting.demand() if minds else None,
            ignore_usage=empty,
        )
        return problem if in_gang or empty else self._wishes.onto(problem, pod, terms)

    def candidates(self, pod: Pod | None, fixed: list[Allocation]) -> list[str] | None:
        """The nodes worth asking about; None for all. A DaemonSet's pod or a pinned one names its node itself."""
        names = [name for name in map(self._state.only_node, fixed) if name is not None]
        if pod is not None and (pod.node_name or pod.pinned_to) is not None:
            names.append(str(pod.node_name or pod.pinned_to))
        if not names:
            return None
        return [names[0]] if all(name == names[0] for name in names) and names[0] in self._state.ledger.nodes else []

    def fits(
        self,
        pod: Pod | None,
        fixed: list[Allocation],
        avoided: dict[str, str],
        misfits: Misfits,
        *,
        empty: bool = False,
        without: frozenset[str] = _NOBODY,
    ) -> Callable[[str], bool] | None:
        """May the pod run on a node? Remembered in `misfits`. None for bare claims."""
        if pod is None:
            return None

        def fits(name: str) -> bool:
            if name not in misfits:
                misfits[name] = self.misfit(pod, name, fixed, avoided, empty=empty, without=without)
            return misfits[name] is None

        return fits

    def misfit(
        self,
        pod: Pod,
        name: str,
        fixed: list[Allocation],
        avoided: dict[str, str],
        *,
        empty: bool = False,
        without: frozenset[str] = _NOBODY,
    ) -> Misfit | None:
        """Why the pod cannot run on the node: the node's reasons, or that devices allocated already cannot be reached from it."""
        if pod.node_name != name:  # else it is there already
            if name in avoided:
                return Misfit(f"avoided for a while ({avoided[name]})")
            found = self._state.ledger.misfit(pod, name, empty=empty, without=without)
            if found is not None:
                return found
        node = self._state.ledger.nodes.get(name)
        if node is not None and not all(self._state.reaches(allocation, node) for allocation in fixed):
            return Misfit("devices allocated already cannot be reached from it")
        return None

    @staticmethod
    def signature(
        policy: str, pod: Pod | None, todo: list[SeenClaim], fixed: list[Allocation], avoided: tuple[str, ...]
    ) -> Hashable:
        """Equal for units that must get the same answer while nothing changes; a ReplicaSet's pods are one."""
        specs = tuple(claim.spec_key for claim in todo)
        selectors = tuple(allocation.node_selector for allocation in fixed)
        if pod is None:
            return (specs, policy, selectors)
        return (
            pod.node_name,
            specs,
            policy,
            selectors,
            avoided,
            tuple(sorted(pod.node_selector.items())),
            pod.node_affinity,
            pod.tolerations,
            tuple(sorted(pod.requests.items())),
            pod.host_ports,
            pod.priority,
            pod.preemption_policy,
            _constraints(pod, todo),
        )


def _constraints(pod: Pod, todo: list[SeenClaim]) -> Hashable:
    """The annotation, and what the names in it stand for."""
    text = pod.meta.annotations.get(CONSTRAINTS_ANNOTATION)
    if not text:
        return None
    numbers = {claim.key: number for number, claim in enumerate(todo)}
    names = ((state.name, state.key) for state in View.pod_claims(pod))
    return text, tuple((name, None if key is None else numbers.get(key)) for name, key in names)
