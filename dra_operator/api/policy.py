"""AllocationPolicy (`dra-operator.dev/v1alpha1`): what the administrator wants, as data with its defaults.

Which policy applies to a claim, and what follows from it, is decided in `queue`. The schema stands a second time,
for the API server, in `crds/allocationpolicies.yaml`; a test keeps both equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dra_operator.api.errors import InvalidField, inside
from dra_operator.api.meta import ObjectMeta, read_object
from dra_operator.api.schema import (
    INT32,
    Amount,
    Attribute,
    ClassName,
    Count,
    DeviceSelector,
    Flag,
    Int,
    LabelKey,
    Labels,
    Model,
    Seconds,
    Unique,
)


class Starvation(Model):
    """`after`: seconds of waiting from which a unit is starved; 0 at once. The boost orders the queue only."""

    after: Seconds = 30.0
    boost_per_minute: Count = 0
    max_boost: Count = 0
    hold: Flag = True


class Preemption(Model):
    """`grace_period_seconds` None leaves every pod its own."""

    mode: Literal["Never", "WhenStarved", "Always"] = "WhenStarved"
    max_victims: Annotated[int, Field(strict=True, ge=1, le=1024)] = 8
    min_priority_delta: Annotated[int, Field(strict=True, ge=1, le=INT32)] = 1
    grace_period_seconds: Annotated[int, Field(strict=True, ge=0)] | None = None


class Backoff(Model):
    """Seconds; doubled from `initial` up to `max`."""

    initial: Seconds = 1.0
    max: Seconds = 300.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.initial > self.max:
            raise InvalidField("initial must not be longer than max")
        return self


class Preference(Model):
    """A soft wish: the claim's devices with one value of `match_attribute`, or its nodes with one of `node_label`."""

    match_attribute: Attribute | None = None
    node_label: LabelKey | None = None
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.match_attribute is None) == (self.node_label is None):
            raise InvalidField("set exactly one of matchAttribute and nodeLabel")
        return self


class Alias(Model):
    """Other names under which drivers publish `attribute`."""

    attribute: Attribute
    names: Annotated[tuple[Attribute, ...], Field(min_length=1, max_length=8), Unique]


class Placement(Model):
    strategy: Literal["FirstFit", "Pack", "Spread", "Fragmentation"] = "Fragmentation"
    pin: Literal["Auto", "Never"] = "Auto"
    prefer: Annotated[tuple[Preference, ...], Field(max_length=16)] = ()
    aliases: Annotated[tuple[Alias, ...], Field(max_length=32)] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        for index, alias in enumerate(self.aliases):
            if alias.attribute in seen:
                raise InvalidField(f"{alias.attribute} has an entry already", f"aliases[{index}].attribute")
            seen.add(alias.attribute)
        return self


class Quota(Model):
    """At most `devices`, or at most these sums of capacity, of a class (and of it, of what the selectors match)."""

    device_class_name: ClassName
    selectors: Annotated[tuple[DeviceSelector, ...], Field(max_length=32)] = ()
    devices: Count | None = None
    capacity: Annotated[Mapping[str, Amount], Field(min_length=1, max_length=32)] | None = None
    per: Literal["Namespace", "Policy"] = "Namespace"

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.devices is None) == (self.capacity is None):
            raise InvalidField("set exactly one of devices and capacity")
        return self


class Reservation(Model):
    """So many devices are kept for the policy's claims, less what these use already."""

    device_class_name: ClassName
    selectors: Annotated[tuple[DeviceSelector, ...], Field(max_length=32)] = ()
    devices: Annotated[int, Field(strict=True, ge=1, le=INT32)]


class Provisioning(Model):
    """`after`: seconds of waiting for devices until the pod is shown to node autoscalers (mode Ungate)."""

    mode: Literal["Hold", "Ungate"] = "Hold"
    after: Seconds = 60.0


class AllocationPolicySpec(Model):
    """`AllocationPolicySpec()` is what applies where no policy selects a claim."""

    namespace_selector: Labels | None = None
    claim_selector: Labels | None = None
    device_class_names: Annotated[tuple[ClassName, ...], Field(max_length=256), Unique] = ()
    priority: Annotated[Int, Field(ge=-INT32 - 1, le=INT32)] = 0
    preemptible: Flag = True
    starvation: Starvation = Starvation()
    preemption: Preemption = Preemption()
    queueing: Literal["Strict", "Backfill"] = "Backfill"
    fairness: Literal["FIFO", "FairShare"] = "FIFO"
    weight: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    backoff: Backoff = Backoff()
    placement: Placement = Placement()
    quota: Annotated[tuple[Quota, ...], Field(max_length=64)] = ()
    reserve: Annotated[tuple[Reservation, ...], Field(max_length=64)] = ()
    on_class_change: Literal["Keep", "Reallocate"] = "Keep"
    provisioning: Provisioning = Provisioning()

    @property
    def selectors_set(self) -> int:
        """How many of the three selectors narrow anything: the policy with the most of them applies."""
        narrowing = [selector for selector in (self.namespace_selector, self.claim_selector) if selector is not None]
        return sum(bool(selector.requirements) for selector in narrowing) + bool(self.device_class_names)


@dataclass(frozen=True, slots=True)
class AllocationPolicy:
    """Cluster-scoped."""

    meta: ObjectMeta
    spec: AllocationPolicySpec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AllocationPolicy:
        """Raises InvalidObject."""
        return read_object(
            "AllocationPolicy",
            data,
            lambda item, meta: cls(meta, inside("spec", item.get("spec"), AllocationPolicySpec.read)),
        )

    @property
    def name(self) -> str:
        return self.meta.name
