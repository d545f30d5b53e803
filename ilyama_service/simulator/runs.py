"""Runs of a fleet against the deployment's broker, one or, endlessly, one after another."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Final

import msgspec

from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.errors import LandingBusy
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.settings import Settings
from ilyama_service.simulator.fleet import Fleet
from ilyama_service.simulator.pacing import Pace
from ilyama_service.simulator.plan import PROBER, FleetPlan
from ilyama_service.simulator.probing import ProbeWatch
from ilyama_service.simulator.publishing import IN_FLIGHT, Publication
from ilyama_service.simulator.record import RunRecord, next_batch_seqs
from ilyama_service.simulator.summary import Summary

ENDLESS_RUN_MESSAGES: Final = 50_000
"""So many messages are one run of an endless fleet, which bounds its record."""
_ENDLESS_ARREARS_S: Final = 30.0
_ACKNOWLEDGED_WITHIN_S: Final = 60.0
_ACKNOWLEDGED_AFTER_STOP_S: Final = 5.0

Progress = Callable[[int], None]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run; without a number of messages, it has no end."""

    plan: FleetPlan
    messages: int | None
    seeded: bool = False
    connections: int = 1
    probe_wait_s: float = 0.0


class Simulator:
    """Runs fleets, until it is stopped."""

    def __init__(self, settings: Settings, broker_url: str, gateway: Gateway | None) -> None:
        self.stopped = threading.Event()
        self._settings = settings
        self._broker_url = broker_url
        self._gateway = gateway

    def run(self, run: Run, progress: Progress = lambda _: None) -> Iterator[Summary]:
        """Run a fleet and tell how it went; an endless one tells it from time to time.

        Raises:
            BrokerUnavailable: there is no broker, or it refuses. One that is lost later is
                waited for.
        """
        ensure_session(self._settings, self._broker_url)
        plan = run.plan if run.seeded else self._continued(run.plan)
        with connected(self._settings, self._broker_url, run.connections) as clients:
            yield self._run_once(run, plan, clients, progress)
            while run.messages is None and not self.stopped.is_set():
                plan = self._continued(plan.renewed())
                yield self._run_once(run, plan, clients, progress)

    def register(self, plan: FleetPlan) -> None:
        """Register the devices of a fleet, where the platform does not do so by itself."""
        if self._gateway is None:
            return
        devices = [
            RegisteredDevice(plan.device_id(number), plan.slug, plan.device_name(number), None)
            for number in range(PROBER, plan.devices + 1)
        ]
        with self._gateway.transaction() as tx:
            tx.devices.register(devices, auto=False)
            tx.commit()

    def _continued(self, plan: FleetPlan) -> FleetPlan:
        """The fleet, whose devices count on from their last run as real ones do."""
        batch_seqs = next_batch_seqs(self._settings, plan.slug)
        return msgspec.structs.replace(plan, batch_seqs=batch_seqs)

    def _run_once(
        self, run: Run, plan: FleetPlan, clients: list[MqttClient], progress: Progress
    ) -> Summary:
        endless = run.messages is None
        record = RunRecord.begin(self._settings, plan, seeded=run.seeded, endless=endless)
        try:
            with self._watch(plan) as watch:
                publication = Publication(clients, record, stopped=self.stopped, watch=watch)
                publication.publish(
                    Fleet(plan).messages(),
                    limit=run.messages or ENDLESS_RUN_MESSAGES,
                    pace=Pace(plan.rate, most_arrears_s=_ENDLESS_ARREARS_S if endless else None),
                    progress=progress,
                )
                publication.await_acknowledgements(self._patience_s)
                if watch is not None and not self.stopped.is_set():
                    watch.wait(run.probe_wait_s)
                return publication.summary()
        finally:
            record.close()

    @property
    def _patience_s(self) -> float:
        return _ACKNOWLEDGED_AFTER_STOP_S if self.stopped.is_set() else _ACKNOWLEDGED_WITHIN_S

    @contextmanager
    def _watch(self, plan: FleetPlan) -> Iterator[ProbeWatch | None]:
        probes = self._gateway is not None and plan.probe_every
        watch = ProbeWatch(self._gateway, plan) if self._gateway and probes else None
        with watch or nullcontext():
            yield watch


def ensure_session(settings: Settings, broker_url: str) -> None:
    """Make sure of a subscription: else the broker would acknowledge messages and keep none."""
    with suppress(LandingBusy):
        MqttSubscriber(settings, broker_url, None).subscribe_only()


@contextmanager
def connected(settings: Settings, broker_url: str, connections: int) -> Iterator[list[MqttClient]]:
    """Clients that are connected to the broker."""
    address = BrokerAddress.of(broker_url, settings)
    own = secrets.token_hex(4)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                MqttClient(address, f"ilyama-simulator-{own}-{n}", most_in_flight=IN_FLIGHT)
            )
            for n in range(connections)
        ]
