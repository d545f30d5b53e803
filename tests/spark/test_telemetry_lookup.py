"""Telemetry of earlier drains is known: its batches, their contents, and the moments it told."""

import pytest

from tests.platform import Platform
from tests.spark.arrivals import drained_telemetry
from tests.unit.intake.traffic import NOW, TABLE, sample, telemetry

ONE, TWO = "acme/one", "acme/two"
FIRST = telemetry(sample(0, v=1), sample(1, v=2, mode="on"), seq=1)


def _outcomes(platform: Platform) -> list[str]:
    lines = sorted(platform.rows("batch_ledger"), key=lambda line: line["received_at"])
    return [line["code"] or line["outcome"] for line in lines if line["device_id"] == ONE]


def test_batches_of_earlier_drains_are_known_by_bytes_by_id_and_by_number(
    platform: Platform,
) -> None:
    second = telemetry(sample(9, v=3), seq=2)
    respelled = FIRST.replace(b",", b", ")
    with platform.intake() as intake:
        drained_telemetry(intake, [(ONE, FIRST), (TWO, FIRST)])
        drained_telemetry(intake, [(ONE, second)])

        drained_telemetry(intake, [(ONE, FIRST), (ONE, respelled)])
        drained_telemetry(intake, [(ONE, telemetry(sample(9, v=3), seq=1, number=99))])
        drained_telemetry(intake, [(ONE, telemetry(sample(9, v=3), seq=2, number=0))])
        drained_telemetry(intake, [(ONE, telemetry(sample(5, v=5), seq=7, number=1))])

    assert _outcomes(platform) == [
        "accepted",
        "accepted",
        "duplicate",
        "duplicate",
        "stale_batch_seq",
        "duplicate_batch_seq",
        "duplicate",
    ]
    assert len(platform.rows("telemetry_samples")) == 5
    (conflict,) = platform.rows("key_conflicts")
    assert (conflict["kind"], conflict["source_table"]) == ("telemetry batch", TABLE)
    assert '"batch_seq":1' in conflict["first"]
    assert '"batch_seq":7' in conflict["other"]


def test_moments_of_earlier_drains_keep_their_values(platform: Platform) -> None:
    again = telemetry(sample(1, v=2, mode="off"), sample(0, v=7, new=1), sample(2, v=4), seq=5)
    with platform.intake() as intake:
        drained_telemetry(intake, [(ONE, FIRST)])
        drained_telemetry(intake, [(ONE, again)])

    points = platform.rows("metric_datapoint")
    metrics = {(point["key"], point["ts"] - NOW, point["value"]) for point in points}
    assert metrics == {
        (f"{TABLE}.v", 0, 1.0),
        (f"{TABLE}.v", 1_000_000, 2.0),
        (f"{TABLE}.v", 2_000_000, 4.0),
        (f"{TABLE}.new", 0, 1.0),
    }
    conflicts = {(c["kind"], c["first"], c["other"]) for c in platform.rows("key_conflicts")}
    assert conflicts == {("datapoint", '"on"', '"off"'), ("datapoint", "1.0", "7.0")}


@pytest.mark.parametrize("first", ["number", "text"])
def test_at_one_moment_a_number_is_served_before_a_text(platform: Platform, first: str) -> None:
    batches = {"number": sample(0, v=1), "text": sample(0, v="on")}
    order = sorted(batches, key=lambda name: name != first)
    with platform.intake() as intake:
        for number, name in enumerate(order):
            drained_telemetry(intake, [(ONE, telemetry(batches[name], seq=number))])

    with platform.gateway.transaction() as tx:
        (value,) = tx.current_values.of_device(ONE)
    assert (value.kind, value.value_double, value.source) == ("metric", 1.0, "edge.telemetry")


def test_a_value_from_before_the_current_one_does_not_become_current(platform: Platform) -> None:
    with platform.intake() as intake:
        drained_telemetry(intake, [(ONE, telemetry(sample(5, v=5), seq=0))])
        drained_telemetry(intake, [(ONE, telemetry(sample(3, v=3), seq=1))])

    with platform.gateway.transaction() as tx:
        (value,) = tx.current_values.of_device(ONE)
    assert value.value_double == 5.0
