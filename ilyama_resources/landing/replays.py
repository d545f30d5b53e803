"""Landing of replays: rejections that are to be replayed become segments.

What was asked for stands in the records; whoever comes by lands it, a segment at a time. A kill
between any two steps leaves what the next one recognises: the segment has a name before it lands,
and it is registered in the transaction that notes that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.moments import day_of, micros
from ilyama_resources.delta.reading import MessagePlace
from ilyama_resources.delta.rejected_bytes import RejectedMessage, rejected_messages
from ilyama_resources.delta.unreadable import READING_ERRORS, Unreadable
from ilyama_resources.errors import PlatformError
from ilyama_resources.faults import crash_point
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_files import read_footer
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres import Gateway, LockTaken
from ilyama_resources.postgres.events import Event, Severity
from ilyama_resources.postgres.rejection_replays import Replay

LOCK: Final = "rejection landing"
_MOST_NAMED: Final = 100


class ReplaysCannotLand(PlatformError):
    """Replays cannot land at the moment; they are tried again."""


class ReplayLanding:
    """Makes segments of the replays that wait for one."""

    def __init__(
        self, gateway: Gateway, landing: Landing, warehouse: Path, *, segment_max_bytes: int
    ) -> None:
        self._gateway = gateway
        self._landing = landing
        self._warehouse = warehouse
        self._segment_max_bytes = segment_max_bytes

    def land(self, *, at_most: int | None = None) -> int:
        """Land what waits, or some of it; returns the number of segments, none when busy.

        Raises:
            ReplaysCannotLand: The disk does not give the bytes, or does not take the segment.
        """
        try:
            return self._land_waiting(at_most) if self._something_waits() else 0
        except READING_ERRORS as error:
            raise ReplaysCannotLand(f"Replays of rejections cannot land now: {error}") from error

    def _land_waiting(self, at_most: int | None) -> int:
        landed = 0
        try:
            with self._gateway.lock(LOCK, wait=at_most is None):
                while at_most is None or landed < at_most:
                    segment_id = self._next()
                    if segment_id is None:
                        break
                    self._land(segment_id)
                    landed += 1
        except LockTaken:
            return 0
        return landed

    def _something_waits(self) -> bool:
        with self._gateway.transaction() as tx:
            return tx.rejection_replays.waits()

    def _next(self) -> str | None:
        """The segment to land next, named in the records before it is there."""
        with self._gateway.transaction() as tx:
            interrupted = tx.rejection_replays.placed()
            if interrupted is not None:
                return interrupted
            segment_id = SegmentIds.fresh()[0]
            if not tx.rejection_replays.place(segment_id, at_most_bytes=self._segment_max_bytes):
                return None
            tx.commit()
        crash_point("replay_placing.after")
        return segment_id

    def _land(self, segment_id: str) -> None:
        with self._gateway.transaction() as tx:
            replays = tx.rejection_replays.of_segment(segment_id)
        if not replays:
            return  # It was found, and drained, meanwhile.
        day = day_of(micros(replays[0].received_at))
        if not self._landing.holds(segment_id, day, self._gateway):
            self._write(segment_id, self._with_bytes(segment_id, replays))
        self._note(segment_id, self._landing.path(segment_id, day))

    def _with_bytes(
        self, segment_id: str, replays: Sequence[Replay]
    ) -> list[tuple[Replay, RejectedMessage]]:
        """The replays that have bytes, stored or corrected, numbered; the others are given up."""
        unreadable = Unreadable(self._warehouse, for_good=True)
        found = rejected_messages(self._warehouse, [*map(_place, replays)], unreadable)
        known = [(r, found.get(_place(r).key) or _corrected(r)) for r in replays]
        kept = [(replay, message) for replay, message in known if message is not None]
        lost = [replay for replay, message in known if message is None]
        with self._gateway.transaction() as tx:
            tx.rejection_replays.give_up(lost)
            if lost and unreadable.files:
                tx.events.write(_given_up(segment_id, lost, unreadable.files))
            tx.rejection_replays.number(replay for replay, _ in kept)
            tx.commit()
        return kept

    def _write(self, segment_id: str, kept: Sequence[tuple[Replay, RejectedMessage]]) -> None:
        messages = [
            Message(
                segment_id,
                position,
                message.topic,
                message.payload if replay.corrected is None else bytes(replay.corrected),
                micros(replay.received_at),
                message.qos,
                message.user_properties or {},
                rejection_id=replay.rejection_id,
                timed_anew=replay.timed_anew,
                arrived_at=micros(replay.clock_at) if replay.timed_anew else None,
            )
            for position, (replay, message) in enumerate(kept)
        ]
        if messages:
            self._landing.write(segment_id, messages, origin=Origin.REJECTION)

    def _note(self, segment_id: str, path: Path) -> None:
        """Register the segment, unless it was found meanwhile, and note that it has landed."""
        crash_point("replay_registration.before")
        with self._gateway.transaction() as tx:
            # One that was found meanwhile is registered, and may be put away already.
            with suppress(FileNotFoundError):
                tx.segments.register([read_footer(path)])
            tx.rejection_replays.landed(segment_id)
            tx.commit()
        crash_point("replay_registration.after")


def _given_up(segment_id: str, lost: Sequence[Replay], files: Sequence[str]) -> Event:
    names = [replay.rejection_id for replay in lost]
    mended = "Replay them with corrected bytes, or again when the files are there."
    return Event(
        identity=segment_id,
        event_type="rejection.bytes_unreadable",
        severity=Severity.ERROR,
        message=(
            f"{len(names):,} replays of rejections were given up, since {', '.join(files)} cannot "
            f"be read. {mended}"
        ),
        details={"files": [*files], "rejections": names[:_MOST_NAMED]},
    )


def _corrected(replay: Replay) -> RejectedMessage | None:
    """The message with corrected bytes, of which nothing but the record is left."""
    if replay.corrected is None:
        return None
    return RejectedMessage(replay.topic, bytes(replay.corrected))


def _place(replay: Replay) -> MessagePlace:
    return MessagePlace(
        replay.stored_segment_id,
        replay.stored_position,
        replay.stored_day,
        replay.stored_drain_id,
    )
