"""Places on a device's clock, for messages that came before the device was known or come again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ilyama_protocol.intake.state import PAYLOAD_BYTES_PER_ROW
from ilyama_protocol.limits import INT64_MAX, Limits
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_protocol.validation import validate

_ANYTHING = Limits(payload_max_bytes=INT64_MAX, batch_max_rows=INT64_MAX)
"""Limits of no deployment: whatever one may take, this takes."""


class ClockPlace(NamedTuple):
    """A moment in microseconds, and the bytes of the message that takes it up."""

    at: int
    payload_bytes: int

    @property
    def end(self) -> int:
        """The first moment after it that another message may have."""
        return self.at + 1 + self.payload_bytes // PAYLOAD_BYTES_PER_ROW

    def fits(self, moments: int) -> bool:
        """Whether so many moments are within it."""
        return self.at + moments <= self.end


def moments_of(topic: str, payload: bytes) -> int:
    """How many moments a message takes up: a row batch has one for each row.

    Rows of telemetry bring their own, and what will be rejected has no rows.
    """
    kind = parse_topic(topic).kind
    if kind is not MessageKind.ROWS:
        return 1
    verdict = validate(kind, payload, limits=_ANYTHING, topic=topic)
    return len(verdict.op) if isinstance(verdict, RowBatch) else 1


class ClockPlaces:
    """The places that messages have taken on one clock, as spans without gaps."""

    def __init__(self, taken: Iterable[ClockPlace] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for place in sorted(taken):
            if self._ends and place.at <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], place.end)
            else:
                self._starts.append(place.at)
                self._ends.append(place.end)

    def take(self, at: int, payload_bytes: int) -> ClockPlace:
        """The first free place from a moment on; it is taken from now on."""
        place = ClockPlace(at, payload_bytes)
        span = bisect_right(self._starts, at)
        if span and self._ends[span - 1] > at:
            place = place._replace(at=self._ends[span - 1])
        while span < len(self._starts) and self._starts[span] < place.end:
            place = place._replace(at=self._ends[span])
            span += 1
        self._fill(span, place)
        return place

    def _fill(self, span: int, place: ClockPlace) -> None:
        """Take a place before a span, and close up with the one that ends where it begins."""
        if span and self._ends[span - 1] == place.at:
            self._ends[span - 1] = place.end
        else:
            self._starts.insert(span, place.at)
            self._ends.insert(span, place.end)
