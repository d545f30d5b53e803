"""Plays scenarios against the deployment's broker, and looks what came of them.

Errors:
    ScenarioImpossible   this deployment cannot show what the scenario is about
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ilyama_protocol.topics import parse_topic
from ilyama_resources.delta_reading import rows_with
from ilyama_resources.errors import PlatformError
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.settings import Settings, variable
from ilyama_service.simulator.drain_watch import LEDGER, DrainWatch
from ilyama_service.simulator.plan import clock_start_ms, fresh_seed
from ilyama_service.simulator.runs import connected, ensure_session
from ilyama_service.simulator.scenarios.catalog import Scenario
from ilyama_service.simulator.scenarios.findings import (
    LINE_COLUMNS,
    Findings,
    Line,
    compared,
    payload_hash,
)
from ilyama_service.simulator.scenarios.script import Script, Step

_ACKNOWLEDGED_WITHIN_S: Final = 60.0


class ScenarioImpossible(PlatformError):
    """This deployment cannot show what the scenario is about."""


class Played(NamedTuple):
    """A scenario that a device has played."""

    scenario: Scenario
    device: str
    steps: list[Step]


class Player:
    """Plays scenarios, each with a device that was never heard before."""

    def __init__(self, settings: Settings, broker_url: str, gateway: Gateway) -> None:
        self._settings = settings
        self._broker_url = broker_url
        self._gateway = gateway
        self._started = datetime.now(UTC)

    def play(self, scenarios: Sequence[Scenario], *, slug: str) -> list[Played]:
        """Publish the messages of scenarios, each when the one before is acknowledged.

        Raises:
            ScenarioImpossible: one is about strangers, and here nobody is a stranger.
        """
        played = [self._rehearsed(scenario, slug) for scenario in scenarios]
        ensure_session(self._settings, self._broker_url)
        with connected(self._settings, self._broker_url, 1) as [client]:
            for steps in (each.steps for each in played):
                _publish(client, steps)
        return played

    def findings(self, played: Sequence[Played], *, wait_s: float) -> list[Findings]:
        """Compare with the ledger; while something is missing, again after every drain."""
        drains = DrainWatch(self._settings.warehouse, self._gateway)
        deadline = time.monotonic() + wait_s
        while True:
            seen = drains.progress()
            found = self._compared(played)
            is_complete = all(each.is_complete for each in found)
            if is_complete or not drains.awaited(seen, deadline):
                return found

    def _rehearsed(self, scenario: Scenario, slug: str) -> Played:
        device = Script(fresh_seed(), slug=slug, moment_ms=clock_start_ms(seeded=False))
        steps = scenario.played_by(device)
        if not all(step.registered for step in steps):
            self._insist_on_strangers(scenario)
        elif not self._settings.auto_register:
            self._register(steps)
        return Played(scenario, device.root, steps)

    def _insist_on_strangers(self, scenario: Scenario) -> None:
        if self._settings.auto_register:
            raise ScenarioImpossible(
                f"{scenario.name} cannot be shown where every device is registered by itself; "
                f"it needs {variable('auto_register')}=false."
            )

    def _register(self, steps: Sequence[Step]) -> None:
        with self._gateway.transaction() as tx:
            tx.devices.register(_senders(steps), auto=False)
            tx.commit()

    def _compared(self, played: Sequence[Played]) -> list[Findings]:
        lines = list(self._lines(played))
        return [
            compared(each.scenario.name, each.steps, device=each.device, lines=lines)
            for each in played
        ]

    def _lines(self, played: Sequence[Played]) -> Iterator[Line]:
        steps = [step for each in played for step in each.steps]
        among = {
            "topic": {step.topic for step in steps},
            "payload_sha256": {payload_hash(step) for step in steps},
        }
        since = self._started.date()
        for batch in rows_with(
            self._settings.warehouse, LEDGER, LINE_COLUMNS, among=among, since=since
        ):
            yield from batch.to_pylist()


def _senders(steps: Sequence[Step]) -> list[RegisteredDevice]:
    """The devices that the topics are of; some topics are of none."""
    addresses = {topic: parse_topic(topic) for topic in {step.topic for step in steps}}
    return [
        RegisteredDevice(address.own_device_id, address.topic_slug, address.device_name, None)
        for address in addresses.values()
        if address.own_device_id and address.topic_slug is not None and address.device_name
    ]


def _publish(client: MqttClient, steps: Sequence[Step]) -> None:
    for step in steps:
        client.publish(step.topic, step.payload).result(_ACKNOWLEDGED_WITHIN_S)
