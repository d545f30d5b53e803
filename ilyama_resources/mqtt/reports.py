"""What a landing session has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from ilyama_resources.landing.segment_files import Segment


@dataclass
class LandingReport:
    """Counts since the report began.

    Attributes:
        messages: Messages that landed and were acknowledged.
        bytes: Their payloads' bytes.
        segments: Segments that landed.
        unregistered: Of these, segments that Postgres does not know yet.
        days: Arrival days of what landed.
        connects: Connections that were made.
        fullest: How full the memory for messages was at most, from 0 to 1.
        disk_trouble: Why nothing can be written at the moment, in a sentence.
        broker_trouble: Why nothing can be received at the moment, in a sentence.
    """

    messages: int = 0
    bytes: int = 0
    segments: int = 0
    unregistered: int = 0
    days: set[date] = field(default_factory=set)
    connects: int = 0
    fullest: float = 0.0
    disk_trouble: str | None = None
    broker_trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        """What is wrong at the moment; None when all is well."""
        return self.disk_trouble or self.broker_trouble

    def add(self, segments: list[Segment], *, registered: bool) -> None:
        """Count segments that landed."""
        self.segments += len(segments)
        self.unregistered += 0 if registered else len(segments)
        self.messages += sum(segment.messages for segment in segments)
        self.bytes += sum(segment.bytes for segment in segments)
        self.days.update(segment.day for segment in segments)
