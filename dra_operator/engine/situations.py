"""Situations: what is explained of a unit, made from the state: where it can run, who holds what against it, who comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dra_operator.allocator import UnitConstraint
from dra_operator.api.claims import POD_CLAIM_NAME, Allocation, ResourceClaim
from dra_operator.api.core import Pod
from dra_operator.api.group import CONSTRAINTS_ANNOTATION
from dra_operator.api.meta import Key
from dra_operator.engine.budgeting import Budgeting
from dra_operator.engine.constraining import InvalidConstraints, named_claims, pod_constraints, within_unit
from dra_operator.engine.gangproblems import Party
from dra_operator.engine.holders import Holders
from dra_operator.engine.placing import Placer
from dra_operator.engine.pods import ends_at, has_not_started, tied_to_node, unpinned
from dra_operator.engine.queueing import rank_of
from dra_operator.engine.state import State
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.waivers import joint_waivers, loosened, pod_waiver
from dra_operator.explain.explanation import Edit, counted, listed
from dra_operator.explain.situation import Ahead, Gang, Holding, Kept, Permits, Situation, Waiver
from dra_operator.explain.summary import Blocker
from dra_operator.inventory import DeviceId
from dra_operator.queue.nodefit import Misfit
from dra_operator.queue.units import Unit, order

#: What comes free is not for units that wait for this.
_NOT_SERVED = frozenset({"QuotaExceeded", "WriteRefused"})


@dataclass(frozen=True, slots=True)
class _Forbidden:
    """Devices kept for others, and for whom."""

    devices: frozenset[DeviceId]
    kept: Callable[[DeviceId], Kept | None]


class Situations:
    """Reads the state, changes nothing."""

    def __init__(self, state: State, placer: Placer, budgeting: Budgeting) -> None:
        self._state, self._placer, self._budgeting = state, placer, budgeting
        self._holders = Holders(state)

    def of(self, unit: Unit, now: float, blocker: Blocker | None, focus: Key | None = None) -> Situation:
        """The unit's unallocated claims and what stands in their way. `focus`: one of its pods or claims that was asked about."""
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [found for key in unit.claims if (found := state.view.claims.get(key)) is not None]
        todo = [claim for claim in seen if not claim.allocated]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        forbidden = self._forbidden(unit, pod, now)
        joined = self._joined(unit, pod, now, forbidden)
        if joined is not None:
            parties, gang = joined
            todo = [claim.seen for party in parties for claim in party.todo]
            gang = replace(gang, focus=_focus(parties, focus))
            situation = replace(self._alone(unit, None, todo, [], now, forbidden), gang=gang)
        else:
            situation = self._alone(unit, pod, todo, fixed, now, forbidden)
        before = self._short_of_the_same(unit)
        if before and blocker is not None:
            text = (
                f"{counted(before, 'unit')} before it in the queue wait{'s' if before == 1 else ''} for the same quota"
            )
            blocker = replace(blocker, message=f"{blocker.message}; {text}")
        return replace(
            situation,
            permits=self._permits(unit, todo, now) if self._budgeting.accounts.budgets else None,
            quota_users=lambda: self._quota_users(unit),
            relaxed=self._relaxed(unit, todo, now),
            behind_for_quota=bool(before),
            ahead=lambda limit: self._ahead(unit, now, limit),
            blocker=blocker,
            wrong=self._wrong(unit, pod),
        )

    def _alone(
        self,
        unit: Unit,
        pod: Pod | None,
        todo: list[SeenClaim],
        fixed: list[Allocation],
        now: float,
        forbidden: _Forbidden,
    ) -> Situation:
        """Of one pod, or of bare claims, with what is free to them."""
        state = self._state
        _, terms = state.terms(unit)
        constraints = self._constraints(unit, pod, todo)
        avoided = {} if pod is None else state.avoided_nodes(pod, now)

        def misfit(pod: Pod, node: str, gone: frozenset[str]) -> Misfit | None:
            return self._placer.problems.misfit(pod, node, fixed, avoided, without=gone)

        return Situation(
            problem=self._placer.problems.of_unit(
                pod,
                todo,
                fixed,
                terms,
                forbidden=forbidden.devices,
                constraints=tuple(constraint for constraint, _ in constraints),
            ),
            snapshot=state.inventory.snapshot(),
            elsewhere=self._elsewhere(pod, fixed),
            subject=f"{unit.key.kind} {unit.key.subject}" if pod is None else f"pod {pod.key}",
            origins=tuple(self.origin(claim) for claim in todo),
            priority=unit.priority,
            pod=pod,
            misfit=misfit,
            empty_misfit=lambda other, node: state.ledger.misfit(other, node, empty=True),
            holding=self._holders.of,
            kept=forbidden.kept,
            waivers=tuple(waiver for _, waiver in constraints),
            unmade=state.unmade_classes,
            anew=unpinned(pod) if pod is not None and has_not_started(pod) and not tied_to_node(pod) else None,
        )

    # -- constraints across claims

    def _constraints(self, unit: Unit, pod: Pod | None, todo: list[SeenClaim]) -> list[tuple[UnitConstraint, Waiver]]:
        """Those of the pod's annotation over claims that have no devices yet; none where it cannot be followed (the unit says so)."""
        if pod is None:
            return []
        seen = [found for key in unit.claims if (found := self._state.view.claims.get(key)) is not None]
        seen = [each for each in seen if each in todo or each.allocated] if unit.key.kind == "pod" else todo
        try:
            items = pod_constraints(pod, seen)
        except InvalidConstraints:
            return []
        named = named_claims(pod, todo)
        terms = self._state.terms(unit)[1]
        return [
            (constraint, pod_waiver(pod, items, number))
            for number, item in enumerate(items)
            for constraint in within_unit([item], named, terms)
        ]

    def _wrong(self, unit: Unit, pod: Pod | None) -> Waiver | None:
        seen = [found for key in unit.claims if (found := self._state.view.claims.get(key)) is not None]
        try:
            pod_constraints(pod, seen)
        except InvalidConstraints:
            assert pod is not None
            edit = Edit(f"Pod {pod.key}", f"metadata.annotations[{CONSTRAINTS_ANNOTATION}]", None)
            return Waiver(f"correct the pod's annotation {CONSTRAINTS_ANNOTATION}, or take it off", edit)
        return None

    # -- members

    def ties(self, unit: Unit, pod: Pod | None) -> bool:
        """Does its situation have a gang?"""
        return self._placer.gangs.concerns(unit, pod)

    def _joined(
        self, unit: Unit, pod: Pod | None, now: float, forbidden: _Forbidden
    ) -> tuple[list[Party], Gang] | None:
        """For a group, and for whoever is tied to devices that others, or it itself, have already."""
        state = self._state
        if not self._placer.gangs.concerns(unit, pod):
            return None
        try:
            terms, parties, joint = self._placer.gangs.joint(unit, pod, now, forbidden.devices)
        except InvalidConstraints:
            return None
        if not any(party.todo for party in parties):
            return None
        members = tuple(
            self._alone(unit, party.pod, [claim.seen for claim in party.todo], party.allocations, now, forbidden)
            for party in parties
        )
        roll = terms.roll
        gang = Gang(
            joint=joint,
            members=members,
            together=lambda pods, name, gone: state.ledger.together(pods, name, without=gone),
            room_on_empty=lambda pods, name: state.ledger.together(pods, name, empty=True),
            group="" if terms.group is None else str(terms.group.meta.key),
            missing=str(roll.key) if roll is not None and roll.group is None else "",
            needed=0 if roll is None else roll.needed,
            served=0 if roll is None else len(roll.placed) + roll.done,
            waivers=tuple(joint_waivers(terms, parties, joint)),
        )
        return parties, gang

    # -- budgets and the queue

    def _permits(self, unit: Unit, todo: list[SeenClaim], now: float) -> Permits:
        def permits(
            claims: Sequence[ResourceClaim], allocations: Sequence[Allocation], released: frozenset[str]
        ) -> str | None:
            pairs = [
                (replace(seen, claim=claim), allocation)
                for seen, claim, allocation in zip(todo, claims, allocations, strict=False)
            ]
            refused = self._budgeting.permits(unit, pairs, now, without=released)
            return None if refused is None else refused.message

        return permits

    def _relaxed(
        self, unit: Unit, todo: list[SeenClaim], now: float
    ) -> Callable[[Sequence[ResourceClaim], Sequence[Allocation]], Waiver | None]:
        def relaxed(claims: Sequence[ResourceClaim], allocations: Sequence[Allocation]) -> Waiver | None:
            pairs = list(zip(todo, allocations, strict=False))
            breach = self._budgeting.obstacle(unit, pairs, now) if len(pairs) == len(claims) else None
            return None if breach is None else loosened(breach)

        return relaxed

    def _ahead(self, unit: Unit, now: float, limit: int) -> list[Ahead]:
        """Units that come before it and want some of the same devices."""
        state = self._state
        mine = self._placer.candidates(unit)
        if mine is None:
            return []
        overlaps: dict[tuple[bytes, ...], bool] = {}
        found: list[Ahead] = []
        rank = order(unit)
        before = [other for other in state.waiting.values() if other.key != unit.key and order(other) < rank]
        for other in sorted(before, key=order):
            if len(found) >= limit:
                break
            if other.impossible or other.not_before > now or other.reason in _NOT_SERVED:
                continue
            specs = tuple(state.view.claims[key].spec_key for key in other.claims)
            if specs not in overlaps:
                theirs = self._placer.candidates(other)
                overlaps[specs] = theirs is not None and theirs.overlaps(mine)
            if overlaps[specs]:
                found.append(self._one_ahead(other, now))
        return found

    def _one_ahead(self, unit: Unit, now: float) -> Ahead:
        state = self._state
        pod = state.view.pods.get(unit.key.subject) if unit.key.kind == "pod" else None
        seen = [state.view.claims[key] for key in unit.claims]
        fixed = [claim.claim.allocation for claim in seen if claim.claim.allocation is not None]
        todo = [claim for claim in seen if not claim.allocated]
        hold = state.holds.get(unit.key)
        devices = state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now))
        forbidden = _Forbidden(devices, lambda _: None)
        joined = self._joined(unit, pod, now, forbidden)
        if joined is not None:
            parties, gang = joined
            todo, fixed, pod = [claim.seen for party in parties for claim in party.todo], [], None
        situation = self._alone(unit, pod, todo, fixed, now, forbidden)
        return Ahead(
            situation.problem,
            pod,
            situation.misfit,
            frozenset() if hold is None else hold.devices | hold.wanted,
            None if joined is None else gang,
        )

    def _short_of_the_same(self, unit: Unit) -> int:
        """How many units before it wait for a quota that it waits for, too."""
        if unit.reason != "QuotaExceeded":
            return 0
        rank, scopes = order(unit), set(unit.short_of)
        return sum(
            other.reason == "QuotaExceeded" and order(other) < rank and not scopes.isdisjoint(other.short_of)
            for other in self._state.waiting.values()
        )

    def _quota_users(self, unit: Unit) -> list[Holding]:
        """Those of the unit's namespace who have devices; whether they count to its quota is found out by trying."""
        namespace = unit.key.subject.namespace
        found: dict[tuple[str, ...], Holding] = {}
        for key, seen in self._state.view.claims.items():
            if key.namespace == namespace and seen.allocated and key not in unit.claims:
                holding = self._holders.of(seen.uid)
                if holding is not None:
                    found.setdefault(holding.claims, holding)
        return list(found.values())

    def _elsewhere(self, pod: Pod | None, fixed: list[Allocation]) -> str:
        names = sorted({name for item in fixed if (name := self._state.only_node(item)) is not None})
        if names:
            return f"the devices that it has already are on node {listed(names)}"
        if pod is not None and pod.node_name is not None:
            return f"the pod is bound to node {pod.node_name}"
        pinned = None if pod is None else pod.pinned_to
        return "another node is named" if pinned is None else f"the pod can only run on node {pinned}"

    def origin(self, seen: SeenClaim) -> str:
        """Where the claim's spec comes from: the template it was generated from, else itself."""
        owner = seen.claim.meta.controller
        name = seen.claim.meta.annotations.get(POD_CLAIM_NAME)
        pod = self._state.view.pod_by_uid(owner.uid) if owner is not None and owner.kind == "Pod" else None
        for entry in () if pod is None else pod.claims:
            if entry.name == name and entry.template_name is not None:
                return f"ResourceClaimTemplate {seen.key.namespace}/{entry.template_name}"
        return f"ResourceClaim {seen.key}"

    # -- what is kept for others

    def _forbidden(self, unit: Unit, pod: Pod | None, now: float) -> _Forbidden:
        state = self._state
        devices = state.holds.against(unit.key, rank_of(unit), unit.priority, ends_at(pod, now))
        return self._with_reserved(unit, pod, now, _Forbidden(devices, self._holder_of))

    def _with_reserved(self, unit: Unit, pod: Pod | None, now: float, held: _Forbidden) -> _Forbidden:
        """Reservations keep a number of devices; which ones is shown only where they are what the unit waits for."""
        if unit.reason != "Reserved":
            return held
        by_policy = {device: policy for policy, devices in self._budgeting.kept(unit, pod, now) for device in devices}

        def kept(device: DeviceId) -> Kept | None:
            policy = by_policy.get(device)
            return held.kept(device) if policy is None else Kept(f"policy {policy}", reserved=True)

        return _Forbidden(held.devices | by_policy.keys(), kept)

    def _holder_of(self, device: DeviceId) -> Kept | None:
        key = self._state.holds.holder_of(device)
        if key is None:
            return None
        unit = self._state.units.get(key)
        return Kept(f"{key.kind} {key.subject}", priority=None if unit is None else unit.priority)


def _focus(parties: Sequence[Party], key: Key | None) -> int:
    for number, party in enumerate(parties):
        if (party.pod is not None and party.pod.key == key) or any(claim.seen.key == key for claim in party.todo):
            return number
    return 0
