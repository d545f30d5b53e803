"""Imports: captured traffic becomes segments, each message once however often it is interrupted.

An import notes what it will call its segments before it lands the first. When it is interrupted
and the same file is imported again, the segments that landed are recognised by their names. When
it finished, importing the file again is new traffic, as if the devices had sent it again.
"""

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import day_of, micros
from ilyama_resources.durability import force_to_disk, make_directory
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_files import portions
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres import Gateway
from ilyama_service.cloudevents import NotACloudEvent, message_of

Complaint = Callable[[int, str], None]
"""Takes the number of a line that is no CloudEvent, and what is wrong with it."""


class ImportSummary(NamedTuple):
    """What an import did."""

    messages: int
    bytes: int
    segments: int
    resumed_segments: int
    bad_lines: int


class ImportNote(msgspec.Struct):
    """What an unfinished import remembers, so that it cuts the same segments again."""

    started_ms: int
    tail: int
    segment_max_bytes: int
    now: int


class Importer:
    """Lands files of CloudEvents."""

    def __init__(
        self, landing_directory: Path, gateway: Gateway, *, segment_max_bytes: int
    ) -> None:
        self._notes = landing_directory / "imports"
        self._landing = Landing(landing_directory)
        self._gateway = gateway
        self._segment_max_bytes = segment_max_bytes

    def run(
        self, file: Path, complain: Complaint, progress: Callable[[int], None] = lambda _: None
    ) -> ImportSummary:
        """Land every message of a file."""
        note_file = self._notes / f"{_content_hash(file)}.json"
        note = self._note(note_file)
        ids = SegmentIds(note.started_ms, note.tail)
        lines = _Lines(complain, now=note.now)
        messages = size = resumed = segments = 0
        for group in portions(lines.messages(file), max_bytes=note.segment_max_bytes):
            resumed += self._land(ids[segments], group)
            segments += 1
            messages += len(group)
            size += sum(len(message.payload) for message in group)
            progress(lines.offset)
        note_file.unlink()
        return ImportSummary(messages, size, segments, resumed, lines.bad)

    def _land(self, segment_id: str, group: list[Message]) -> bool:
        """Land a group, unless an interrupted import already did."""
        day = day_of(group[0].landed_at)
        landed_before = self._landing.holds(segment_id, day, self._gateway)
        if not landed_before:
            register(self._gateway, [self._landing.write(segment_id, group)])
        return landed_before

    def _note(self, file: Path) -> ImportNote:
        """What an interrupted import of the same content noted, or a new note."""
        make_directory(file.parent)
        if file.exists():
            return msgspec.json.decode(file.read_bytes(), type=ImportNote)
        ids = SegmentIds.fresh()
        note = ImportNote(
            ids.started_ms, ids.tail, self._segment_max_bytes, micros(datetime.now(UTC))
        )
        aside = file.with_suffix(".writing")
        aside.write_bytes(msgspec.json.encode(note))
        force_to_disk(aside)
        aside.rename(file)
        force_to_disk(file.parent)
        return note


class _Lines:
    """The lines of a file, with count of what was wrong and how far it is read."""

    def __init__(self, complain: Complaint, *, now: int) -> None:
        self.bad = 0
        self._now = now
        self.offset = 0
        self._complain = complain

    def messages(self, file: Path) -> Iterator[Message]:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                self.offset += len(line)
                if not line.strip():
                    continue
                try:
                    yield message_of(line, now=self._now)
                except NotACloudEvent as error:
                    self.bad += 1
                    self._complain(number, str(error))


def _content_hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
