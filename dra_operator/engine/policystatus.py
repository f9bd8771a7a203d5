"""The status of AllocationPolicies: one condition, `Valid`, that says which parts mean nothing and are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dra_operator.api.meta import Key
from dra_operator.api.reports import condition
from dra_operator.engine.accounts import Accounts
from dra_operator.engine.decisions import Decision, Outcome, WritePolicyStatus
from dra_operator.engine.state import State
from dra_operator.engine.view import resource_version

KIND = "AllocationPolicy"
#: The API server takes no longer message.
_LONGEST = 32_768
#: Seconds until a failed write is tried again; doubled each time, up to the second.
_RETRY, _RETRY_MAX = 5.0, 300.0


@dataclass(slots=True)
class _Policy:
    """A policy as the API server has it, and the write under way. `due`: when a write is, None while nothing is to be said."""

    raw: dict[str, Any]
    number: int
    sent: int | None = None
    due: float | None = None
    failures: int = 0
    written_at: float = float("-inf")


class PolicyReporter:
    """Compares what the accounts found wrong with what the policies' status says."""

    def __init__(self, state: State, accounts: Accounts) -> None:
        self._state, self._accounts = state, accounts
        self._policies: dict[str, _Policy] = {}
        self._by_id: dict[int, str] = {}
        self._told = -1
        self._stale: dict[str, None] = {}

    def apply(self, raw: dict[str, Any]) -> None:
        """The policy as the watch shows it, readable or not."""
        name, number = str((raw.get("metadata") or {}).get("name") or ""), resource_version(raw)
        known = self._policies.get(name)
        if known is None:
            self._policies[name] = _Policy(raw, number)
        elif known.number <= number:
            known.raw, known.number = raw, number
        self._stale[name] = None

    def write(self, now: float) -> list[Decision]:
        """The statuses that are due."""
        self._accounts.follow()
        if self._told != self._accounts.version:
            self._told = self._accounts.version
            self._stale.update(dict.fromkeys(self._policies))
        decisions: list[Decision] = []
        for name in list(self._stale):
            policy = self._policies.get(name)
            if policy is None or not self._exists(name):
                self._policies.pop(name, None)
                del self._stale[name]
                continue
            if policy.sent is not None:
                continue
            status = self._status(name, policy, now)
            if _same(status, policy.raw.get("status") or {}):
                policy.due = None
                del self._stale[name]
                continue
            settings = self._state.settings
            if policy.due is None:
                # What comes and goes at the start, before all is published, is not worth telling.
                policy.due = max(now + settings.report_soon, policy.written_at + settings.report_spacing)
            if policy.due <= now:
                decisions.append(self._send(name, policy, status, now))
        return decisions

    def next_wake(self) -> float | None:
        waiting = [self._policies[name] for name in self._stale if name in self._policies]
        return min((each.due for each in waiting if each.due is not None and each.sent is None), default=None)

    def settle(self, outcome: Outcome, now: float) -> bool:
        """Take an answer in; False if the decision was no policy's status."""
        name = self._by_id.pop(outcome.decision.id, None)
        if name is None:
            return False
        policy = self._policies.get(name)
        if policy is None or policy.sent != outcome.decision.id:
            return True
        policy.sent, policy.due = None, None
        self._stale[name] = None
        if outcome.ok:
            policy.failures = 0
            if outcome.object is not None:
                self.apply(outcome.object)
        else:
            policy.due = now + min(_RETRY_MAX, _RETRY * 2.0 ** min(policy.failures, 10))
            policy.failures += 1
        return True

    def _exists(self, name: str) -> bool:
        return name in self._accounts.flaws or (KIND, Key("", name)) in self._state.unreadable

    def _send(self, name: str, policy: _Policy, status: dict[str, Any], now: float) -> Decision:
        policy.sent, policy.written_at, policy.due = self._state.writes.next_id(), now, None
        self._by_id[policy.sent] = name
        body = {**policy.raw, "apiVersion": "dra-operator.dev/v1alpha1", "kind": KIND, "status": status}
        return WritePolicyStatus(policy.sent, name, body)

    def _status(self, name: str, policy: _Policy, now: float) -> dict[str, Any]:
        """The status with our condition in it; conditions of others stay."""
        status = policy.raw.get("status") or {}
        conditions = status.get("conditions") or []
        reason, message = self._verdict(name)
        ours: dict[str, Any] = {
            **condition("Valid", not message, reason, message[:_LONGEST], now=now, previous=conditions),
            "observedGeneration": (policy.raw.get("metadata") or {}).get("generation") or 0,
        }
        return {**status, "conditions": [*(item for item in conditions if item.get("type") != "Valid"), ours]}

    def _verdict(self, name: str) -> tuple[str, str]:
        unreadable = self._state.unreadable.get((KIND, Key("", name)))
        if unreadable is not None:
            return "Unreadable", f"the policy is ignored: {unreadable}"
        flaws = self._accounts.flaws.get(name, ())
        if not flaws:
            return "Accepted", ""
        return flaws[0].reason, "; ".join(map(str, flaws))


def _same(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Equal but for the times of transitions."""
    return _timeless(new) == _timeless(old)


def _timeless(status: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = status.get("conditions") or []
    return sorted(
        ({name: value for name, value in item.items() if name != "lastTransitionTime"} for item in conditions),
        key=lambda item: str(item.get("type")),
    )
