"""Prometheus metrics, in a registry of their own so that tests and several operators in one process do not meet."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from dra_operator.cluster.rest import Request

#: 1 ms to 2 minutes: an allocation takes milliseconds when there is room and minutes when there is none.
WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
FAST = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

#: Reasons of `metav1.Status`, and the writer's own word for an Event that was not needed. Others are words of webhooks, which may put
#: anything there: one series for all of them.
REASONS = frozenset((
    "", "AlreadyExists", "BadRequest", "Conflict", "Expired", "Forbidden", "Gone", "InternalError", "Invalid", "MethodNotAllowed",
    "NotAcceptable", "NotFound", "RequestEntityTooLarge", "ServerTimeout", "ServiceUnavailable", "StoreReadError", "Suppressed",
    "Timeout", "TooManyRequests", "Unauthorized", "Unknown", "UnsupportedMediaType",
))  # fmt: skip

# One more sample for every counter and bucket, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Every metric of the operator. Fields are named as the metrics, without the prefix `dra_operator_`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"dra_operator_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"dra_operator_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"dra_operator_{name}", text, labels, buckets=buckets, registry=registry)

        self.decisions = counter(
            "decisions", "Decisions of the engine; an Event's action is its reason.", "kind", "action"
        )
        self.outcomes = counter("outcomes", "What became of them; 0: no answer.", "kind", "status", "reason")
        self.claims = gauge("claims", "Managed claims by phase, as the leader sees them.", "phase")
        self.waiting = gauge("waiting_units", "Units (pods, bare claims, groups) waiting for devices.")
        self.allocation_seconds = histogram(
            "allocation_seconds", "From a claim's creation to its allocation by us.", WAITS
        )
        self.claim_starved_seconds = histogram(
            "claim_starved_seconds", "How long claims were starved that are served at last.", WAITS
        )
        self.decide_seconds = histogram("engine_decide_seconds", "One pass of the engine.", FAST)
        self.observed = counter("observed_events", "Objects and deletions handed to the engine.", "kind", "type")
        self.stale = counter("stale_events", "News older than what was known, dropped.", "kind")
        self.waiting_writes = gauge("waiting_writes", "Writes decided and not sent yet.", "lane")
        self.writes_in_flight = gauge("writes_in_flight", "Writes sent and not answered yet.")
        self.api_requests = counter("api_requests", "API requests; code 0: no answer.", "verb", "resource", "code")
        self.api_seconds = histogram("api_request_seconds", "Seconds, no watches.", FAST, "verb", "resource")
        self.watch_restarts = counter("watch_restarts", "Interruptions of watches.", "kind", "reason")
        self.leader = gauge("leader", "1 while this replica holds the Lease.")
        self.leadership_changes = counter("leadership_changes", "Times this replica won or lost the Lease.", "change")
        self.synced = gauge("synced", "1 once all kinds are listed.")
        self.engine_crashes = counter("engine_crashes", "Errors inside the engine that made us start a fresh one.")
        self.kopf_restarts = counter("kopf_restarts", "Times Kopf ended and was started again.")
        self.events_dropped = counter("events_dropped", "Kubernetes Events not written.", "why")

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)

    def outcome(self, kind: str, status: int, reason: str) -> None:
        """Count what became of a decision of this kind. `status` 0: `reason` is a word of the writer's own."""
        told = reason if not status or reason in REASONS else "Other"
        self.outcomes.labels(kind, str(status), told).inc()

    def request(self, request: Request, status: int, seconds: float) -> None:
        """Count one attempt of a request; the observer of `cluster.kubernetes.Client`."""
        verb, resource = verb_and_resource(request)
        self.api_requests.labels(verb, resource, str(status)).inc()
        if verb != "WATCH":
            self.api_seconds.labels(verb, resource).observe(seconds)


def verb_and_resource(request: Request) -> tuple[str, str]:
    """As the API server's own metrics name them: the verb (LIST, WATCH, GET, POST, PUT, PATCH, DELETE) and the plural
    with its subresource."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        # …/namespaces/NAME/pods: the namespace is where it is, not what it is.
        rest = rest[2:]
    if not rest:
        return request.method, "other"
    plural, named = rest[0], rest[1:]
    resource = f"{plural}/{named[1]}" if len(named) > 1 else plural
    if request.method != "GET":
        return request.method, resource
    if request.query.get("watch"):
        return "WATCH", resource
    return ("GET" if named else "LIST"), resource
