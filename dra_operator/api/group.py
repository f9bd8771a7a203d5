"""ClaimGroup (`dra-operator.dev/v1alpha1`) and the constraints across claims, in a group or in a pod's annotation.

Who is a member, and where a group goes, is decided in `queue` and `allocator`. The schema stands a second time in
`crds/claimgroups.yaml`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dra_operator.api.errors import InvalidField, described, each, inside
from dra_operator.api.meta import ObjectMeta, read_object
from dra_operator.api.schema import Attribute, LabelKey, Model, Seconds, Unique

CONSTRAINTS_ANNOTATION = "dra-operator.dev/constraints"

_RequestName = Annotated[str, Field(strict=True, min_length=1, max_length=200)]


#: As in a ResourceClaim.
_MOST_CONSTRAINTS = 32


class CrossConstraint(Model):
    """A constraint over devices of several claims. `requests` are "podClaimName/request"; empty = all."""

    requests: Annotated[tuple[_RequestName, ...], Field(max_length=64), Unique] = ()
    match_attribute: Attribute | None = None
    distinct_attribute: Attribute | None = None
    mode: Literal["Required", "Preferred"] = "Required"

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.match_attribute is None) == (self.distinct_attribute is None):
            raise InvalidField("set exactly one of matchAttribute and distinctAttribute")
        return self


class Topology(Model):
    """`key` is a node label. Same: all members under one value; Spread: each under another; Prefer: few values."""

    key: LabelKey
    mode: Literal["Same", "Spread", "Prefer"] = "Same"


class ClaimGroupSpec(Model):
    """`timeout`: seconds until an incomplete group gives back what it was given."""

    min_members: Annotated[int, Field(strict=True, ge=1, le=4096)]
    topology: Topology | None = None
    constraints: Annotated[tuple[CrossConstraint, ...], Field(max_length=_MOST_CONSTRAINTS)] = ()
    timeout: Seconds = 600.0


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """Namespaced; members carry the label dra-operator.dev/claim-group with its name."""

    meta: ObjectMeta
    spec: ClaimGroupSpec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ClaimGroup:
        """Raises InvalidObject."""
        return read_object(
            "ClaimGroup", data, lambda item, meta: cls(meta, inside("spec", item.get("spec"), ClaimGroupSpec.read))
        )


def constraints_of(annotation: str | None) -> tuple[CrossConstraint, ...]:
    """The value of `CONSTRAINTS_ANNOTATION` of a pod. Raises InvalidField."""
    if not annotation:
        return ()
    try:
        items = json.loads(annotation)
    except (ValueError, RecursionError) as error:
        raise InvalidField(f"is not JSON ({error}): write a list of constraints") from None
    if not isinstance(items, list):
        raise InvalidField(f"expected a JSON list of constraints, found {described(items)}")
    if len(items) > _MOST_CONSTRAINTS:
        raise InvalidField(f"has {len(items)} constraints, at most {_MOST_CONSTRAINTS} are allowed, as in a claim")
    return each("", items, CrossConstraint.read)
