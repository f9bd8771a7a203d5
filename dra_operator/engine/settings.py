"""The engine's settings: every number it decides by that no policy sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    mode: Literal["allocate", "observe"] = "allocate"
    """observe writes nothing but reports."""

    bare_claim_age: float = 2.0
    """Seconds from a claim's creation until it counts as bare. Pods and their claims are applied together; a claim
    allocated before its pod is seen might be put where the pod cannot run."""

    report_spacing: float = 5.0
    """Seconds between two writes of one report. A pending claim changes often, a person reads it rarely."""

    report_soon: float = 2.0
    """Seconds a claim waits until its report says so. Most claims are allocated before; a report for each would
    double the API requests of a burst."""

    report_lazy: float = 30.0
    """Seconds within which the report of an unhindered claim is written, even while the queue is busy."""

    report_settle: float = 1.0
    """Seconds without a placement, or one on its way to the API server, after which lazy reports are written."""

    report_burst: int = 100
    """Reports in one pass, so that they do not fill the write queue ahead of an allocation."""

    class_report_interval: float = 10.0
    """Seconds between two computations of the class reports: they count every device."""

    retry_unknown: float = 1.0
    """Seconds until a write without an answer is repeated."""

    forget_assumption: float = 30.0
    """Seconds after which a refused write's devices are given free although our watch has shown nothing new."""

    misfit_grace: float = 3.0
    """Seconds an ungated pod is left alone although its node no longer fits by our view: binding may be under way."""

    unbound_grace: float = 10.0
    """Seconds an ungated pod may be Unschedulable for kube-scheduler before its claims are moved: its caches lag
    behind, and it retries by itself."""

    unbound_grace_busy: float = 60.0
    """The same while kube-scheduler has not even tried pods that were ungated seconds ago: a pod that it failed on stands
    behind them in its queue."""

    binding_timeout: float = 600.0
    """Seconds that kube-scheduler waits for devices that must be made ready before it binds their pod (`bindingTimeout` in its
    DynamicResourcesArgs). What it said of the pod before is no verdict on them."""

    missing_grace: float = 10.0
    """Seconds that a pod waits for a claim that is not there until an Event says so: pods are often applied before their claims, and
    kube-controller-manager needs a moment to generate them."""

    lost_after: float = 5.0
    """Seconds that no ResourceSlice names an allocated device until it is Lost: a driver that starts anew may withdraw
    what it publishes for a moment."""

    move_patience: float = 60.0
    """Seconds after a pod that was restarted for its devices is gone until the next one may be, if no successor runs."""

    rejection_grace: float = 2.0
    """Seconds to wait for kube-scheduler's message about a placement that it gave back, before an Event tells without it."""

    avoid_initial: float = 30.0
    """Seconds a node is avoided after a placement on it did not bind; doubles each time, up to `avoid_max`."""

    avoid_max: float = 600.0

    explanation_spacing: float = 0.5
    """Seconds between two explanations with their fixes, which take up to some tenths of a second in large clusters."""

    explanation_burst: int = 5
    """Explanations at once, while nothing is being placed."""

    explanation_spacing_busy: float = 2.0
    """The same while units are being placed: allocations go first."""

    explanation_age: float = 30.0
    """Seconds for which units of one kind are told the same explanation although devices came and went meanwhile."""
