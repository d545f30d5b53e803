"""Times the way of a value from its publishing until Postgres serves it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from ilyama_protocol.identifiers import key_of
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.gateway import GatewayUnavailable
from ilyama_service.simulator.plan import PROBER, FleetPlan
from ilyama_service.simulator.source_tables import Probe
from ilyama_service.simulator.summary import Latency, latency_of

_POLL_S: Final = 0.1


class ProbeWatch:
    """Looks at the probe's current value again and again, in a thread of its own."""

    def __init__(self, gateway: Gateway, plan: FleetPlan) -> None:
        self._gateway = gateway
        self._device_id = plan.device_id(PROBER)
        self._published: dict[int, float] = {}
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._probes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="probe", daemon=True)

    def published(self, mark: int) -> None:
        """Note that a probe is on its way."""
        with self._lock:
            self._published[mark] = time.monotonic()
            self._probes += 1

    def wait(self, within_s: float) -> None:
        """Wait until every probe is served, or the time is over."""
        deadline = time.monotonic() + within_s
        while self._published and time.monotonic() < deadline:
            self._stopped.wait(_POLL_S)

    def latency(self) -> Latency:
        """What was measured so far."""
        return latency_of(self._seconds, probes=self._probes)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_S):
            with suppress(GatewayUnavailable):
                mark = self._served_mark()
                if mark is not None:
                    self._served(mark, time.monotonic())

    def _served_mark(self) -> int | None:
        with self._gateway.transaction() as tx:
            values = tx.current_values.of_device(
                self._device_id, key_prefix=key_of(Probe.name, "mark")
            )
        marks = [value.value_double for value in values if value.value_double is not None]
        return int(marks[0]) if marks else None

    def _served(self, mark: int, now: float) -> None:
        """A mark that is served was published, and so were those before it."""
        with self._lock:
            if mark in self._published:
                done = [earlier for earlier in self._published if earlier <= mark]
                self._seconds += [now - self._published.pop(earlier) for earlier in done]
