"""Who holds devices now and could give way: the index of holders that the choice of victims works on, kept up claim by claim.

Members of ClaimGroups go by the group's rules: so many as it can spare one by one, more only with all the others. Who
they are is worked out when victims are looked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from dra_operator.api.meta import Key
from dra_operator.engine.decisions import EvictPod, WriteClaimStatus
from dra_operator.engine.groups import GroupMember, Roll, call_roll
from dra_operator.engine.names import PRIORITY_CLASS
from dra_operator.engine.state import State
from dra_operator.engine.ties import Standing, Tied, being_written, groups_of, make_holder, standing_of, tie
from dra_operator.engine.view import SeenClaim
from dra_operator.preemption.holders import Holder, HolderIndex, Holders, Spare


class Holding:
    """`index` has a holder for each pod with devices (pods that share claims are one), and for each allocated claim nobody uses.

    A gang that can spare nobody is one holder; of others each member is one, and so is the whole gang.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.index = HolderIndex()
        self._holder_of: dict[str, str] = {}
        self._orphans: dict[str, None] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        #: Claims that are out of it for a write, with the object (UID) that is written.
        self._unsettled: dict[str, str] = {}
        #: The UID under which a claim was looked at last.
        self._uids: dict[Key, str] = {}
        #: By claim (UID) the gangs it goes with; gangs whose holders are not up to date, and these holders.
        self._gangs_of: dict[str, tuple[Key, ...]] = {}
        self._changed: dict[Key, None] = {}
        self._gang_holders: dict[Key, tuple[str, ...]] = {}
        #: What policies and priorities said of each claim (UID) when it was looked at.
        self._standings: dict[str, Standing] = {}
        self._terms = 0

    @property
    def unsettled(self) -> bool:
        """Whether holders stay out of it only because a write on them is under way; its end alone is no event."""
        return bool(self._unsettled)

    def settle(self, now: float) -> None:
        """To be called before `index` is read: looks again at those of whom policies or priorities say something else; at those that were
        out of it for a write that is over by now; and at gangs of which a member changed."""
        if self._terms != self._state.term_changes:
            self._terms = self._state.term_changes
            self.refresh(self._judged_anew())
        if self._unsettled:
            written = self._state.writes.get
            over = [uid for uid, waited_for in self._unsettled.items() if written(waited_for) is None]
            known = map(self._state.view.claim_by_uid, over)
            self.refresh([seen.key for seen in known if seen is not None])
        while self._changed:
            self._settle_gang(next(iter(self._changed)), now)

    def _judged_anew(self) -> list[Key]:
        """Allocated claims of which policies and priorities say something else than when they were looked at."""
        state = self._state
        standings: dict[Hashable, Standing] = {}
        found = []
        for key, seen in state.view.claims.items():
            if not seen.allocated:
                continue
            meta = seen.claim.meta
            # All that a policy goes by; claims made from one template are alike in it.
            alike = key.namespace, seen.spec_key, meta.annotations.get(PRIORITY_CLASS), frozenset(meta.labels.items())
            standing = standings.get(alike)
            if standing is None:
                standing = standings[alike] = standing_of(state, seen)
            if self._standings.get(meta.uid) != standing:
                found.append(key)
        return found

    def refresh_groups(self, groups: Iterable[Key]) -> None:
        """Something about these ClaimGroups changed: what they ask for, or who belongs to them."""
        state = self._state
        claims: dict[Key, None] = {}
        for group in groups:
            self._changed[group] = None
            claims.update(dict.fromkeys(state.groups.members(group, "claim")))
            for key in state.groups.members(group, "pod"):
                pod = state.view.pods.get(key)
                claims.update(dict.fromkeys(() if pod is None else state.view.claim_keys(pod)))
        self.refresh(claims)

    def stands(self, holder: Holder, limit: int) -> bool:
        """Is the holder what it was, and may it still go?"""
        now = self.index.get(holder.uid)
        return (
            now is not None
            and now.preemptible
            and now.priority <= limit
            and set(now.claims) == set(holder.claims)
            and {pod.uid for pod in now.pods} == {pod.uid for pod in holder.pods}
        )

    def refresh(self, claims: Iterable[Key]) -> None:
        """Look again at the holders of these claims, and of those they were with before."""
        self._state.inventory.refresh()
        todo: dict[str, None] = {}
        gone: dict[str, None] = {}
        for key in claims:
            seen, before = self._state.view.claims.get(key), self._uids.get(key)
            if before is not None and (seen is None or seen.uid != before):
                del self._uids[key]
                gone[before] = None
            if seen is not None:
                todo[seen.uid] = None
            for uid in (before, None if seen is None else seen.uid):
                todo.update(dict.fromkeys(self._members.get(self._holder_of.get(uid or "", ""), ())))
        for uid in (*todo, *gone):
            self._drop(uid)
            self._orphans.pop(uid, None)
            self._unsettled.pop(uid, None)
        for uid in todo:
            seen = self._state.view.claim_by_uid(uid)
            if seen is None or not seen.allocated:
                continue
            if uid not in self._holder_of:
                self._add(seen)
            if seen.claim.reserved_for and not self._stays(seen, frozenset()):
                self._orphans[uid] = None

    def _drop(self, uid: str) -> None:
        self._standings.pop(uid, None)
        self._changed.update(dict.fromkeys(self._gangs_of.pop(uid, ())))
        holder = self._holder_of.pop(uid, None)
        if holder is not None:
            self.index.drop(holder)
            for member in self._members.pop(holder, ()):
                self._holder_of.pop(member, None)

    def _add(self, seen: SeenClaim) -> None:
        tied = tie(self._state, seen)
        members = tuple(tied.claims)
        for uid in members:
            self._drop(uid)
            self._standings[uid] = standing_of(self._state, tied.claims[uid])
        self._uids.update((member.key, uid) for uid, member in tied.claims.items())
        written = being_written(self._state, tied)
        if written is not None:
            self._unsettled.update(dict.fromkeys(members, written))
        gangs = groups_of(self._state, tied)
        if gangs:
            self._gangs_of.update(dict.fromkeys(members, gangs))
            self._changed.update(dict.fromkeys(gangs))
            return
        holder = min(members)
        self.index.put(*make_holder(self._state, tied, holder))
        self._members[holder] = members
        for uid in members:
            self._holder_of[uid] = holder

    # -- gangs

    def others(self, gang: Key) -> Holders:
        """All but the members of this gang."""
        return _Without(self.index, frozenset(self._gang_holders.get(gang, ())))

    def _settle_gang(self, gang: Key, now: float) -> None:
        """The holders of a gang, and of those that it shares claims with."""
        if self._state.groups.get(gang) is None:
            self._forget_gang(gang)
            return
        rolls: dict[Key, Roll] = {}
        members: list[tuple[Key, Tied]] = []
        todo = [gang]
        while todo:
            key = todo.pop()
            if key in rolls:
                continue
            rolls[key] = call_roll(self._state, key, now)
            for member in rolls[key].placed:
                tied = self._tied(member)
                if tied.claims:
                    members.append((key, tied))
                todo += groups_of(self._state, tied)
        for key in rolls:
            self._forget_gang(key)
        made: list[str] = []
        room = rolls[gang].spare
        if len(rolls) == 1 and room:
            made += self._singles(Spare(gang, room), [tied for _, tied in members])
        whole = Tied()
        for _, tied in members:
            whole.add(tied)
        if whole.claims:
            uid = f"group {gang}"
            spares = ((Spare(gang, room), room),) if made else ()
            self.index.put(*make_holder(self._state, whole, uid, spares=spares, repeats=bool(made)))
            made.append(uid)
        if made:
            self._gang_holders.update(dict.fromkeys(rolls, tuple(made)))

    def _forget_gang(self, gang: Key) -> None:
        self._changed.pop(gang, None)
        for uid in self._gang_holders.pop(gang, ()):
            self.index.drop(uid)

    def _singles(self, spare: Spare, members: list[Tied]) -> list[str]:
        """Members that may go without the rest; those that share claims, together."""
        counts: dict[str, int] = {}
        found: dict[str, Tied] = {}
        for tied in members:
            if not tied.claims:  # one that is ending, and whose claims are free already
                continue
            uid = min(tied.claims)
            counts[uid] = counts.get(uid, 0) + 1
            found[uid] = tied
        made = [uid for uid, count in counts.items() if count <= spare.room]
        for uid in made:
            self.index.put(*make_holder(self._state, found[uid], uid, spares=((spare, counts[uid]),)))
        return made

    def _tied(self, member: GroupMember) -> Tied:
        found = Tied()
        for key in member.claims:
            seen = self._state.view.claims.get(key)
            if seen is not None and seen.allocated:
                found.add(tie(self._state, seen))
        return found

    def abandoned(self, seen: SeenClaim) -> bool:
        """Was the claim used, and is nobody left who uses it?"""
        return bool(seen.claim.reserved_for) and not self._stays(seen, frozenset())

    def leaving(self) -> tuple[frozenset[str], frozenset[str]]:
        """UIDs of claims that are being freed without our doing more, and of the pods that go with them."""
        state = self._state
        claims = dict(self._orphans)
        pods = {pod.meta.uid: None for pod in state.view.leaving_pods()}
        for write in state.writes:
            if write.denied:
                continue
            if isinstance(write.decision, EvictPod) and not write.decision.dry_run:
                pods[write.decision.uid] = None
            elif isinstance(write.decision, WriteClaimStatus) and write.decision.action == "deallocate":
                claims[write.decision.uid] = None
        going = frozenset(pods)
        for uid in going:
            pod = state.view.pod_by_uid(uid)
            for key in () if pod is None else state.view.claim_keys(pod):
                seen = state.view.claims.get(key)
                if seen is not None and seen.allocated and not self._stays(seen, going):
                    claims[seen.uid] = None
        return frozenset(claims), going

    def _stays(self, seen: SeenClaim, going: frozenset[str]) -> bool:
        """Does anybody use the claim who is not about to go? kube-controller-manager frees it otherwise."""
        for consumer in seen.claim.reserved_for:
            pod = self._state.view.pod_by_uid(consumer.uid)
            if consumer.resource != "pods" or (pod is not None and not pod.terminal and consumer.uid not in going):
                return True
        return not seen.claim.reserved_for


@dataclass(frozen=True, slots=True)
class _Without:
    """Holders but some (by UID)."""

    index: HolderIndex
    hidden: frozenset[str]

    def on(self, node: str) -> Sequence[Holder]:
        return [holder for holder in self.index.on(node) if holder.uid not in self.hidden]

    def anywhere(self) -> Sequence[Holder]:
        return [holder for holder in self.index.anywhere() if holder.uid not in self.hidden]
