"""NetworkDeviceClasses: the DeviceClass of the same name that each owns, and its status.

A DeviceClass that somebody else made is never touched (Conflict). One of ours is kept as the NetworkDeviceClass says; where that cannot
be compiled it stays as it was (Invalid). It is deleted by the garbage collector, with its owner, whether an operator runs or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.errors import InvalidObject
from dra_operator.api.meta import Key
from dra_operator.api.networkclass import NetworkDeviceClass
from dra_operator.api.reports import API_VERSION, condition
from dra_operator.cel import EvaluationError, bind_device, cached_selector
from dra_operator.engine.decisions import Decision, Outcome, WriteDeviceClass, WriteNetworkStatus
from dra_operator.engine.networkdrivers import InvalidNetworkClass, Term, class_spec, drivers_of, terms_of
from dra_operator.engine.state import State, reference
from dra_operator.engine.view import resource_version

KIND = "NetworkDeviceClass"
#: Seconds until a failed write is tried again; doubled each time, up to the second.
_RETRY, _RETRY_MAX = 2.0, 300.0
_LONGEST = 1024


@dataclass(slots=True)
class _Network:
    """One as the API server has it. `trouble`: what the API server said to the DeviceClass it should have."""

    raw: dict[str, Any]
    number: int
    item: NetworkDeviceClass | None = None
    error: str = ""
    trouble: str = ""
    class_sent: int | None = None
    status_sent: int | None = None
    class_due: float = float("-inf")
    status_due: float | None = None
    failures: int = 0
    written_at: float = float("-inf")
    told: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class _Verdict:
    phase: str
    reason: str
    message: str


@dataclass(slots=True)
class NetworkClasses:
    """`apply` and `remove` what the watches show, `write` what is due."""

    state: State
    _networks: dict[str, _Network] = field(default_factory=dict)
    _classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    _by_id: dict[int, str] = field(default_factory=dict)
    _stale: dict[str, None] = field(default_factory=dict)
    _counted: tuple[int, int] = (-1, -1)
    _counts: dict[str, tuple[int, str]] = field(default_factory=dict)
    _count_due: float = float("-inf")

    # -- what the watches show

    def apply(self, raw: dict[str, Any]) -> None:
        """One that cannot be read is Invalid, which its status says."""
        name, number = str((raw.get("metadata") or {}).get("name") or ""), resource_version(raw)
        known = self._networks.get(name)
        if known is None or (known.raw.get("metadata") or {}).get("uid") != (raw.get("metadata") or {}).get("uid"):
            known = self._networks[name] = _Network(raw, -1)
        if number < known.number:
            return
        if known.raw.get("spec") != raw.get(
            "spec"
        ):  # anything else, as our own status, changes nothing in what was refused
            known.trouble, known.class_due = "", float("-inf")
        known.raw, known.number = raw, number
        self._stale[name] = None
        self._counts.pop(name, None)
        try:
            known.item, known.error = NetworkDeviceClass.from_dict(raw), ""
        except InvalidObject as invalid:
            known.item, known.error = None, str(invalid)

        self._expect(name)

    def remove(self, key: Key) -> None:
        self._networks.pop(key.name, None)
        self._expect(key.name)

    def _expect(self, name: str) -> None:
        """Will there be a DeviceClass of the name? Claims for it then wait and are not impossible. If not, they are told why."""
        network, coming, unmade = self._networks.get(name), self.state.coming_classes, self.state.unmade_classes
        verdict = None if network is None or name in self._classes else self._judge(name, network)[0]
        pending = verdict is not None and verdict.reason == "Pending"
        (coming.add if pending else coming.discard)(name)
        before = unmade.pop(name, "")
        if verdict is not None and not pending:
            unmade[name] = f"{verdict.phase} ({verdict.reason}): {verdict.message[:_LONGEST]}"
        if unmade.get(name, "") != before:
            self.state.relaid()

    def apply_class(self, raw: dict[str, Any]) -> None:
        """A DeviceClass, whoever made it."""
        name = str((raw.get("metadata") or {}).get("name") or "")
        if resource_version(raw) >= resource_version(self._classes.get(name, {})):
            self._classes[name] = raw
        self._stale[name] = None
        self._expect(name)

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._stale[name] = None
        self._expect(name)

    # -- what is due

    def write(self, now: float) -> list[Decision]:
        """DeviceClasses to make or to put right, and statuses."""
        if self._networks:
            self._count(now)
        decisions: list[Decision] = []
        for name in list(self._stale):
            network = self._networks.get(name)
            if network is None:
                del self._stale[name]
                continue
            verdict, wanted = self._judge(name, network)
            self._announce(name, network, verdict)
            waits = network.class_sent is not None or network.status_sent is not None
            if wanted is not None and network.class_sent is None:
                if network.class_due <= now:
                    decisions.append(self._send_class(name, network, wanted))
                waits = True
            status = self._status(name, network, verdict, now)
            if status == _known_status(network):
                network.status_due = None
            elif network.status_sent is None:
                waits = True
                settings = self.state.settings
                if network.status_due is None:
                    network.status_due = max(now, network.written_at + settings.report_spacing)
                # What is about to be written needs no status of its own; what was refused does.
                if network.status_due <= now and (wanted is None or network.trouble):
                    decisions.append(self._send_status(name, network, status, now))
            if not waits:
                del self._stale[name]
        return decisions

    def next_wake(self) -> float | None:
        times = [self._count_due] if self._networks and self._is_count_stale() else []
        for name in self._stale:
            network = self._networks.get(name)
            if network is not None and network.class_sent is None and network.status_sent is None:
                due = network.class_due if network.class_due > float("-inf") else network.status_due
                first = min if network.trouble else max
                times += [] if due is None else [first(due, network.status_due or due)]
        return min(times, default=None)

    def settle(self, outcome: Outcome, now: float) -> bool:
        """Take an answer in; False if the decision was none of these."""
        name = self._by_id.pop(outcome.decision.id, None)
        if name is None:
            return False
        self._stale[name] = None
        network = self._networks.get(name)
        if network is None:
            return True
        if network.class_sent == outcome.decision.id:
            network.class_sent = None
            self._class_answered(network, outcome, now)
        elif network.status_sent == outcome.decision.id:
            network.status_sent = None
            if not outcome.ok:
                network.status_due = now + self._retry(network)
            elif outcome.object is not None:
                network.failures = network.failures if network.trouble else 0
                self._take_status(name, outcome.object)
        return True

    def _take_status(self, name: str, raw: dict[str, Any]) -> None:
        network = self._networks[name]
        if resource_version(raw) >= network.number:
            network.raw, network.number = raw, resource_version(raw)

    def _class_answered(self, network: _Network, outcome: Outcome, now: float) -> None:
        if outcome.ok:
            network.trouble, network.failures = "", 0
            if outcome.object is not None:
                self.apply_class(outcome.object)
            return
        if outcome.status in (400, 403, 422):
            network.trouble = outcome.message or outcome.reason
            self._expect(str((network.raw.get("metadata") or {}).get("name") or ""))
            self.state.relaid()
        # After a conflict the watch shows what is there now.
        network.class_due = now + self._retry(network)

    @staticmethod
    def _retry(network: _Network) -> float:
        network.failures += 1
        return min(_RETRY_MAX, _RETRY * 2.0 ** min(network.failures - 1, 10))

    # -- the judgement

    def _judge(self, name: str, network: _Network) -> tuple[_Verdict, dict[str, Any] | None]:
        """How it stands, and the DeviceClass to write, if it is not as it should be."""
        if network.item is None:
            return _Verdict("Invalid", "Unreadable", f"it cannot be read: {network.error}"), None
        there = self._classes.get(name)
        if there is not None and not _owned(there, network.item.meta.uid):
            return _Verdict("Conflict", "NotOurs", _whose(there)), None
        try:
            spec = class_spec(network.item.spec)
        except InvalidNetworkClass as invalid:
            kept = "" if there is None else "; its DeviceClass stays as it was"
            return _Verdict("Invalid", "DoesNotCompile", f"{invalid}{kept}"), None
        if there is not None and _same_spec(there.get("spec") or {}, spec):
            count, hint = self._counts.get(name, (0, ""))
            return _Verdict("Ready", "Compiled" if count else "NoDevices", "" if count else hint), None
        body = _class_body(network.item, spec, there)
        if network.trouble:
            text = f"the API server refuses the DeviceClass: {network.trouble}"
            return _Verdict("Invalid", "Refused", text), body
        return _Verdict("Invalid" if there is None else "Ready", "Pending", "its DeviceClass is being written"), body

    def _announce(self, name: str, network: _Network, verdict: _Verdict) -> None:
        if verdict.phase == "Ready" or verdict.reason == "Pending":
            network.told = ("", "") if verdict.phase == "Ready" else network.told
            return
        if network.told != (verdict.phase, verdict.message):
            network.told = verdict.phase, verdict.message
            uid = str((network.raw.get("metadata") or {}).get("uid") or "")
            subject = reference(KIND, API_VERSION, Key("", name), uid)
            self.state.event(subject, "Warning", verdict.phase, "Compile", verdict.message)

    def _status(self, name: str, network: _Network, verdict: _Verdict, now: float) -> dict[str, Any]:
        metadata = network.raw.get("metadata") or {}
        ready = condition(
            "Ready", verdict.phase == "Ready", verdict.reason, verdict.message[:_LONGEST], now=now,
            previous=(network.raw.get("status") or {}).get("conditions") or (),
        )  # fmt: skip
        generation = metadata.get("generation") or 0
        status: dict[str, Any] = {
            "phase": verdict.phase,
            "observedGeneration": generation,
            "conditions": [{**ready, "observedGeneration": generation}],
        }
        if verdict.message:
            status["message"] = verdict.message[:_LONGEST]
        if verdict.phase == "Ready":
            status["matchingDevices"] = self._counts.get(name, (0, ""))[0]
        return status

    # -- counting

    def _is_count_stale(self) -> bool:
        inventory = self.state.inventory
        return self._counted != (inventory.published, inventory.class_version) or len(self._counts) < len(
            self._networks
        )

    def _count(self, now: float) -> None:
        """At intervals, like the class reports: it asks about every device of the drivers."""
        self.state.inventory.refresh()
        if not self._is_count_stale() or (now < self._count_due and self._networks.keys() <= self._counts.keys()):
            return
        inventory = self.state.inventory
        self._counted = inventory.published, inventory.class_version
        self._count_due = now + self.state.settings.class_report_interval
        counts = {name: self._matching(network) for name, network in self._networks.items()}
        for name in counts:
            if counts[name] != self._counts.get(name):
                self._stale[name] = None
        self._counts = counts

    def _matching(self, network: _Network) -> tuple[int, str]:
        """How many published devices match, and if none does, which field rejects how many."""
        if network.item is None:
            return 0, ""
        try:
            terms = terms_of(network.item.spec)
        except InvalidNetworkClass:
            return 0, ""
        drivers = drivers_of(network.item.spec)
        seen = matching = 0
        rejected = dict.fromkeys([term.word for term in terms], 0)
        for offer in self.state.inventory.offers():
            if offer.id.driver not in drivers:
                continue
            device = offer.device
            bound = bind_device(offer.id.driver, device.attributes, device.capacity, device.allow_multiple)
            seen += 1
            failing = [term.word for term in terms if not _holds(term, bound)]
            matching += not failing
            for word in failing:
                rejected[word] += 1
        if matching:
            return matching, ""
        if not seen:
            return 0, f"no device of {' or '.join(drivers)} is published"
        some = ", ".join(f"{word} {count}" for word, count in rejected.items() if count)
        return 0, f"none of the {seen} devices of {' and '.join(drivers)} matches; rejected by {some}"

    # -- writes

    def _send_class(self, name: str, network: _Network, body: dict[str, Any]) -> Decision:
        network.class_sent = self.state.writes.next_id()
        self._by_id[network.class_sent] = name
        return WriteDeviceClass(network.class_sent, name, body)

    def _send_status(self, name: str, network: _Network, status: dict[str, Any], now: float) -> Decision:
        network.status_sent, network.written_at, network.status_due = self.state.writes.next_id(), now, None
        self._by_id[network.status_sent] = name
        body = {**network.raw, "apiVersion": API_VERSION, "kind": KIND, "status": status}
        return WriteNetworkStatus(network.status_sent, name, body)


def _holds(term: Term, device: Any) -> bool:
    try:
        return cached_selector(term.expression).matches(device)
    except EvaluationError:
        return False


def _owned(there: dict[str, Any], uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in there["metadata"].get("ownerReferences") or ())


def _whose(there: dict[str, Any]) -> str:
    name = there["metadata"]["name"]
    for owner in there["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == KIND:
            return f"DeviceClass {name} belongs to an earlier {KIND} of this name; it is being collected"
    return f"there is a DeviceClass {name} already, which somebody else made; delete it, or use another name"


def _same_spec(there: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all((there.get(name) or []) == (wanted.get(name) or []) for name in ("selectors", "config"))


def _class_body(item: NetworkDeviceClass, spec: dict[str, Any], there: dict[str, Any] | None) -> dict[str, Any]:
    """The DeviceClass to create, or the one there with our part put right."""
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": item.meta.name, "uid": item.meta.uid, "controller": True}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    if there is None:
        return {**head, "metadata": {"name": item.meta.name, "ownerReferences": [owner]}, "spec": spec}
    rest = {name: value for name, value in (there.get("spec") or {}).items() if name not in ("selectors", "config")}
    return {**there, **head, "spec": {**rest, **spec}}


def _known_status(network: _Network) -> dict[str, Any]:
    return dict(network.raw.get("status") or {})
