"""What is there, in the form in which a scenario file expects it, whichever cluster it plays on."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from tests.engine.stage import Object
from tests.scenarios.story import Check


class Sight(Protocol):
    """The cluster as one scenario sees it. `objects` gives Pods, ResourceClaims, ClaimReports or AllocationPolicies."""

    def objects(self, kind: str) -> list[Object]: ...
    def evicted(self) -> list[str]: ...
    def events(self, reason: str) -> int: ...
    def tries(self, pod: str) -> int: ...


def seen(sight: Sight, check: Check) -> dict[str, Any]:
    """Everything that the check expects, as it is; a text expected somewhere in a summary is echoed if it is there."""
    expected = check.expected
    looking = _Looking(sight)
    return {field: getattr(looking, f"see_{field}")(wanted) for field, wanted in expected.items()}


class _Looking:
    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def _pods(self) -> dict[str, Object]:
        there = (item for item in self._sight.objects("Pod") if not item["metadata"].get("deletionTimestamp"))
        return {item["metadata"]["name"]: item for item in there}

    def _status(self, claim: str) -> Object:
        """The status of its report; empty without one."""
        named = (item for item in self._sight.objects("ClaimReport") if item["metadata"]["name"] == claim)
        status: Object = next(named, {}).get("status", {})
        return status

    def see_pods(self, wanted: dict[str, str]) -> dict[str, str]:
        there = self._pods()
        done = ("Succeeded", "Failed")
        return {
            name: "gone"
            if name not in there or there[name].get("status", {}).get("phase") in done
            else there[name]["spec"].get("nodeName") or "waiting"
            for name in wanted
        }

    def see_running(self, wanted: dict[str, int]) -> dict[str, int]:
        bound = Counter(
            item["metadata"]["labels"].get("app") for item in self._pods().values() if item["spec"].get("nodeName")
        )
        return {app: bound[app] for app in wanted}

    def see_pods_on(self, wanted: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """How many pods of an app are on each node."""
        places = Counter(
            (item["metadata"]["labels"].get("app"), item["spec"].get("nodeName")) for item in self._pods().values()
        )
        return {app: {node: places[app, node] for node in nodes} for app, nodes in wanted.items()}

    def see_claims(self, wanted: dict[str, str]) -> dict[str, str]:
        return {name: self._status(name).get("phase", "no report") for name in wanted}

    def see_phases(self, wanted: dict[str, int]) -> dict[str, int]:
        phases = Counter(item["status"].get("phase") for item in self._sight.objects("ClaimReport"))
        return {phase: phases[phase] for phase in wanted}

    def see_why(self, wanted: dict[str, str]) -> dict[str, str]:
        found = {}
        for name, text in wanted.items():
            summary = self._status(name).get("explanation", {}).get("summary", "")
            found[name] = text if text in summary else summary
        return found

    def see_reason(self, wanted: dict[str, str]) -> dict[str, Any]:
        return {name: self._status(name).get("reason") for name in wanted}

    def see_policy(self, wanted: dict[str, str]) -> dict[str, Any]:
        return {name: self._status(name).get("policy") for name in wanted}

    def see_position(self, wanted: dict[str, int]) -> dict[str, Any]:
        return {name: self._status(name).get("queue", {}).get("position") for name in wanted}

    def see_effective(self, wanted: dict[str, int]) -> dict[str, Any]:
        return {name: self._status(name).get("queue", {}).get("effectivePriority") for name in wanted}

    def see_hold(self, wanted: dict[str, str]) -> dict[str, str]:
        holds = {name: self._status(name).get("hold") for name in wanted}
        return {name: " ".join(hold["nodes"]) if hold else "none" for name, hold in holds.items()}

    def see_victims(self, wanted: dict[str, list[str]]) -> dict[str, list[str]]:
        victims = {name: self._status(name).get("preemption", {}).get("victims", []) for name in wanted}
        return {name: sorted(item["name"] for item in items) for name, items in victims.items()}

    def see_preempted_by(self, wanted: dict[str, str]) -> dict[str, Any]:
        return {name: self._status(name).get("preemption", {}).get("preemptedBy") for name in wanted}

    def see_starved(self, wanted: dict[str, str]) -> dict[str, Any]:
        found = {}
        for name in wanted:
            conditions = {item["type"]: item["status"] for item in self._status(name).get("conditions", ())}
            found[name] = conditions.get("Starved")
        return found

    def see_devices(self, wanted: dict[str, list[str]]) -> dict[str, list[str]]:
        claims = {item["metadata"]["name"]: item for item in self._sight.objects("ResourceClaim")}
        found = {}
        for name in wanted:
            allocation = (claims.get(name, {}).get("status") or {}).get("allocation") or {}
            results = allocation.get("devices", {}).get("results", ())
            found[name] = sorted(f"{result['pool']}/{result['device']}" for result in results)
        return found

    def see_valid(self, wanted: dict[str, str]) -> dict[str, str]:
        """The reason of the condition Valid, with its message where that is expected as well: "Reason: text"."""
        policies = {item["metadata"]["name"]: item for item in self._sight.objects("AllocationPolicy")}
        found = {}
        for name, expected in wanted.items():
            conditions = policies[name].get("status", {}).get("conditions", ())
            condition = next((item for item in conditions if item["type"] == "Valid"), {"reason": "none"})
            told = f"{condition['reason']}: {condition.get('message', '')}"
            found[name] = (
                expected
                if told.startswith(f"{expected.split(': ')[0]}: ") and expected.split(": ")[-1] in told
                else told
            )
        return found

    def see_evicted(self, wanted: list[str]) -> list[str]:
        return self._sight.evicted()

    def see_events(self, wanted: dict[str, int]) -> dict[str, int]:
        return {reason: self._sight.events(reason) for reason in wanted}

    def see_tries(self, wanted: dict[str, int]) -> dict[str, int]:
        return {pod: self._sight.tries(pod) for pod in wanted}
