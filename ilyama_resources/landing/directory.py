"""The landing directory: where segments wait until a drain has taken them into the tables.

    segments/2026-05-01/{segment_id}.parquet    wait for a drain, by arrival day
    drained/2026-05-01T07/{segment_id}.parquet  are in the tables, by the hour they were put away

What is looked through again and again holds only what waits; the rest goes an hour at a time.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.moments import day_of
from ilyama_resources.durability import make_directory
from ilyama_resources.errors import PlatformError
from ilyama_resources.faults import crash_point
from ilyama_resources.landing.segment_files import (
    DRAFT,
    SUFFIX,
    Segment,
    read_footer,
    write_segment,
)
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.events import Event, Severity

UNREADABLE = ".unreadable"
_HOUR = "%Y-%m-%dT%H"
_PROBE_BYTES = 64 * 1024
_LOG = logging.getLogger(__name__)


class UnreadableSegment(PlatformError):
    """A file in the place of a segment is none."""


class Landing:
    """The directory of segments."""

    def __init__(self, directory: Path) -> None:
        self._segments = directory / "segments"
        self._drained = directory / "drained"

    def write(
        self, segment_id: str, messages: Sequence[Message], *, origin: Origin = Origin.LIVE
    ) -> Segment:
        """Land messages of one day; when this returns they survive a crash."""
        path = self.path(segment_id, day_of(messages[0].landed_at))
        return write_segment(path, messages, origin)

    def path(self, segment_id: str, day: date) -> Path:
        """Where a segment lies."""
        return self._segments / day.isoformat() / f"{segment_id}{SUFFIX}"

    def find(self, segment_id: str, day: date) -> Path | None:
        """Where a segment lies now, put away or not; None when it is gone."""
        places = (
            self.path(segment_id, day),
            *self._drained.glob(f"*/{segment_id}{SUFFIX}"),
        )
        return next((path for path in places if path.exists()), None)

    def holds(self, segment_id: str, day: date, gateway: Gateway) -> bool:
        """Whether a segment has landed, be it drained by now or not yet registered."""
        if self.path(segment_id, day).exists():
            return True
        with gateway.transaction() as tx:
            return segment_id in tx.segments.known([segment_id])

    def probe(self) -> None:
        """Try whether a segment could land; an OSError says why not."""
        make_directory(self._segments)
        probe = self._segments / f"probe-{uuid4()}"
        try:
            with probe.open("wb") as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)

    def unreadable(self) -> int:
        """How many files were set aside because they are no segments."""
        return sum(1 for _ in self._files(UNREADABLE))

    def register_found(self, gateway: Gateway) -> int:
        """Register segments that landed while Postgres, or the process, was gone."""
        on_disk = {path.stem: path for path in self._files()}
        with gateway.transaction() as tx:
            known = tx.segments.known(on_disk)
            strays = [path for segment_id, path in on_disk.items() if segment_id not in known]
            footers = {path: _footer_or_error(path) for path in strays}
            found = tx.segments.register(f for f in footers.values() if isinstance(f, Segment))
            for path, error in footers.items():
                if isinstance(error, UnreadableSegment):
                    tx.events.write(_unreadable(path, error))
            tx.commit()
        for path, error in footers.items():
            if isinstance(error, UnreadableSegment):
                # Another process may have found it too.
                with suppress(FileNotFoundError):
                    path.rename(path.with_suffix(UNREADABLE))
        return found

    def put_away(self, gateway: Gateway, *, now: datetime) -> int:
        """Set segments apart whose messages are in the tables."""
        on_disk = {path.stem: path for path in self._files()}
        with gateway.transaction() as tx:
            drained = tx.segments.drained(on_disk)
        if drained:
            hour = self._drained / now.astimezone(UTC).strftime(_HOUR)
            make_directory(hour)
            for segment_id in drained:
                on_disk[segment_id].rename(hour / on_disk[segment_id].name)
        return len(drained)

    def sweep(self, *, put_away_before: datetime) -> int:
        """Remove the hours whose segments were all put away before a moment.

        What a crash left half written before it goes too: it was never acknowledged. So do days
        in which nothing has lain since.
        """
        before = put_away_before.timestamp()
        gone = [hour for hour in self._drained.glob("*") if _end_of(hour) <= put_away_before]
        for hour in gone:
            shutil.rmtree(hour)
        for draft in self._files(DRAFT):
            with suppress(FileNotFoundError):
                if draft.stat().st_mtime < before:
                    draft.unlink()
        self._remove_days(empty_since=before)
        return len(gone)

    def _remove_days(self, *, empty_since: float) -> None:
        for day in self._segments.glob("*"):
            # One that is not empty is refused; who is about to write into it makes it again.
            with suppress(OSError):
                if day.stat().st_mtime < empty_since:
                    day.rmdir()

    def _files(self, suffix: str = SUFFIX) -> Iterator[Path]:
        for day in self._segments.glob("*"):
            # A sweep may remove it at any moment.
            with suppress(FileNotFoundError):
                yield from day.glob(f"*{suffix}")


def _end_of(hour: Path) -> datetime:
    return datetime.strptime(hour.name, _HOUR).replace(tzinfo=UTC) + timedelta(hours=1)


def _footer_or_error(path: Path) -> Segment | UnreadableSegment | OSError:
    """What a segment says of itself, or why it says nothing; the others go on."""
    try:
        return read_footer(path)
    except (pa.ArrowException, KeyError, ValueError) as error:
        _LOG.error("%s is no segment and is set aside: %s", path, error)
        return UnreadableSegment(str(error))
    except FileNotFoundError as error:
        return error  # Put away meanwhile.
    except OSError as error:
        # The disk's fault perhaps, and not for ever: it is tried again.
        _LOG.error("%s cannot be read: %s", path, error)
        return error


def _unreadable(path: Path, error: UnreadableSegment) -> Event:
    return Event(
        identity=path.name,
        event_type="segment.unreadable",
        severity=Severity.ERROR,
        message=(
            f"The landed file {path.name} cannot be read and was set aside as "
            f"{path.with_suffix(UNREADABLE).name}: its messages are in no table."
        ),
        details={"path": str(path), "error": str(error)},
    )


def register(gateway: Gateway, segments: Iterable[Segment]) -> None:
    """Make landed segments known, so that a drain can take them."""
    crash_point("segment_registration.before")
    with gateway.transaction() as tx:
        tx.segments.register(segments)
        tx.commit()
    crash_point("segment_registration.after")
