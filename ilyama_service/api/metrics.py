"""Figures for Prometheus: what the API did itself, and what the records say of the platform."""

from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ilyama_resources.postgres import Gateway, GatewayUnavailable, Transaction
from ilyama_resources.postgres.drains import DrainState
from ilyama_resources.postgres.ledger import LedgerFilter


class ApiMetrics:
    """What this process counts."""

    def __init__(self, gateway: Gateway) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ilyama_api_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.latency = Histogram(
            "ilyama_api_request_seconds",
            "Time from a request to the end of its answer.",
            ("route", "method"),
            registry=self.registry,
        )
        self.ingest = IngestMetrics(self.registry)
        self.registry.register(PlatformFigures(gateway))


class IngestMetrics:
    """What came in over HTTP."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.events = Counter(
            "ilyama_ingest_events", "Events that landed over HTTP.", registry=registry
        )
        self.bytes = Counter(
            "ilyama_ingest_payload_bytes", "Payload bytes of those events.", registry=registry
        )
        self.segments = Counter(
            "ilyama_ingest_segments", "Segments that they landed in.", registry=registry
        )
        self.failures = Counter(
            "ilyama_ingest_failures", "Groups of requests that could not land.", registry=registry
        )
        self.unregistered = Counter(
            "ilyama_ingest_unregistered_segments",
            "Segments that landed while Postgres was away.",
            registry=registry,
        )
        self.seconds = Histogram(
            "ilyama_ingest_landing_seconds",
            "Time to land one group of requests.",
            registry=registry,
        )


class PlatformFigures(Collector):
    """What the records say, read when Prometheus asks."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def describe(self) -> list[Metric]:
        """Nothing beforehand: registering must not need Postgres."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The figures; without Postgres only that it is away."""
        try:
            with self._gateway.transaction() as tx:
                found = [*_pending(tx), *_drains(tx), *_ledger(tx)]
        except GatewayUnavailable:
            found = []
        up = float(bool(found))
        yield GaugeMetricFamily("ilyama_postgres_up", "Whether Postgres answers.", up)
        yield from found


def _pending(tx: Transaction) -> Iterator[Metric]:
    days = tx.segments.pending()
    segments = float(sum(day.segments for day in days))
    messages = float(sum(day.messages for day in days))
    yield GaugeMetricFamily("ilyama_pending_segments", "Segments that wait.", segments)
    yield GaugeMetricFamily("ilyama_pending_messages", "Messages that wait.", messages)


def _drains(tx: Transaction) -> Iterator[Metric]:
    last, unfinished = tx.drains.last_done(), tx.drains.unfinished()
    counts = dict.fromkeys(DrainState, 0)
    if unfinished is not None:
        counts[unfinished.state] = 1
    # Numbers grow by one and at most one drain is unfinished: no need to count millions.
    counts[DrainState.DONE] = tx.drains.last_id() - sum(counts.values())
    states = GaugeMetricFamily("ilyama_drains", "Drains by state.", labels=["state"])
    for state, count in counts.items():
        states.add_metric([state], float(count))
    yield states
    if last is not None and last.closed_at is not None:
        age = (datetime.now(UTC) - last.closed_at).total_seconds()
        yield GaugeMetricFamily("ilyama_last_drain_id", "The last drain.", float(last.drain_id))
        yield GaugeMetricFamily("ilyama_last_drain_age_seconds", "Time since it closed.", age)


def _ledger(tx: Transaction) -> Iterator[Metric]:
    messages = GaugeMetricFamily(
        "ilyama_ledger_messages_today", "Drained messages of today.", labels=["outcome"]
    )
    rows = GaugeMetricFamily(
        "ilyama_ledger_rows_today", "Rows of these messages.", labels=["outcome"]
    )
    for line in tx.ledger.by_outcome(LedgerFilter(day=datetime.now(UTC).date())):
        messages.add_metric([line.outcome], float(line.messages))
        rows.add_metric([line.outcome], float(line.rows))
    yield from (messages, rows)
