"""Which AllocationPolicy applies to a claim: the one with the most selectors set, ties by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dra_operator.api.claims import ResourceClaim
from dra_operator.api.policy import AllocationPolicy, AllocationPolicySpec

#: What applies where no policy matches: the defaults of the schema.
DEFAULT_NAME = ""


class PolicyBook:
    """All policies that could be read."""

    def __init__(self) -> None:
        self._policies: dict[str, AllocationPolicy] = {}
        self._default = AllocationPolicySpec()

    def apply(self, policy: AllocationPolicy) -> bool:
        """Returns whether anything in it changed."""
        old = self._policies.get(policy.name)
        self._policies[policy.name] = policy
        return old is None or old.spec != policy.spec

    def remove(self, name: str) -> bool:
        return self._policies.pop(name, None) is not None

    def __iter__(self) -> Iterator[AllocationPolicy]:
        """By name."""
        return iter(sorted(self._policies.values(), key=lambda policy: policy.name))

    def for_claim(self, claim: ResourceClaim, namespace_labels: Mapping[str, str]) -> tuple[str, AllocationPolicySpec]:
        """The name ("" for none) and the terms that apply to the claim."""
        best: AllocationPolicy | None = None
        for policy in self._policies.values():
            if not _matches(policy.spec, claim, namespace_labels):
                continue
            if best is None or _rank(policy) < _rank(best):
                best = policy
        return (DEFAULT_NAME, self._default) if best is None else (best.name, best.spec)


def _rank(policy: AllocationPolicy) -> tuple[int, str]:
    return (-policy.spec.selectors_set, policy.name)


def _matches(spec: AllocationPolicySpec, claim: ResourceClaim, namespace_labels: Mapping[str, str]) -> bool:
    return selects(spec, claim.meta.labels, classes_of(claim) if spec.device_class_names else (), namespace_labels)


def selects(
    spec: AllocationPolicySpec,
    claim_labels: Mapping[str, str],
    class_names: Collection[str],
    namespace_labels: Mapping[str, str],
) -> bool:
    """Does a policy select a claim with these labels that asks for these classes?"""
    if spec.namespace_selector is not None and not spec.namespace_selector.matches(namespace_labels):
        return False
    if spec.claim_selector is not None and not spec.claim_selector.matches(claim_labels):
        return False
    return not spec.device_class_names or any(name in spec.device_class_names for name in class_names)


def classes_of(claim: ResourceClaim) -> frozenset[str]:
    """The classes a claim asks for, alternatives included."""
    return frozenset(detail.device_class_name for request in claim.spec.requests for detail in request.details)
