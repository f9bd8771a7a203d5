"""Device and node taints and the tolerations for them (KEP-5055; `resource.k8s.io/v1` DeviceTaint, core/v1 Taint)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

#: Effects that keep a device or node from being chosen; `None` and unknown effects do not (KEP-5055).
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Taint:
        return cls(data["key"], data.get("value") or "", data.get("effect") or "")

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Empty key with operator Exists tolerates every key, empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Toleration:
        return cls(
            data.get("key") or "",
            data.get("operator") or "",
            data.get("value") or "",
            data.get("effect") or "",
            data.get("tolerationSeconds"),
        )

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, text in (
            ("key", self.key),
            ("operator", self.operator),
            ("value", self.value),
            ("effect", self.effect),
        ):
            if text:
                fields[name] = text
        if self.seconds is not None:
            fields["tolerationSeconds"] = self.seconds
        return fields

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        # An empty key matches all keys only together with Exists.
        return self.operator in ("", "Equal") and self.key == taint.key and self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that blocks (NoSchedule, NoExecute) and that no toleration covers."""
    accepted = tuple(tolerations)
    for taint in taints:
        if taint.effect in BLOCKING_EFFECTS and not any(toleration.tolerates(taint) for toleration in accepted):
            return taint
    return None
