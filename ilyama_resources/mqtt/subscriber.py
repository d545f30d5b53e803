"""The platform's subscriber: what devices send is on disk before the broker may forget it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ilyama_protocol.topics import INBOUND_FILTERS
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.batches import BatchLimits
from ilyama_resources.mqtt.connection import Connection, OnMessage
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.mqtt.events import log_event
from ilyama_resources.mqtt.holding import SubscriptionNote, sole_holder
from ilyama_resources.mqtt.session import LandingSession
from ilyama_resources.mqtt.writing import SegmentWriter
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings

RECEIVE_MAXIMUM: Final = 4000
"""How many messages the broker sends before it wants some of them acknowledged."""
ENOUGH_BYTES: Final = 2 * 2**20
"""So much is written at once, without waiting for more."""
BURST_BYTES: Final = ENOUGH_BYTES // 8
QUIET_S: Final = 0.02
"""So much is a burst, and so long nothing comes when it is over."""

_SHARED: Final = "$share/ilyama/"
_EMBEDDED: Final = "the embedded broker"


class MqttSubscriber:
    """Holds the one persistent session in which devices' messages reach the platform."""

    def __init__(self, settings: Settings, broker_url: str, gateway: Gateway | None) -> None:
        self._settings = settings
        self._broker_url = broker_url
        self._gateway = gateway

    def subscribe_only(self) -> None:
        """Create the session and its subscriptions, so that from now on the broker keeps all.

        Raises:
            LandingBusy: another process holds the session, so it exists.
            BrokerUnavailable: there is no broker, or it refuses.
        """
        with self.session() as session:
            session.connect()

    @contextmanager
    def session(self) -> Iterator[LandingSession]:
        """Hold the session; leaving the block disconnects and does not end it.

        Raises:
            LandingBusy: another process holds it.
        """
        directory = self._settings.landing
        with sole_holder(self.lock_file):
            ids = RisingIds(directory / f"{self._holder}.last_id")
            writer = SegmentWriter(Landing(directory), self._gateway, ids)
            session = LandingSession(self._open_connection, writer, self._limits)
            try:
                yield session
            finally:
                session.close()

    @property
    def filters(self) -> list[str]:
        """The topics it subscribes to: those that devices send on, and no other."""
        prefix = _SHARED if self._settings.ingest_shared else ""
        return [prefix + topic for topic in INBOUND_FILTERS]

    @property
    def lock_file(self) -> Path:
        """The file that is locked for as long as somebody holds the session."""
        return self._settings.landing / f"{self._holder}.lock"

    @property
    def _holder(self) -> str:
        # Of a shared subscription there may be several holders, each with a name of its own.
        return self._settings.ingest_client_id if self._settings.ingest_shared else "subscriber"

    @property
    def _limits(self) -> BatchLimits:
        return BatchLimits(
            wait_s=self._settings.landing_wait_ms / 1000,
            quiet_s=QUIET_S,
            burst_bytes=BURST_BYTES,
            enough_bytes=min(ENOUGH_BYTES, self._settings.segment_max_bytes),
            max_bytes=self._settings.segment_max_bytes,
            # Half of what may be unacknowledged is written while the other half comes in.
            max_messages=RECEIVE_MAXIMUM // 2,
        )

    def _open_connection(self, on_message: OnMessage) -> Connection:
        address = BrokerAddress.of(self._broker_url, self._settings)
        client_id = self._settings.ingest_client_id
        connection = Connection(
            address, client_id, on_message=on_message, receive_maximum=RECEIVE_MAXIMUM
        )
        # The embedded broker keeps its sessions, on whatever port it listens.
        broker = _EMBEDDED if self._settings.broker_url is None else address
        note = SubscriptionNote(
            self._settings.landing / f"{client_id}.subscriptions",
            session=f"{client_id} at {broker}",
        )
        try:
            connection.open()
            self._subscribe(connection, note)
        except BrokerUnavailable:
            connection.close()
            raise
        return connection

    def _subscribe(self, connection: Connection, note: SubscriptionNote) -> None:
        """Bring the session's subscriptions up to date; usually they are, and nothing is sent."""
        if not connection.session_present:
            note.withdraw()
        present = note.read()
        missing = [topic for topic in self.filters if topic not in present]
        if missing:
            connection.subscribe(missing)
            note.write([*present, *missing])
        obsolete = [topic for topic in present if topic not in self.filters]
        if obsolete:
            # To end a subscription is to lose what waits in it; landing twice costs only work.
            log_event("obsolete_subscriptions", level=logging.WARNING, topics=obsolete)
