"""The landing directory: where segments wait until a drain has taken them into the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import day_of
from ilyama_resources.durability import make_directory
from ilyama_resources.faults import crash_point
from ilyama_resources.postgres import Gateway
from ilyama_resources.segment_files import SUFFIX, Segment, read_footer, write_segment

UNREADABLE = ".unreadable"


class Landing:
    """The directory of segments."""

    def __init__(self, directory: Path) -> None:
        self._segments = directory / "segments"

    def write(self, segment_id: str, messages: Sequence[Message]) -> Segment:
        """Land messages of one day; when this returns they survive a crash."""
        return write_segment(self.path(segment_id, day_of(messages[0].landed_at)), messages)

    def path(self, segment_id: str, day: date) -> Path:
        """Where a segment lies."""
        return self._segments / day.isoformat() / f"{segment_id}{SUFFIX}"

    def probe(self) -> None:
        """Try whether a segment could land; an OSError says why not."""
        make_directory(self._segments)
        probe = self._segments / f"probe-{uuid4()}"
        try:
            probe.write_bytes(b"landing")
        finally:
            probe.unlink(missing_ok=True)

    def register_found(self, gateway: Gateway) -> int:
        """Register segments that landed while Postgres, or the process, was gone."""
        on_disk = {path.stem: path for path in self._files()}
        with gateway.transaction() as tx:
            known = tx.segments.known(on_disk)
            strays = [path for segment_id, path in on_disk.items() if segment_id not in known]
            found = tx.segments.register(filter(None, map(_footer_or_aside, strays)))
            tx.commit()
        return found

    def sweep(self, gateway: Gateway, *, drained_before: datetime) -> int:
        """Remove segments whose messages have long been in the tables."""
        on_disk = {path.stem: path for path in self._files()}
        with gateway.transaction() as tx:
            gone = tx.segments.drained_before(drained_before, on_disk)
        for segment_id in gone:
            on_disk[segment_id].unlink()
        return len(gone)

    def _files(self) -> Iterator[Path]:
        return self._segments.glob(f"*/*{SUFFIX}")


def _footer_or_aside(path: Path) -> Segment | None:
    """What a segment says of itself; a file that is no segment is set aside."""
    try:
        return read_footer(path)
    except (pa.ArrowException, KeyError, ValueError):
        path.rename(path.with_suffix(UNREADABLE))
        return None


def register(gateway: Gateway, segments: Iterable[Segment]) -> None:
    """Make landed segments known, so that a drain can take them."""
    crash_point("segment_registration.before")
    with gateway.transaction() as tx:
        tx.segments.register(segments)
        tx.commit()
    crash_point("segment_registration.after")
