"""`validate`: does an allocation keep every rule of the API? Written from the API documentation, with none of the search's code.

It reads slices, claims and usage as they are published and recomputes everything: slow and plain on purpose. Sources: the API
documentation of resource.k8s.io/v1 (quoted by type and field) and the KEPs named there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dra_operator.allocator.validating_devices import Published, Taken, published_device
from dra_operator.allocator.validating_values import capacity_fault, constraint_fault
from dra_operator.api.claims import Allocation, DeviceRequest, DeviceResult, RequestDetail, ResourceClaim
from dra_operator.api.taints import BLOCKING_EFFECTS
from dra_operator.cel import CompileError, EvaluationError, bind_device, cached_selector
from dra_operator.inventory import DeviceId, Features, Inventory, Snapshot

_MOST_RESULTS = 32


@dataclass(frozen=True, slots=True)
class Violation:
    """`claim` is "namespace/name"; `message` says which rule is broken and by what."""

    claim: str
    message: str

    def __str__(self) -> str:
        return f"claim {self.claim}: {self.message}"


def validate(
    snapshot: Snapshot, claims: Sequence[ResourceClaim], allocations: Sequence[Allocation], node: str | None
) -> list[Violation]:
    """Every rule these allocations break on the snapshot, empty if none.

    What the claims themselves have in the snapshot is not counted against them. `node` None: a bare claim whose devices are not
    tied to a node; then any node that reaches all devices will do.
    """
    inventory = snapshot.inventory
    if node is None:
        verdicts = []
        for name in inventory.node_names:
            verdicts = _Check(inventory, claims, allocations, name).run()
            if not verdicts:
                return []
        return verdicts or [Violation(str(claim.key), "no node reaches its devices") for claim in claims[:1]]
    return _Check(inventory, claims, allocations, node).run()


class _Check:
    def __init__(
        self, inventory: Inventory, claims: Sequence[ResourceClaim], allocations: Sequence[Allocation], node: str
    ) -> None:
        self.inventory, self.claims, self.allocations = inventory, claims, allocations
        self.features: Features = inventory.features
        self.record = inventory.nodes.get(node)
        self.node = None if self.record is None else self.record.node
        self.node_name = node
        self.own = {claim.meta.uid for claim in claims}
        self.found: list[Violation] = []
        self.devices: dict[DeviceId, Published] = {}

    def run(self) -> list[Violation]:
        if self.node is None:
            return [Violation(str(claim.key), f"node {self.node_name} does not exist") for claim in self.claims[:1]]
        if len(self.claims) != len(self.allocations):
            return [Violation("", f"{len(self.allocations)} allocations for {len(self.claims)} claims")]
        for claim, allocation in zip(self.claims, self.allocations, strict=True):
            self._claim(claim, allocation)
        self._together()
        return self.found

    def _fail(self, claim: ResourceClaim, message: str) -> None:
        self.found.append(Violation(str(claim.key), message))

    # -- one claim -------------------------------------------------------------------------------------------------

    def _claim(self, claim: ResourceClaim, allocation: Allocation) -> None:
        if len(allocation.results) > _MOST_RESULTS:
            self._fail(claim, f"{len(allocation.results)} results, at most {_MOST_RESULTS} are allowed")
        by_request: dict[str, list[DeviceResult]] = {}
        for result in allocation.results:
            by_request.setdefault(result.request, []).append(result)
            device_id = DeviceId(result.driver, result.pool, result.device)
            if device_id not in self.devices:
                device = published_device(self.inventory, device_id, self.node)
                if isinstance(device, str):
                    self._fail(claim, f"device {device_id} {device}")
                else:
                    self.devices[device_id] = device
        known: set[str] = set()
        for request in claim.spec.requests:
            chosen = self._chosen(claim, request, by_request)
            known |= {request.name, *(f"{request.name}/{item.name}" for item in request.first_available)}
            if chosen is not None:
                self._request(claim, *chosen, by_request.get(chosen[1], []))
        for name in by_request:
            if name not in known:
                self._fail(claim, f"a result names request {name}, which the claim does not have")
        self._constraints(claim, allocation)
        self._once(claim, allocation)
        self._selector(claim, allocation)
        self._config(claim, allocation)

    def _chosen(
        self, claim: ResourceClaim, request: DeviceRequest, by_request: dict[str, list[DeviceResult]]
    ) -> tuple[RequestDetail, str] | None:
        """Which detail was satisfied, and the name its results carry."""
        if request.exactly is not None:
            return request.exactly, request.name
        named = {f"{request.name}/{item.name}": item for item in request.first_available}
        used = [name for name in named if name in by_request]
        if len(used) > 1:
            self._fail(claim, f"request {request.name} got devices for several subrequests: {', '.join(used)}")
        if used:
            return named[used[0]], used[0]
        if all(item.count > 0 or item.allocation_mode == "All" for item in named.values()):
            self._fail(claim, f"request {request.name} got no devices")
        return None

    def _request(self, claim: ResourceClaim, detail: RequestDetail, name: str, results: list[DeviceResult]) -> None:
        ids = [DeviceId(item.driver, item.pool, item.device) for item in results]
        if len(set(ids)) != len(ids):
            self._fail(claim, f"request {name} has a device twice")
        if detail.allocation_mode == "All":
            self._all(claim, detail, name, set(ids))
        elif len(results) != detail.count:
            self._fail(claim, f"request {name} asks for {detail.count} devices and got {len(results)}")
        for result, device_id in zip(results, ids, strict=True):
            device = self.devices.get(device_id)
            if device is None:
                continue
            problem = self._mismatch(detail, device)
            if problem is not None:
                self._fail(claim, f"request {name}: device {device_id} {problem}")
            self._result(claim, detail, name, result, device)

    def _all(self, claim: ResourceClaim, detail: RequestDetail, name: str, got: set[DeviceId]) -> None:
        """DeviceAllocationMode All: "all of the matching devices"; at least one must exist."""
        if not got:
            self._fail(claim, f"request {name} asks for all devices and got none")
        assert self.record is not None
        for section in self.record.sections:
            for resource_slice in section.pool.slices.values():
                for device in resource_slice.devices:
                    device_id = DeviceId(resource_slice.driver, resource_slice.pool, device.name)
                    if device_id in got:
                        continue
                    found = published_device(self.inventory, device_id, self.node)
                    if isinstance(found, str) or found.device is not device:
                        continue
                    if self._selected(detail, found) is None and not capacity_fault(
                        detail, found.device, None, self.features
                    ):
                        self._fail(claim, f"request {name} asks for all devices but lacks {device_id}")

    def _selected(self, detail: RequestDetail, device: Published) -> str | None:
        """Why class and request selectors do not select a device; None if they do."""
        if device.device.binding_conditions and not self.features.device_binding_and_status:
            return "has binding conditions, which are not supported"
        device_class = self.inventory.classes.get(detail.device_class_name)
        if device_class is None:
            return f"is of class {detail.device_class_name}, which does not exist"
        bound = bind_device(
            device.id.driver, device.device.attributes, device.device.capacity, device.device.allow_multiple
        )
        for source, expressions in (("class", device_class.selectors), ("request", detail.selectors)):
            for index, expression in enumerate(expressions):
                try:
                    if expression is None or not cached_selector(expression).matches(bound):
                        return f"does not match selector #{index} of the {source}"
                except (CompileError, EvaluationError) as error:
                    return f"fails selector #{index} of the {source}: {error}"
        return None

    def _mismatch(self, detail: RequestDetail, device: Published) -> str | None:
        selected = self._selected(detail, device)
        if selected is not None:
            return selected
        if self.features.device_taints:
            for taint in device.taints:
                if taint.effect in BLOCKING_EFFECTS and not any(item.tolerates(taint) for item in detail.tolerations):
                    return f"has taint {taint}, which the request does not tolerate"
        if device.slice.skip_node_operations:
            assert self.node is not None
            if not self.features.optional_node_operations:
                return "skips node operations, which is not supported"
            if "DRAOptionalNodeOperations" not in self.node.declared_features:
                return f"skips node operations, which node {self.node_name} does not support"
        if device.device.consumes and not self.features.partitionable_devices:
            return "consumes counters, which is not supported"
        return None

    def _result(
        self, claim: ResourceClaim, detail: RequestDetail, name: str, result: DeviceResult, device: Published
    ) -> None:
        """The fields of DeviceRequestAllocationResult that are copies or consequences of request and device."""
        where = f"request {name}: device {device.id}"
        if result.admin_access != detail.admin_access:
            self._fail(claim, f"{where}: adminAccess is {result.admin_access}, the request says {detail.admin_access}")
        if result.tolerations != detail.tolerations:
            self._fail(claim, f"{where}: tolerations are not those of the request")
        if self.features.device_binding_and_status and (
            result.binding_conditions != device.device.binding_conditions
            or result.binding_failure_conditions != device.device.binding_failure_conditions
        ):
            self._fail(claim, f"{where}: binding conditions are not those of the device")
        if result.skip_node_operations != device.slice.skip_node_operations:
            self._fail(claim, f"{where}: skipNodeOperations are not those of the slice")
        shared = device.device.allow_multiple and self.features.consumable_capacity
        if shared != (result.share_id is not None):
            self._fail(claim, f"{where}: a shareID belongs to devices that allow multiple allocations, and only there")
        if result.consumed_capacity and not shared:
            self._fail(claim, f"{where}: consumedCapacity without multiple allocations")
        if self.features.consumable_capacity:
            consumed = result.consumed_capacity if shared else None
            fault = capacity_fault(detail, device.device, consumed, self.features)
            if fault is not None:
                self._fail(claim, f"{where}: {fault}")

    def _once(self, claim: ResourceClaim, allocation: Allocation) -> None:
        """Within a claim a device appears once, unless it allows multiple allocations."""
        seen: set[DeviceId] = set()
        for result in allocation.results:
            device_id = DeviceId(result.driver, result.pool, result.device)
            if device_id in seen and result.share_id is None:
                self._fail(claim, f"device {device_id} appears twice")
            seen.add(device_id)

    def _constraints(self, claim: ResourceClaim, allocation: Allocation) -> None:
        details = {request.name: request for request in claim.spec.requests}
        for index, constraint in enumerate(claim.spec.constraints):
            covered = []
            for result in allocation.results:
                request = result.request.partition("/")[0]
                if (
                    constraint.requests
                    and request not in constraint.requests
                    and (result.request not in constraint.requests)
                ):
                    continue
                device = self.devices.get(DeviceId(result.driver, result.pool, result.device))
                if device is not None and request in details:
                    covered.append((device, _detail(details[request], result.request)))
            fault = constraint_fault(constraint, covered, self.features)
            if fault is not None:
                self._fail(claim, f"constraint #{index}: {fault}")

    def _selector(self, claim: ResourceClaim, allocation: Allocation) -> None:
        """AllocationResult.nodeSelector: where the devices are available; must match the node and nothing they do not reach."""
        assert self.node is not None
        selector = allocation.node_selector
        if selector is not None and not selector.matches(self.node_name, self.node.labels):
            self._fail(claim, f"the node selector does not match node {self.node_name}")
        if selector is not None and selector.only_node() == self.node_name:
            return
        for name, record in self.inventory.nodes.items():
            if record.node is None or name == self.node_name:
                continue
            if selector is not None and not selector.matches(name, record.node.labels):
                continue
            for result in allocation.results:
                device = self.devices.get(DeviceId(result.driver, result.pool, result.device))
                if device is not None and (device.device.binds_to_node or not device.reaches(record.node)):
                    self._fail(claim, f"the node selector allows node {name}, which cannot use device {device.id}")
                    return

    def _config(self, claim: ResourceClaim, allocation: Allocation) -> None:
        names = {name for item in allocation.results for name in (item.request, item.request.partition("/")[0])}
        names |= {request.name for request in claim.spec.requests}
        for item in allocation.config:
            if item.source not in ("FromClass", "FromClaim"):
                self._fail(claim, f"configuration from {item.source!r}")
            if item.requests and not names & set(item.requests):
                self._fail(claim, f"configuration for requests {', '.join(item.requests)}, which got no devices")

    # -- all claims, and what others have --------------------------------------------------------------------------

    def _together(self) -> None:
        taken = Taken(self.inventory, self.own)
        for claim, allocation in zip(self.claims, self.allocations, strict=True):
            for result in allocation.results:
                device = self.devices.get(DeviceId(result.driver, result.pool, result.device))
                if device is None or result.admin_access:
                    continue
                for fault in taken.add(device, result, self.features):
                    self._fail(claim, fault)
        for fault in taken.counter_faults(self.features):
            self._fail(self.claims[0], fault)


def _detail(request: DeviceRequest, name: str) -> RequestDetail:
    if request.exactly is not None:
        return request.exactly
    sub = name.partition("/")[2]
    return next((item for item in request.first_available if item.name == sub), request.first_available[0])


def problems(violations: Iterable[Violation]) -> str:
    """All violations as one text, for a report or a failed test."""
    return "; ".join(map(str, violations))
