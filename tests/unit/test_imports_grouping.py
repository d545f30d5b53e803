"""Captured messages land in segments of one day and of a bounded size."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ilyama_protocol.moments import MICROSECONDS_PER_DAY, utc
from ilyama_resources.landing.segment_files import Segment, read_messages
from ilyama_resources.postgres import Gateway
from ilyama_service.imports import Importer, ImportSummary
from tests.oracle import Event
from tests.streams import write_cloudevents

MIDNIGHT = 20_000 * MICROSECONDS_PER_DAY


@dataclass
class _Records:
    """A registry of segments in memory; it can be told to go away."""

    segments: list[Segment] = field(default_factory=list)
    lasts_for: int = 1_000

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        yield SimpleNamespace(segments=self, commit=lambda: None)

    def register(self, segments: Iterable[Segment]) -> None:
        if len(self.segments) == self.lasts_for:
            raise ConnectionError("the records are gone")
        self.segments += segments

    def known(self, segment_ids: Iterable[str]) -> set[str]:
        return set(segment_ids) & {segment.segment_id for segment in self.segments}


def _import(
    directory: Path, events: list[tuple[int, int]], *, most_bytes: int, records: _Records
) -> ImportSummary:
    """Import messages given as (received_at, bytes)."""
    file = directory / "captured.jsonl"
    write_cloudevents([Event("a/b/sync/rows/batch", b"x" * size, at) for at, size in events], file)
    gateway = cast("Gateway", records)
    importer = Importer(directory / "landing", gateway, segment_max_bytes=most_bytes)
    return importer.run(file, lambda number, reason: pytest.fail(f"line {number}: {reason}"))


@pytest.mark.parametrize(
    ("events", "sizes"),
    [
        ([], []),
        ([(0, 4)], [[4]]),
        ([(0, 4), (1, 6)], [[4, 6]]),
        ([(0, 4), (1, 7)], [[4], [7]]),
        ([(0, 11), (1, 1), (2, 9), (3, 1)], [[11], [1, 9], [1]]),
        ([(-1, 1), (0, 1)], [[1], [1]]),
        ([(0, 1), (-1, 1), (0, 1)], [[1], [1], [1]]),
        ([(0, 0), (0, 0), (0, 0)], [[0, 0, 0]]),
    ],
    ids=[
        "nothing",
        "one message",
        "exactly full",
        "one byte more",
        "a message above the size",
        "cut at midnight",
        "days in turn",
        "empty payloads",
    ],
)
def test_messages_are_grouped_in_their_order(
    tmp_path: Path, events: list[tuple[int, int]], sizes: list[list[int]]
) -> None:
    records = _Records()

    captured = [(MIDNIGHT + at, size) for at, size in events]
    summary = _import(tmp_path, captured, most_bytes=10, records=records)

    assert _landed_sizes(tmp_path) == sizes
    assert (summary.segments, summary.messages) == (len(sizes), len(events))
    assert [segment.messages for segment in records.segments] == [len(group) for group in sizes]
    assert {s.day for s in records.segments} == {utc(at).date() for at, _ in captured}


@pytest.mark.parametrize("lasts_for", [0, 1, 2])
def test_an_interrupted_import_goes_on_where_it_was(tmp_path: Path, lasts_for: int) -> None:
    events = [(MIDNIGHT + number, 10) for number in range(4)]
    with pytest.raises(ConnectionError):
        _import(tmp_path, events, most_bytes=10, records=_Records(lasts_for=lasts_for))

    summary = _import(tmp_path, events, most_bytes=10, records=_Records())

    assert _landed_sizes(tmp_path) == [[10]] * 4
    assert (summary.messages, summary.resumed_segments) == (4, lasts_for + 1)


def test_importing_a_finished_file_again_is_new_traffic(tmp_path: Path) -> None:
    events = [(MIDNIGHT, 1)]
    for _ in range(2):
        summary = _import(tmp_path, events, most_bytes=10, records=_Records())

    assert summary.resumed_segments == 0
    assert _landed_sizes(tmp_path) == [[1], [1]]


def test_bad_lines_are_told_and_skipped(tmp_path: Path) -> None:
    file = tmp_path / "captured.jsonl"
    write_cloudevents([Event("t", b"x", MIDNIGHT)], file)
    good = file.read_text()
    file.write_text(f"nonsense\n\n{good}{{}}\n{good}")
    told: list[int] = []
    importer = Importer(tmp_path / "landing", cast("Gateway", _Records()), segment_max_bytes=10)

    summary = importer.run(file, lambda number, _: told.append(number))

    assert told == [1, 4]
    assert (summary.messages, summary.bad_lines) == (2, 2)


def _landed_sizes(directory: Path) -> list[list[int]]:
    """The payload sizes in each segment, in the order of their names."""
    files = sorted((directory / "landing").glob("segments/*/*.parquet"), key=lambda path: path.stem)
    return [[len(message.payload) for message in read_messages(path)] for path in files]
