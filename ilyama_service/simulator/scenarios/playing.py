"""Plays scenarios against the deployment's broker, and looks what came of them.

Errors:
    ScenarioImpossible   this deployment cannot show what the scenario is about
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from ilyama_protocol.governance.policies import (
    NO_PROJECT,
    Choices,
    Policy,
    PolicyScope,
    resolved,
)
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_protocol.limits import Limits
from ilyama_protocol.rejections import Rejection, RejectionCode
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_protocol.validation import validate
from ilyama_resources.delta.reading import rows_with
from ilyama_resources.errors import PlatformError
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.gaps import GapFilter
from ilyama_resources.settings import Settings, variable
from ilyama_service.simulator.drain_watch import LEDGER, DrainWatch
from ilyama_service.simulator.plan import clock_start_ms, fresh_seed
from ilyama_service.simulator.runs import connected, ensure_session
from ilyama_service.simulator.scenarios.catalog import Scenario
from ilyama_service.simulator.scenarios.findings import (
    CHANGE_COLUMNS,
    CONFLICT_COLUMNS,
    LINE_COLUMNS,
    Evidence,
    Findings,
    Line,
    compared,
    payload_hash,
)
from ilyama_service.simulator.scenarios.script import Missing, Script, Step

_ACKNOWLEDGED_WITHIN_S: Final = 60.0
_ROW_CHANGES: Final = "row_changes"
_STAGED_ROWS: Final = "staged_rows"
_KEY_CONFLICTS: Final = "key_conflicts"
_SETTING_OF: Final = {
    RejectionCode.PAYLOAD_TOO_LARGE: "payload_max_bytes",
    RejectionCode.BATCH_TOO_MANY_ROWS: "batch_max_rows",
}


class ScenarioImpossible(PlatformError):
    """This deployment cannot show what the scenario is about."""


class Played(NamedTuple):
    """A scenario that a device has played, with what must come of it under the policies here."""

    scenario: Scenario
    device: str
    steps: list[Step]
    missing: set[Missing]

    @property
    def device_ids(self) -> set[str]:
        """The devices that its topics are of."""
        return {sender.device_id for sender in _senders(self.steps)}


def insist_on_room(scenario: Scenario, steps: Iterable[Step], limits: Limits) -> None:
    """Refuse a scenario that breaks a limit where it is about something else.

    Raises:
        ScenarioImpossible: it does.
    """
    for step in steps:
        kind = parse_topic(step.topic).kind
        if kind is MessageKind.DEVICE:
            continue
        verdict = validate(kind, step.payload, registered=step.registered, limits=limits)
        if not isinstance(verdict, Rejection) or verdict.code is step.expected.code:
            continue
        if (setting := _SETTING_OF.get(verdict.code)) is not None:
            raise ScenarioImpossible(
                f"{scenario.name} cannot be shown here: {verdict.message}. "
                f"It needs a higher {variable(setting)}."
            )


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
            ScenarioImpossible: one is about strangers, and here nobody is a stranger; or its
                messages are larger than they may be here.
        """
        played = [self._rehearsed(scenario, slug) for scenario in scenarios]
        ensure_session(self._settings, self._broker_url)
        with connected(self._settings, self._broker_url, 1) as [client]:
            for steps in (each.steps for each in played):
                _publish(client, steps)
        return played

    def findings(self, played: Sequence[Played], *, wait_s: float) -> list[Findings]:
        """Compare with what the platform holds; while that may change, again after every drain."""
        drains = DrainWatch(self._settings.warehouse, self._gateway)
        deadline = time.monotonic() + wait_s
        while True:
            _, last_closed = seen = drains.progress()
            evidence = self._evidence(played)
            found = list(map(_findings, played, evidence))
            is_closed = all(held.decided_by <= last_closed for held in evidence)
            is_settled = is_closed and all(each.is_complete for each in found)
            if is_settled or not drains.awaited(seen, deadline):
                return found

    def _rehearsed(self, scenario: Scenario, slug: str) -> Played:
        device = Script(
            fresh_seed(),
            slug=slug,
            moment_ms=clock_start_ms(seeded=False),
            limits=self._settings.limits,
            failures=self._settings.materialization_failures,
        )
        steps = scenario.played_by(device)
        insist_on_room(scenario, steps, self._settings.limits)
        if not all(step.registered for step in steps):
            self._insist_on_strangers(scenario)
        elif not self._settings.auto_register:
            self._register(steps)
        steps = [step.under(self._policy_of) for step in steps]
        return Played(scenario, device.root, steps, device.missing)

    def _policy_of(self, source_table: str) -> Policy:
        """What holds for a table of a device that belongs to no project."""
        return resolved(self._settings.policy, self._choices, PolicyScope(NO_PROJECT, source_table))

    @cached_property
    def _choices(self) -> Choices:
        with self._gateway.transaction() as tx:
            return tx.policies.of([NO_PROJECT])

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

    def _evidence(self, played: Sequence[Played]) -> list[Evidence]:
        """What the platform holds of each, read once for all."""
        device_ids = {device_id for each in played for device_id in each.device_ids}
        lines = list(self._lines([step for each in played for step in each.steps]))
        tables = (_ROW_CHANGES, _STAGED_ROWS)
        changes = [row for name in tables for row in self._rows(name, CHANGE_COLUMNS, device_ids)]
        conflicts = list(self._rows(_KEY_CONFLICTS, CONFLICT_COLUMNS, device_ids))
        return [
            Evidence(
                lines,
                changes,
                [row for row in conflicts if row["device_id"] in each.device_ids],
                self._gaps(each.device_ids),
            )
            for each in played
        ]

    def _lines(self, steps: Sequence[Step]) -> Iterator[Line]:
        among = {
            "topic": {step.topic for step in steps},
            "payload_sha256": {payload_hash(step) for step in steps},
        }
        return self._read(LEDGER, LINE_COLUMNS, among)

    def _rows(self, table: str, columns: Sequence[str], device_ids: set[str]) -> Iterator[Line]:
        names = [*dict.fromkeys(("device_id", *columns))]
        return self._read(table, names, {"device_id": device_ids})

    def _read(
        self, table: str, columns: Sequence[str], among: Mapping[str, set[str]]
    ) -> Iterator[Line]:
        """The rows of a table since playing began."""
        root, since = self._settings.warehouse, self._started.date()
        for batch in rows_with(root, table, columns, among=among, since=since):
            yield from batch.to_pylist()

    def _gaps(self, device_ids: set[str]) -> list[Missing]:
        with self._gateway.transaction() as tx:
            told = [
                explained.gap
                for device_id in sorted(device_ids)
                for explained in tx.gaps.page(GapFilter(device_id), after=None, limit=None)
            ]
        return [Missing(SequenceKind(g.kind), g.first_missing, g.last_missing) for g in told]


def _findings(played: Played, evidence: Evidence) -> Findings:
    name, steps, missing = played.scenario.name, played.steps, played.missing
    return compared(name, steps, evidence, device=played.device, missing=missing)


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
