"""ClaimGroups in the engine: when their members wait, are placed together, are let go, give back what they have.

Nothing about a group is remembered that a restart would miss: who has devices is read off the claims. A gang is let go only when
enough members have theirs and no allocation of its round is under way, so it never starts half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from dra_operator.api.core import Pod
from dra_operator.api.group import ClaimGroup
from dra_operator.api.meta import Key, format_time
from dra_operator.engine.alarms import Alarms
from dra_operator.engine.decisions import Decision
from dra_operator.engine.groups import GroupMember, Roll, call_roll
from dra_operator.engine.membership import is_early, is_only_for
from dra_operator.engine.names import GROUP_LABEL
from dra_operator.engine.placements import Blocked, Placed
from dra_operator.engine.placing import Placer
from dra_operator.engine.state import State, reference
from dra_operator.engine.view import SeenClaim
from dra_operator.engine.writing import deallocate
from dra_operator.queue.units import Unit, UnitKey

#: Carries on with one member by itself.
Advance = Callable[[GroupMember, float], list[Decision]]


class Gangs:
    """`look` is called for a group whenever anything about it may have changed."""

    def __init__(self, state: State, placer: Placer, alarms: Alarms, advance: Advance) -> None:
        self._state, self._placer, self._alarms, self._advance = state, placer, alarms, advance
        #: Since when a group is incomplete, or has devices for some of its members only.
        self._troubled: dict[Key, float] = {}

    # -- taking in

    def look(self, key: Key, now: float) -> list[Decision]:
        """Bring the group's unit up to date; returns what its members need done."""
        state = self._state
        roll = call_roll(state, key, now)
        state.stale_groups[key] = None
        if roll.due is not None:
            self._alarms.set(roll.due, "group", key)
        decisions = self._carry_on([member for member in roll.placed if not member.gated], now)
        if roll.writing:
            return decisions
        early = self._early(roll)
        if early:
            return decisions + self._give_back_early(roll, early, now)
        self._make_room(roll)
        unfit = self._settle_down(roll, now)
        unit = UnitKey("group", key)
        if unfit and len(roll.placed) - len(unfit) + roll.done < roll.needed:
            return decisions + self._move(roll, unfit, now)
        if roll.established or not any(not member.bound for member in (*roll.placed, *roll.waiting)):
            self._troubled.pop(key, None)
            self._keep_age(state.units.get(unit))
            state.drop_unit(unit)
            return decisions + self._carry_on([*(m for m in roll.placed if m.gated), *roll.waiting], now)
        for member in (*roll.waiting, *(each for each in roll.placed if each.gated)):
            self._keep_age(state.units.get(member.unit))
            state.drop_unit(member.unit)
        return decisions + self._gather(roll, self._unit(roll, now), now)

    def _carry_on(self, members: Iterable[GroupMember], now: float) -> list[Decision]:
        return [decision for member in members for decision in self._advance(member, now)]

    def _make_room(self, roll: Roll) -> None:
        """Members whose claims are not allocated (any more), and are not about to be, take no room."""
        for member in roll.waiting:
            writes = (self._state.writes.get(seen.uid) for seen in self._seen(member))
            if any(write is not None and write.assumed is not None for write in writes):
                continue
            if member.pod is not None and self._state.ledger.vacate(member.pod.meta.uid):
                self._state.made_room()

    def _settle_down(self, roll: Roll, now: float) -> list[GroupMember]:
        """Members that have devices and were not let go yet take their room. Returns those that cannot run there any more."""
        unfit = []
        for member in roll.placed:
            if member.pod is None or not member.gated:
                continue
            allocations = [seen.claim.allocation for seen in self._seen(member) if seen.claim.allocation is not None]
            node, _ = self._placer.nodes_for(member.pod, allocations, now)
            if node is None:
                unfit.append(member)
            else:
                self._state.ledger.occupy(member.pod, node)
        return unfit

    def _move(self, roll: Roll, unfit: list[GroupMember], now: float) -> list[Decision]:
        """Too few could be let go: those that cannot run where they are first get other devices, beside the rest."""
        unit = self._unit(roll, now)
        self._state.pause(unit)
        names = ", ".join(map(str, unfit[:3]))
        self._say(roll, unit, "NodeUnsuitable", f"{names} cannot run where the devices are any more")
        decisions = self._release(unfit, unit, now)
        if decisions and roll.group is not None:
            self._tell(roll.group, "Moving", unit.message)
        return decisions or self._mind_the_time(roll, unit, now)

    def _keep_age(self, unit: Unit | None) -> None:
        """Its claims go on waiting as another unit."""
        if unit is not None and unit.waiting_since is not None:
            since = unit.waiting_since
            claims = unit.claims
            self._state.drop_unit(unit.key)
            for key in claims:
                self._state.waited_before[key] = since

    def _unit(self, roll: Roll, now: float) -> Unit:
        state = self._state
        key = UnitKey("group", roll.key)
        uid = str(roll.key) if roll.group is None else roll.group.meta.uid
        members = roll.waiting or tuple(member for member in roll.placed if member.gated) or roll.placed
        claims = tuple(dict.fromkeys(claim for member in members for claim in member.claims))
        unit = state.units.get(key)
        if unit is None or unit.uid != uid:
            unit = state.new_unit(Unit(key, uid, claims, now))
        unit.claims = claims
        unit.created = min(member.created for member in members)
        if unit.waiting_since is None:
            unit.waiting_since = min([now, *(state.waited_before.get(each, now) for each in claims)])
        return unit

    def _gather(self, roll: Roll, unit: Unit, now: float) -> list[Decision]:
        """Not enough members have their devices: wait for members, or for devices."""
        state = self._state
        if roll.group is None:
            state.pause(unit)
            state.drop_hold(unit.key)
            self._say(roll, unit, "GroupMissing", self._missing(roll.key))
            return self._give_back(roll, unit, now)
        if roll.complete:
            unit.priority = max(member.priority for member in roll.waiting)
            if unit.reason in _OF_MEMBERS and unit.not_before <= now:
                unit.block("", "")
            state.wait(unit, now)
            self._mark(roll)
        else:
            state.pause(unit)
            state.drop_hold(unit.key)
            if unit.not_before <= now:
                self._say(roll, unit, "GroupIncomplete", roll.count)
        return self._mind_the_time(roll, unit, now)

    def _missing(self, key: Key) -> str:
        unreadable = self._state.unreadable.get(("ClaimGroup", key))
        if unreadable is not None:
            return f"ClaimGroup {key} cannot be read: {unreadable}"
        return f"ClaimGroup {key} does not exist: create it, or take the label {GROUP_LABEL} off its members"

    def _say(self, roll: Roll, unit: Unit, reason: str, message: str) -> None:
        unit.impossible = False
        if unit.block(reason, message):
            self._mark(roll)

    def _mark(self, roll: Roll) -> None:
        for member in (*roll.waiting, *roll.placed):
            for key in member.claims:
                self._state.stale_reports[key] = None

    # -- the time it may take

    def _mind_the_time(self, roll: Roll, unit: Unit, now: float) -> list[Decision]:
        assert roll.group is not None
        half = any(not member.bound for member in roll.placed) or any(map(self._half, roll.waiting))
        if roll.complete and not half:
            self._troubled.pop(roll.key, None)
            return []
        since = self._troubled.get(roll.key)
        if since is None:
            waited = unit.waiting_since if not roll.complete and not roll.placed else None
            since = now if waited is None else max(waited, self._state.timed_out.get(roll.key, waited))
            self._troubled[roll.key] = since
        due = since + roll.group.spec.timeout
        if due > now:
            self._alarms.set(due, "group", roll.key)
            return []
        return self._time_out(roll, unit, now)

    def _half(self, member: GroupMember) -> bool:
        """Has it some of its devices, for its pod alone?"""
        return any(self._releasable(seen, member) for seen in self._seen(member))

    def _time_out(self, roll: Roll, unit: Unit, now: float) -> list[Decision]:
        state, group = self._state, roll.group
        assert group is not None
        decisions = self._give_back(roll, unit, now)
        state.drop_hold(unit.key)
        _, terms = state.terms(unit)
        unit.back_off(now, terms.backoff.initial, terms.backoff.max)
        self._troubled[roll.key] = unit.not_before
        state.timed_out[roll.key] = now
        self._alarms.set(unit.not_before, "group", roll.key)
        what = f"has {roll.count}" if not roll.complete else "did not get devices for all its members"
        text = f"{what} for {group.spec.timeout:.0f} s"
        text += f"; gives back what {len(decisions)} claims had" if decisions else ""
        self._say(roll, unit, "GroupTimeout", f"{text}; next attempt {format_time(unit.not_before)}")
        self._tell(group, "GroupTimeout", text)
        return decisions

    def _tell(
        self, group: ClaimGroup, reason: str, note: str, *, kind: Literal["Normal", "Warning"] = "Warning"
    ) -> None:
        subject = reference("ClaimGroup", "dra-operator.dev/v1alpha1", group.meta.key, group.meta.uid)
        self._state.event(subject, kind, reason, "Deallocate", note)

    # -- giving back

    def take_back(self, unit: Unit, now: float) -> list[Decision]:
        """The rest of the gang does not fit: what members that were not let go have is taken back."""
        roll = call_roll(self._state, unit.key.subject, now)
        if roll.established or roll.writing:
            return []
        held = [member for member in (*roll.placed, *roll.waiting) if member.gated]
        decisions = self._release(held, unit, now)
        if decisions and roll.group is not None:
            note = f"devices of {len(decisions)} claims are taken back: the other members do not fit ({unit.message})"
            self._tell(roll.group, "Moving", note)
        return decisions

    def _give_back(self, roll: Roll, unit: Unit, now: float) -> list[Decision]:
        """All that members have who are not bound."""
        members = [member for member in (*roll.placed, *roll.waiting) if not member.bound]
        return self._release(members, unit, now)

    def _release(self, members: Iterable[GroupMember], unit: Unit, now: float) -> list[Decision]:
        state = self._state
        if state.settings.mode != "allocate":
            return []
        return [
            deallocate(state, seen, unit.key, now)
            for member in members
            for seen in self._seen(member)
            if self._releasable(seen, member) and state.writes.get(seen.uid) is None
        ]

    def _seen(self, member: GroupMember) -> list[SeenClaim]:
        claims = self._state.view.claims
        return [claims[key] for key in member.claims if key in claims]

    def _releasable(self, seen: SeenClaim, member: GroupMember) -> bool:
        """Its devices were allocated for this member, or before its members came, and nobody else uses them."""
        if member.pod is not None:
            group = self._state.groups.of("pod", member.pod.key)
            return is_only_for(seen, member.pod) or (group is not None and self._is_early(seen, group))
        unused = not seen.claim.reserved_for and not any(map(_lives, self._state.view.pods_of_claim(seen.key)))
        return seen.managed and seen.allocated and unused

    def _early(self, roll: Roll) -> list[SeenClaim]:
        """Claims of members that got their devices before their pods came, where these must not be let go with them as they are.

        A claim that is a member of the group itself got its devices with the others."""
        state, group = self._state, roll.group
        if state.settings.mode != "allocate":
            return []
        if group is not None and roll.established and group.spec.topology is None and not group.spec.constraints:
            return []
        gated = [member for member in (*roll.placed, *roll.waiting) if member.pod is not None and member.gated]
        found = {seen.key: seen for member in gated for seen in self._seen(member) if self._is_early(seen, roll.key)}
        own = set(state.groups.members(roll.key, "claim")) if found else ()
        return [seen for key, seen in found.items() if key not in own]

    def _is_early(self, seen: SeenClaim, group: Key) -> bool:
        """Had it devices before its pods came, which are all members?"""
        view, groups = self._state.view, self._state.groups
        users = filter(_lives, view.pods_of_claim(seen.key))
        return is_early(seen, view) and all(groups.of("pod", pod.key) == group for pod in users)

    def _give_back_early(self, roll: Roll, early: list[SeenClaim], now: float) -> list[Decision]:
        writes, unit = self._state.writes, UnitKey("group", roll.key)
        free = [seen for seen in early if writes.get(seen.uid) is None]
        if free and roll.group is not None:
            note = (
                f"devices of {len(free)} claims are taken back: they were allocated before the pods of their group came"
            )
            self._tell(roll.group, "Moving", note, kind="Normal")
        return [deallocate(self._state, seen, unit, now) for seen in free]

    # -- being tried

    def attempt(self, unit: Unit, place: Callable[[], Placed | Blocked], now: float) -> Placed | Blocked:
        """Place all members there are; where they do not fit, as many as it takes. `place` tries the unit's claims."""
        outcome = place()
        everyone = unit.claims
        least = call_roll(self._state, unit.key.subject, now).least
        if isinstance(outcome, Placed) or len(least) == len(everyone):
            return outcome
        unit.claims = least
        smaller = place()
        if isinstance(smaller, Blocked):
            unit.claims = everyone
        return smaller


#: Reasons that speak of members, not of devices.
_OF_MEMBERS = frozenset({"GroupIncomplete", "GroupMissing", "GroupTimeout"})


def _lives(pod: Pod) -> bool:
    return not pod.terminal and pod.meta.deleted is None
