"""What devices need to know of earlier drains is found, and nothing else disturbs it."""

from ilyama_protocol.intake.state import decode_state, encode_state
from tests.platform import Platform
from tests.spark.arrivals import drained
from tests.unit.intake.traffic import TABLE, A, batch, change

ONE, TWO = "acme/one", "acme/two"
PAYLOAD = batch(change(1), change(2), change(3))


def test_a_repeat_is_found_though_another_device_sent_the_same_bytes(platform: Platform) -> None:
    with platform.intake(spark_cores=1) as intake:
        drained(intake, [(ONE, PAYLOAD), (TWO, PAYLOAD)])

        (report,) = drained(intake, [(ONE, PAYLOAD)])

    assert report.integrity.balanced
    assert len(platform.rows("row_changes")) == 6


def test_a_recut_batch_of_an_earlier_drain_adds_only_what_is_new(platform: Platform) -> None:
    with platform.intake() as intake:
        drained(intake, [(ONE, PAYLOAD), (TWO, PAYLOAD)])

        drained(intake, [(ONE, batch(change(3), change(2, row={"mode": "other"}), change(0)))])

    stored = platform.rows("row_changes")
    assert sorted((r["commit_seq"], r["late"]) for r in stored if r["device_id"] == ONE) == [
        (0, True),
        (1, False),
        (2, False),
        (3, False),
    ]
    assert [row["arrivals"] for row in platform.rows("key_conflicts")] == [1]


def test_a_repeat_above_the_floor_of_its_lineage_adds_no_rows(platform: Platform) -> None:
    with platform.intake() as intake:
        drained(intake, [(ONE, PAYLOAD)])
        _raise_floor(platform, ONE, 1)

        drained(intake, [(ONE, PAYLOAD)])

    assert sorted(row["commit_seq"] for row in platform.rows("row_changes")) == [1, 2, 3]
    last = max(platform.rows("batch_ledger"), key=lambda line: line["drain_id"])
    assert (last["rows_new"], last["rows_duplicate"], last["rows_below_floor"]) == (0, 3, 1)


def test_drains_that_cannot_hold_what_is_asked_for_are_not_read(platform: Platform) -> None:
    recut = batch(change(5), change(4), change(6))
    with platform.intake() as intake:
        drained(intake, [(ONE, PAYLOAD)])
        for table in ("row_changes", "batch_ledger"):
            for file in intake.warehouse.files(table):
                (intake.warehouse.location(table) / file.path).unlink()
        drained(intake, [(ONE, batch(change(4), change(5)))])

        (report,) = drained(intake, [(ONE, recut), (ONE, batch(change(4), change(5)))])

    assert report.seal.findings.messages == 2
    assert (report.integrity.received, report.integrity.balanced) == (2, True)


def _raise_floor(platform: Platform, device_id: str, floor: int) -> None:
    with platform.gateway.transaction() as tx:
        state = decode_state(tx.device_states.of([device_id])[device_id].encode())
        state.lineage(TABLE).floors[A] = floor
        tx.device_states.advance([(device_id, encode_state(state).decode())], drain_id=1)
        tx.commit()
