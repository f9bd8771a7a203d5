"""Problems for the allocator: what one pod or bare claim may be given, and on which nodes it may run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dra_operator.allocator import Bar, Problem, Strategy, UnitConstraint
from dra_operator.api.claims import Allocation
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim, View
from dra_operator.inventory import DeviceId
from dra_operator.preemption.holds import NOTHING
from dra_operator.queue.nodefit import Misfit

_NOBODY: frozenset[str] = frozenset()

#: By node why the pod cannot run there, None where it can; filled as nodes are asked about.
Misfits = dict[str, Misfit | None]


class Problems:
    """Makes them from the state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def problem(
        self,
        pod: Pod | None,
        todo: Sequence[SeenClaim],
        fixed: list[Allocation],
        avoided: dict[str, str],
        misfits: Misfits,
        *,
        strategy: Strategy,
        forbidden: frozenset[DeviceId] = NOTHING,
        barred: tuple[tuple[int, Bar], ...] = (),
        constraints: tuple[UnitConstraint, ...] = (),
        empty: bool = False,
        without: frozenset[str] = _NOBODY,
        nodes: Sequence[str] | None = None,
    ) -> Problem:
        """`todo` are the claims to be allocated, `fixed` the allocations the pod has already. `empty`: as if nothing else was there;
        `without`: as if these pods (UIDs) were not. `nodes`: only these, in this order.
        """
        own = self.candidates(pod, fixed)
        if own is not None and nodes is not None:
            own = [name for name in nodes if name in own]
        minds = strategy is Strategy.Fragmentation
        return Problem(
            claims=tuple(claim.claim for claim in todo),
            nodes=nodes if own is None else own,
            fits=None if pod is None else self._fits(pod, fixed, avoided, misfits, empty=empty, without=without),
            needs_node=pod is not None,
            strategy=strategy,
            cost=None if pod is None or empty else lambda name: self._state.ledger.cost(pod, name),
            forbidden=forbidden,
            barred=barred,
            serves=None if pod is None or empty or not minds else self._state.expecting.serves(pod, todo),
            constraints=constraints,
            demand=self._state.expecting.demand() if minds else None,
            ignore_usage=empty,
        )

    def candidates(self, pod: Pod | None, fixed: list[Allocation]) -> list[str] | None:
        """The nodes worth asking about; None for all. A DaemonSet's pod or a pinned one names its node itself."""
        names = [name for name in map(self._state.only_node, fixed) if name is not None]
        if pod is not None and (pod.node_name or pod.pinned_to) is not None:
            names.append(str(pod.node_name or pod.pinned_to))
        if not names:
            return None
        return [names[0]] if all(name == names[0] for name in names) and names[0] in self._state.ledger.nodes else []

    def _fits(
        self,
        pod: Pod,
        fixed: list[Allocation],
        avoided: dict[str, str],
        misfits: Misfits,
        *,
        empty: bool,
        without: frozenset[str],
    ) -> Callable[[str], bool]:
        def fits(name: str) -> bool:
            if name not in misfits:
                misfits[name] = self.misfit(pod, name, avoided, empty=empty, without=without)
                node = self._state.ledger.nodes.get(name)
                if misfits[name] is None and node is not None:
                    if not all(self._state.reaches(allocation, node) for allocation in fixed):
                        misfits[name] = Misfit("devices allocated already cannot be reached from it")
            return misfits[name] is None

        return fits

    def misfit(
        self, pod: Pod, name: str, avoided: dict[str, str], *, empty: bool, without: frozenset[str] = _NOBODY
    ) -> Misfit | None:
        if pod.node_name == name:
            return None  # it is there already
        if name in avoided:
            return Misfit(f"avoided for a while ({avoided[name]})")
        return self._state.ledger.misfit(pod, name, empty=empty, without=without)

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
