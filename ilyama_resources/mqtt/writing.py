"""Writes batches of messages as segments, and makes them known."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_files import Segment
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.mqtt.batches import one_day_each
from ilyama_resources.mqtt.events import log_event
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.gateway import GatewayRefused, GatewayUnavailable

# A Postgres that is slow to say no must not slow landing down.
_POSTGRES_PAUSE_S: Final = 5.0


class Landed(NamedTuple):
    """What became of a batch: it is on disk, and perhaps Postgres knows."""

    segments: list[Segment]
    registered: bool


class SegmentWriter:
    """Lands batches, one after another."""

    def __init__(self, landing: Landing, gateway: Gateway | None, ids: RisingIds) -> None:
        self._landing = landing
        self._gateway = gateway
        self._ids = ids
        self._ask_postgres_at = 0.0
        self._unregistered: list[Segment] = []

    def land(self, messages: Sequence[Message]) -> Landed:
        """Write messages so that they survive a crash, then register them if Postgres is there.

        Raises:
            OSError: the disk does not take them; what was written of them stays.
        """
        segments = [self._landing.write(self._ids.next(), day) for day in one_day_each(messages)]
        # What Postgres missed goes first: drains take segments in their order.
        self._unregistered += segments
        return Landed(segments, self._register())

    def _register(self) -> bool:
        if self._gateway is None or time.monotonic() < self._ask_postgres_at:
            return False
        try:
            register(self._gateway, self._unregistered)
        except (GatewayUnavailable, GatewayRefused, SQLAlchemyError) as error:
            self._ask_postgres_at = time.monotonic() + _POSTGRES_PAUSE_S
            log_event("not_registered", level=logging.WARNING, reason=type(error).__name__)
            return False
        self._unregistered = []
        return True
