"""What is told of one claim or pod, waiting or not: phases, what it has, and the explanation where it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_operator.explain.explanation import Bounds, Explanation, explanation_dict


@dataclass(frozen=True, slots=True)
class ClaimAccount:
    """One claim. `devices`: {request, driver, pool, device, …}; `used_by`: "pod default/a on n1"; times are RFC 3339 text."""

    name: str
    phase: str
    reason: str = ""
    message: str = ""
    policy: str = ""
    managed: bool = True
    node: str | None = None
    devices: Sequence[Mapping[str, Any]] = ()
    used_by: tuple[str, ...] = ()
    since: str | None = None

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"claim": self.name, "phase": self.phase}
        for name, value in (
            ("reason", self.reason),
            ("message", self.message),
            ("policy", self.policy),
            ("node", self.node),
            ("since", self.since),
        ):
            if value:
                result[name] = value
        if not self.managed:
            result["managed"] = False
        if self.devices:
            result["devices"] = [dict(device) for device in self.devices]
        if self.used_by:
            result["usedBy"] = list(self.used_by)
        return result


@dataclass(frozen=True, slots=True)
class Account:
    """Of one claim or pod, `object`: "pod/default/a". `queue`: as in a ClaimReport, empty where it does not wait."""

    object: str
    phase: str
    summary: str
    claims: tuple[ClaimAccount, ...] = ()
    queue: Mapping[str, Any] = field(default_factory=dict)
    explanation: Explanation | None = None

    def to_dict(self, bounds: Bounds) -> dict[str, Any]:
        """`{"object", "phase", "summary", "requests", "fixes", "claims", …}`."""
        told: dict[str, Any] = {"summary": self.summary, "requests": [], "fixes": []}
        if self.explanation is not None:
            told = {**explanation_dict(self.explanation, bounds), "summary": self.summary}
        result = {"object": self.object, "phase": self.phase, **told}
        result["claims"] = [claim.to_dict() for claim in self.claims]
        if self.queue:
            result["queue"] = dict(self.queue)
        return result
