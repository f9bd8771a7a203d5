"""A plan: what a unit's claims ask for, checked once and in the shape the search wants.

Depends on claims and classes only, not on devices or nodes, so the claims of one template share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dra_operator.allocator.problem import Bar, Failed, UnitConstraint
from dra_operator.allocator.selection import Filter, Narrowed
from dra_operator.api.claims import MAX_RESULTS, ClaimSpec, DeviceClass, DeviceRequest, RequestDetail, ResourceClaim
from dra_operator.inventory.features import Features
from dra_operator.inventory.kinds import Attribute


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way to satisfy a request: what `exactly` asks for, or one entry of `firstAvailable`.

    `index` numbers the ways of a plan. `count` is meaningless with `all`. `constraints` index the plan's constraints.
    `plain`: its results say nothing but which device.
    """

    index: int
    claim: int
    request: int
    sub: int
    name: str
    detail: RequestDetail
    filter: Filter
    all: bool
    count: int
    admin: bool
    constraints: tuple[int, ...]
    derived: Mapping[str, str]
    plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """One request of one claim, with its ways in order of preference."""

    claim: int
    name: str
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A constraint in force over some ways. `claim` None: across the claims of the unit."""

    claim: int | None
    attributes: tuple[str, ...]
    distinct: bool
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`specs` and `classes` are what it was made from. `preferred` are the constraints that only score."""

    specs: tuple[ClaimSpec, ...]
    requirements: tuple[Requirement, ...]
    ways: tuple[Way, ...]
    rules: tuple[Rule, ...]
    classes: Mapping[str, DeviceClass]
    preferred: tuple[UnitConstraint, ...]
    reads: frozenset[Attribute] | None
    linked: tuple[str, ...]

    @property
    def claims(self) -> int:
        return len(self.specs)


class FilterSource(Protocol):
    """Where a plan gets its filters; equal ones are one object, so that what they found is shared."""

    def filter(self, device_class: DeviceClass, expressions: tuple[str | None, ...]) -> Filter: ...
    def reads(self, expression: str) -> frozenset[Attribute] | None:
        """The attributes that a derived attribute's expression reads; None: any."""


def make_plan(
    claims: Sequence[ResourceClaim],
    constraints: Sequence[UnitConstraint],
    classes: Mapping[str, DeviceClass],
    features: Features,
    source: FilterSource,
    barred: Sequence[tuple[int, Bar]] = (),
) -> Plan | Failed:
    """The plan for these claims, or what is wrong with them: the first error in the in-tree order of checks."""
    builder = _Builder(classes, features, source, barred)
    for index, claim in enumerate(claims):
        failed = builder.add_claim(index, claim)
        if failed is not None:
            return failed
    return builder.finish(tuple(claim.spec for claim in claims), constraints)


