"""The record of a run: what was published and acknowledged, line by line as it happens.

A message is written down before it is published, and its acknowledgement after it came. So a run
that is killed leaves no message unmentioned, and claims no acknowledgement that did not come.

Errors:
    RecordMissing   there is no record of that run
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import Settings, private_directory
from ilyama_service.simulator.messages import Behaviour, Sent
from ilyama_service.simulator.plan import FleetPlan

ENDLESS: Final = "endless"
KEPT_ENDLESS_RUNS: Final = 3
"""An endless fleet writes one record after another and keeps the last ones."""
_SUFFIX: Final = ".jsonl"


class RecordMissing(PlatformError):
    """There is no record of that run."""


class Header(msgspec.Struct, frozen=True, tag_field="type", tag="run"):
    """The first line: which run this is, and what it was to send."""

    run: str
    started_at: datetime
    seeded: bool
    plan: FleetPlan


class Acknowledged(msgspec.Struct, frozen=True, tag_field="type", tag="acknowledged"):
    """Ranges of message numbers that the broker has acknowledged, both ends included."""

    ranges: list[tuple[int, int]]


Line = Header | Sent | Acknowledged
_ENCODER: Final = msgspec.json.Encoder()


class RunRecord:
    """Writes the record of one run."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        self._write([header])

    @classmethod
    def begin(cls, settings: Settings, plan: FleetPlan, *, seeded: bool, endless: bool) -> Self:
        """Begin the record of a new run; of endless ones, the oldest are removed."""
        directory = private_directory(record_directory(settings))
        started_at = datetime.now(UTC)
        name = f"{started_at:%Y%m%dT%H%M%S%f}-{plan.seed}" + (f"-{ENDLESS}" if endless else "")
        if endless:
            _forget_old(directory)
        return cls(directory / f"{name}{_SUFFIX}", Header(name, started_at, seeded, plan))

    def sent(self, messages: Sequence[Sent]) -> None:
        """Write down messages that are about to be published."""
        self._write(messages)

    def acknowledged(self, numbers: Sequence[int]) -> None:
        """Write down messages that the broker has acknowledged."""
        if numbers:
            self._write([Acknowledged(ranges_of(numbers))])

    def close(self) -> None:
        """Force everything to disk."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _write(self, lines: Sequence[Line]) -> None:
        data = memoryview(_ENCODER.encode_lines(lines))
        while data:
            data = data[os.write(self._descriptor, data) :]


def record_directory(settings: Settings) -> Path:
    """Where records lie."""
    return settings.home / "simulator"


def find_record(settings: Settings, run: str | None) -> Path:
    """The record of a run by its name or file; without one, that of the newest run.

    Raises:
        RecordMissing: there is none.
    """
    directory = record_directory(settings)
    if run is None:
        records = sorted(directory.glob(f"*{_SUFFIX}"))
        if not records:
            raise RecordMissing(f"there is no run in {directory}: `ilyama simulate` makes one.")
        return records[-1]
    for path in (Path(run), directory / f"{run}{_SUFFIX}"):
        if path.is_file():
            return path
    raise RecordMissing(f"there is no record of a run {run!r} in {directory}.")


def next_batch_seqs(settings: Settings, slug: str) -> dict[int, int]:
    """Where the devices of a fleet go on with the numbers of their telemetry, by device."""
    numbers: Counter[int] = Counter()
    for path in record_directory(settings).glob(f"*{_SUFFIX}"):
        lines = read_lines(path)
        header = next(lines, None)
        if isinstance(header, Header) and header.plan.slug == slug:
            sent = lines if header.plan.telemetry else iter(())
            numbers |= Counter(_after(header.plan.batch_seqs, sent))
    return dict(numbers)


def _after(numbers: Mapping[int, int], lines: Iterator[Line]) -> dict[int, int]:
    sampled = {
        (line.device, line.batch_id)
        for line in lines
        if isinstance(line, Sent) and line.behaviour is Behaviour.TELEMETRY
    }
    return dict(Counter(numbers) + Counter(device for device, _ in sampled))


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a record; a last one that was cut short by a crash is left out."""
    decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield decoder.decode(line)


def ranges_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers as ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _forget_old(directory: Path) -> None:
    records = sorted(directory.glob(f"*-{ENDLESS}{_SUFFIX}"))
    for path in records[: -(KEPT_ENDLESS_RUNS - 1)]:
        path.unlink()
