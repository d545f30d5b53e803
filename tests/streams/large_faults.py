"""Messages at and beyond the limits."""

from dataclasses import replace
from typing import Any

from tests.streams.devices import Batch, Message, rows_message
from tests.streams.stream import Stream

MAX_BYTES = 524_288


def largest_payload(stream: Stream) -> list[Message]:
    """A payload of exactly the allowed size, and the same with one byte more."""
    message = stream.next_batch().message()
    full = message.payload.ljust(MAX_BYTES)
    return [replace(message, payload=full), replace(message, payload=full + b" ")]


def far_too_large(stream: Stream) -> list[Message]:
    """600 KiB, which would be no JSON either."""
    return [replace(stream.next_batch().message(), payload=b"{" * 600 * 1024)]


def most_rows(stream: Stream) -> list[Message]:
    """As many rows as a batch may have, new ones and then known ones."""
    batch = _short_rows(stream, 4096)
    return [batch.message(), stream.again(batch, rows=batch.rows[::-1]).message()]


def too_many_rows(stream: Stream) -> list[Message]:
    """One row too many, and 5,000 of which one is bad as well."""
    one, many = _short_rows(stream, 4097), _short_rows(stream, 5000)
    return [one.message(), replace(many, rows=(*many.rows[:-1], {"commit_seq": 1})).message()]


def deep_nesting(stream: Stream) -> list[Message]:
    """Brackets that would exhaust a stack."""
    root = stream.device().root
    texts = ("[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000)
    return [rows_message(root, text) for text in texts]


def _short_rows(stream: Stream, count: int) -> Batch:
    device = stream.device()
    template = device.batch(device.tables[0], stream.rng, rows=1)
    numbers = [device.take_seq(template.epoch) for _ in range(count)]
    return replace(template, table="log", rows=tuple(map(_short_row, numbers)))


def _short_row(commit_seq: int) -> dict[str, Any]:
    pk = {"n": commit_seq % 1500}
    return {"commit_seq": commit_seq, "op": "update", "pk": pk, "row": {"v": 1}}


LARGE_FAULTS = (largest_payload, far_too_large, most_rows, too_many_rows, deep_nesting)
