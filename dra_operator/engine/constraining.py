"""Constraints across claims: what a pod's annotation and a ClaimGroup say, in the terms of the allocator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dra_operator.allocator import UnitConstraint
from dra_operator.api.claims import Allocation, DeviceRequest
from dra_operator.api.core import Pod
from dra_operator.api.errors import InvalidField
from dra_operator.api.group import CONSTRAINTS_ANNOTATION, CrossConstraint, constraints_of
from dra_operator.api.meta import Key
from dra_operator.api.policy import AllocationPolicySpec
from dra_operator.engine.view import SeenClaim, View
from dra_operator.inventory import DeviceId


class InvalidConstraints(Exception):
    """The annotation cannot be followed; the text names the pod, the entry and the repair."""


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A claim by the names it goes by in its pod (a bare claim by its own)."""

    names: tuple[str, ...]
    seen: SeenClaim

    def covered(self, item: CrossConstraint) -> Iterator[str]:
        """The requests of the claim that a constraint covers: "request" or "request/subrequest"."""
        for request in self.seen.claim.spec.requests:
            for text in _ways_to_say(request):
                if not item.requests:
                    if "/" not in text:
                        yield text
                elif any(f"{name}/{text}" in item.requests for name in self.names):
                    yield text

    def devices(self, allocation: Allocation, item: CrossConstraint) -> tuple[DeviceId, ...]:
        """The claim's devices that a constraint covers."""
        covered = set(self.covered(item))
        return tuple(
            DeviceId(result.driver, result.pool, result.device)
            for result in allocation.results
            if result.request in covered or result.request.partition("/")[0] in covered
        )


def _ways_to_say(request: DeviceRequest) -> Iterator[str]:
    yield request.name
    if request.exactly is None:
        for detail in request.details:
            yield f"{request.name}/{detail.name}"


def named_claims(pod: Pod | None, claims: Sequence[SeenClaim]) -> list[NamedClaim]:
    """The claims with their names in the pod."""
    if pod is None:
        return [NamedClaim((seen.key.name,), seen) for seen in claims]
    names: dict[Key, list[str]] = {}
    for state in View.pod_claims(pod):
        if state.key is not None:
            names.setdefault(state.key, []).append(state.name)
    return [NamedClaim(tuple(names.get(seen.key, ())), seen) for seen in claims]


def attributes(item: CrossConstraint, terms: AllocationPolicySpec) -> tuple[str, ...]:
    """The attribute and the names that the policy says mean the same."""
    return attributes_of(item.match_attribute or item.distinct_attribute or "", terms)


def attributes_of(name: str, terms: AllocationPolicySpec) -> tuple[str, ...]:
    """The name first, then the others of its alias, whichever of them it is."""
    alike = [(alias.attribute, *alias.names) for alias in terms.placement.aliases]
    return tuple(dict.fromkeys([name, *(other for names in alike if name in names for other in names)]))


def pod_constraints(pod: Pod | None, claims: Sequence[SeenClaim]) -> tuple[CrossConstraint, ...]:
    """What the pod's annotation asks for. `claims`: all of the pod's. Raises InvalidConstraints."""
    text = None if pod is None else pod.meta.annotations.get(CONSTRAINTS_ANNOTATION)
    if pod is None or not text:
        return ()
    try:
        items = constraints_of(text)
    except InvalidField as error:
        raise InvalidConstraints(f"pod {pod.key}, annotation {CONSTRAINTS_ANNOTATION}: {error}") from None
    named = named_claims(pod, claims)
    known = {
        f"{name}/{way}"
        for claim in named
        for request in claim.seen.claim.spec.requests
        for way in _ways_to_say(request)
        for name in claim.names
    }
    for number, item in enumerate(items):
        for request in item.requests:
            if request not in known:
                raise InvalidConstraints(
                    f"pod {pod.key}, annotation {CONSTRAINTS_ANNOTATION}, entry {number}: there is no request {request!r}; "
                    f"write podClaimName/request, one of {', '.join(sorted(known)[:6]) or '(none)'}"
                )
    return items


def within_unit(
    items: Sequence[CrossConstraint], claims: Sequence[NamedClaim], terms: AllocationPolicySpec
) -> tuple[UnitConstraint, ...]:
    """The constraints over claims that are allocated together, in their order."""
    found = []
    for item in items:
        members = tuple((number, request) for number, claim in enumerate(claims) for request in claim.covered(item))
        if members:
            found.append(
                UnitConstraint(
                    members,
                    attributes(item, terms),
                    distinct=item.match_attribute is None,
                    required=item.mode == "Required",
                )
            )
    return tuple(found)