class _Builder:
    def __init__(
        self,
        classes: Mapping[str, DeviceClass],
        features: Features,
        source: FilterSource,
        barred: Sequence[tuple[int, Bar]],
    ) -> None:
        self.classes, self.features, self.source, self.barred = classes, features, source, barred
        self.used: dict[str, DeviceClass] = {}
        self.ways: list[Way] = []
        self.requirements: list[Requirement] = []
        self.rules: list[Rule] = []

    def add_claim(self, index: int, claim: ResourceClaim) -> Failed | None:
        fewest = 0
        name = str(claim.key)
        first_rule = len(self.rules)
        covered = [constraint.requests for constraint in claim.spec.constraints]
        names: set[str] = set()
        for request in claim.spec.requests:
            failed = self._check_request(name, request, names)
            if failed is not None:
                return failed
            ways = []
            for sub, detail in enumerate(request.details):
                way_name = request.name if request.exactly is not None else f"{request.name}/{detail.name}"
                failed = self._check_detail(name, way_name, detail)
                if failed is not None:
                    return failed
                rules = tuple(
                    first_rule + number
                    for number, requests in enumerate(covered)
                    if not requests or request.name in requests or way_name in requests
                )
                ways.append(self._way(index, len(self.requirements), sub, way_name, detail, rules))
            least = min((0 if way.all else way.count for way in ways), default=0)
            if fewest + least > MAX_RESULTS:
                return over_limit(name, request.name, least, fewest)
            fewest += least
            self.requirements.append(Requirement(index, request.name, tuple(ways)))
        for number, constraint in enumerate(claim.spec.constraints):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            if attribute is None:
                return Failed(
                    "constraint",
                    f"claim {name}, constraint #{number}: empty constraint (unsupported constraint type?); "
                    "set matchAttribute or distinctAttribute",
                    claim=name,
                    constraint=number,
                )
            distinct = constraint.match_attribute is None
            self.rules.append(Rule(index, (attribute,), distinct, number))
        return None

    def finish(self, specs: tuple[ClaimSpec, ...], constraints: Sequence[UnitConstraint]) -> Plan:
        required = [item for item in constraints if item.required]
        for number, item in enumerate(required):
            self.rules.append(Rule(None, item.attributes, item.distinct, number))
            for position, way in enumerate(self.ways):
                request = way.name.partition("/")[0]
                if not item.members or {(way.claim, request), (way.claim, way.name)} & set(item.members):
                    self.ways[position] = _with_rule(way, len(self.rules) - 1)
        ways = tuple(self.ways)
        requirements = tuple(
            Requirement(item.claim, item.name, tuple(ways[way.index] for way in item.ways))
            for item in self.requirements
        )
        reads: set[Attribute] | None = set()
        for way in ways:
            for found in (way.filter.reads(), *(self.source.reads(text) for text in way.derived.values())):
                reads = None if reads is None or found is None else reads | found
        linked = {name for rule in self.rules for name in rule.attributes}
        linked |= {name for item in constraints for name in item.attributes}
        return Plan(
            specs=specs,
            requirements=requirements,
            ways=ways,
            rules=tuple(self.rules),
            classes=self.used,
            preferred=tuple(item for item in constraints if not item.required),
            reads=None if reads is None else frozenset(reads),
            linked=tuple(sorted(linked)),
        )

    def _way(self, claim: int, request: int, sub: int, name: str, detail: RequestDetail, rules: tuple[int, ...]) -> Way:
        device_class = self.used[detail.device_class_name] = self.classes[detail.device_class_name]
        way = Way(
            index=len(self.ways),
            claim=claim,
            request=request,
            sub=sub,
            name=name,
            detail=detail,
            filter=self._filter(claim, device_class, detail),
            all=detail.allocation_mode == "All",
            count=detail.count,
            admin=detail.admin_access,
            constraints=rules,
            derived={item.name: item.expression for item in detail.derived_attributes},
            plain=not detail.admin_access and not detail.tolerations,
        )
        self.ways.append(way)
        return way

    def _filter(self, claim: int, device_class: DeviceClass, detail: RequestDetail) -> Filter:
        found = self.source.filter(device_class, detail.selectors)
        bars = tuple(bar for index, bar in self.barred if index == claim)
        # With mode All a device left out would not be missed; such requests are for `forbidden`.
        return Narrowed(found, bars) if bars and not detail.admin_access and detail.allocation_mode != "All" else found

    def _check_request(self, claim: str, request: DeviceRequest, names: set[str]) -> Failed | None:
        if request.name in names:
            return Failed(
                "claim",
                f"claim {claim}: two requests are named {request.name}; give each a name of its own",
                claim=claim,
                request=request.name,
            )
        names.add(request.name)
        if request.first_available and not self.features.prioritized_list:
            return Failed(
                "claim",
                f"claim {claim}, request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled; "
                "use `exactly`",
                claim=claim,
                request=request.name,
            )
        if not request.details:
            return Failed(
                "claim",
                f"claim {claim}, request {request.name}: neither `exactly` nor `firstAvailable` is set "
                "(unsupported request type?)",
                claim=claim,
                request=request.name,
            )
        if not self.features.consumable_capacity:
            for detail in request.details:
                if detail.capacity:
                    kind = "request" if request.exactly is not None else "subrequest"
                    return Failed(
                        "claim",
                        f"claim {claim}, {kind} {detail.name}: has capacity requests, but the DRAConsumableCapacity "
                        "feature is disabled; remove `capacity`",
                        claim=claim,
                        request=request.name,
                    )
        return None

    def _check_detail(self, claim: str, name: str, detail: RequestDetail) -> Failed | None:
        where = f"claim {claim}, request {name}"
        if detail.derived_attributes and not self.features.derived_attributes:
            return Failed(
                "claim",
                f"{where}: has derived attributes, but the DRADerivedAttributes feature is disabled",
                claim=claim,
                request=name,
            )
        for index, expression in enumerate(detail.selectors):
            if expression is None:
                return Failed(
                    "selector",
                    f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)",
                    claim=claim,
                    request=name,
                    selector=index,
                )
        if detail.admin_access and not self.features.admin_access:
            return Failed(
                "claim",
                f"{where}: admin access is requested, but the feature is disabled; remove `adminAccess`",
                claim=claim,
                request=name,
            )
        if not detail.device_class_name:
            return Failed(
                "claim",
                f"{where}: missing device class name (unsupported request type?); set `deviceClassName`",
                claim=claim,
                request=name,
            )
        if detail.device_class_name not in self.classes:
            return Failed(
                "class",
                f"{where}: device class {detail.device_class_name} not found; create it or name another one",
                claim=claim,
                request=name,
                device_class=detail.device_class_name,
            )
        if detail.allocation_mode == "ExactCount" and detail.count < 1:
            return Failed(
                "claim", f"{where}: asks for {detail.count} devices; ask for 1 or more", claim=claim, request=name
            )
        if detail.allocation_mode not in ("ExactCount", "All"):
            return Failed(
                "claim",
                f"{where}: unsupported count mode {detail.allocation_mode}; use ExactCount or All",
                claim=claim,
                request=name,
            )
        return None


def over_limit(claim: str, request: str, adding: int, before: int) -> Failed:
    """A claim wants more results than the API can hold."""
    return Failed(
        "limit",
        f"claim {claim}, request {request}: adding {adding} devices exceeds the claim limit of {MAX_RESULTS}, "
        f"with {before} already accounted for; ask for fewer or use several claims",
        claim=claim,
        request=request,
    )


def _with_rule(way: Way, rule: int) -> Way:
    fields = {name: getattr(way, name) for name in Way.__slots__}
    fields["constraints"] = (*way.constraints, rule)
    return Way(**fields)
