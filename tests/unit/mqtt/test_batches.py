from collections.abc import Iterator
from typing import Any, cast

import pytest

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import MICROSECONDS_PER_DAY, day_of
from ilyama_resources.mqtt.batches import Batch, BatchLimits, one_day_each

LIMITS = BatchLimits(
    wait_s=0.2, quiet_s=0.02, burst_bytes=400, enough_bytes=600, max_bytes=1000, max_messages=10
)
NO_CONNECTION = cast(Any, None)


def message(
    landed_at: int = 0, *, size: int = 10, topic: str = "", properties: dict[str, str] | None = None
) -> Message:
    payload = b"." * size
    return Message("", 0, topic, payload, landed_at, user_properties=properties or {})


def batch_of(messages: int, *, size: int) -> Batch:
    batch = Batch(NO_CONNECTION, started_at=100.0)
    for number in range(messages):
        batch.add(message(size=size), number, now=100.0 + number / 100)
    return batch


@pytest.mark.parametrize(
    ("messages", "size", "now", "due_in"),
    [
        pytest.param(1, 10, 100.0, 0.2, id="young-and-small"),
        pytest.param(1, 10, 100.15, 0.05, id="older"),
        pytest.param(1, 10, 100.2, 0.0, id="old-enough"),
        pytest.param(1, 10, 160.0, 0.0, id="overdue"),
        pytest.param(2, 500, 100.0, 0.0, id="as-large-as-allowed"),
        pytest.param(2, 300, 100.0, 0.0, id="large-enough"),
        pytest.param(2, 199, 100.01, 0.19, id="not-quite-as-large"),
        pytest.param(2, 200, 100.01, 0.02, id="a-burst-that-may-go-on"),
        pytest.param(2, 200, 100.03, 0.0, id="a-burst-that-is-over"),
        pytest.param(10, 1, 100.0, 0.0, id="as-many-as-allowed"),
        pytest.param(9, 1, 100.0, 0.2, id="not-quite-as-many"),
    ],
)
def test_a_batch_is_due_by_age_size_or_number(
    messages: int, size: int, now: float, due_in: float
) -> None:
    assert batch_of(messages, size=size).due_in(LIMITS, now) == pytest.approx(due_in)


def test_a_message_without_a_number_is_not_acknowledged() -> None:
    batch = Batch(NO_CONNECTION, started_at=0.0)
    batch.add(message(), 7, now=0.0)
    batch.add(message(), None, now=0.0)
    assert (len(batch.messages), batch.to_acknowledge) == (2, [7])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"topic": "a" * 985}, id="topic"),
        pytest.param({"properties": {"firmware_version": "ü" * 485}}, id="property"),
        pytest.param({"properties": {"a" * 985: "1"}}, id="name-of-a-property"),
    ],
)
def test_a_batch_is_full_of_topics_and_properties_too(words: dict[str, Any]) -> None:
    batch = Batch(NO_CONNECTION, started_at=0.0)
    batch.add(message(**words), 1, now=0.0)
    assert not batch.is_full(LIMITS)
    batch.add(message(), 2, now=0.0)
    assert batch.is_full(LIMITS)


def moments_of(groups: Iterator[list[Message]]) -> list[list[int]]:
    return [[message.landed_at for message in group] for group in groups]


def test_midnight_cuts_a_batch() -> None:
    midnight = 20_000 * MICROSECONDS_PER_DAY
    moments = [midnight - 2, midnight - 1, midnight, midnight + 1]
    groups = moments_of(one_day_each([message(moment) for moment in moments]))
    assert groups == [moments[:2], moments[2:]]
    assert day_of(groups[0][-1]) != day_of(groups[1][0])


def test_a_clock_set_back_over_midnight_keeps_the_order() -> None:
    midnight = 20_000 * MICROSECONDS_PER_DAY
    moments = [midnight, midnight - 1, midnight + 1]
    groups = moments_of(one_day_each([message(moment) for moment in moments]))
    assert groups == [[midnight], [midnight - 1], [midnight + 1]]
