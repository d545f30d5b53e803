"""Bad days: poison, disagreement, crowds and two at once."""

import errno
from datetime import date

import pytest
from deltalake import DeltaTable
from sqlalchemy import create_engine, text

from ilyama_assets.drains import task
from ilyama_assets.drains.deciding import Decider
from ilyama_assets.drains.errors import DrainHeld, DrainInterrupted, WarehouseAhead
from ilyama_assets.drains.protocol import PATIENT_ATTEMPTS, Intake
from ilyama_resources.postgres import LockTaken
from tests.oracle import Event, Oracle
from tests.platform import Platform
from tests.streams import generate
from tests.tables import expected_tables, stored_rows


def _drain_all(intake: Intake) -> None:
    with intake.alone():
        while intake.drain() is not None:
            pass


def _poisoned(events: list[Event]) -> tuple[list[Event], Event]:
    """A stream, and one of its valid row batches whose batch_id is the poison."""
    lines = expected_tables(events)["batch_ledger"]
    index = next(i for i, line in enumerate(lines) if line["outcome"] == "accepted")
    return events, events[index]


def _batch_id(event: Event) -> str:
    (line,) = expected_tables([event])["batch_ledger"]
    return str(line["batch_id"])


def test_a_message_that_breaks_the_engine_is_set_aside_alone(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, bad = _poisoned(generate(21, batches=40, day_crossings=False))
    monkeypatch.setenv("POISON", f"error:{_batch_id(bad)}")
    platform.import_events(events)
    with platform.intake() as intake:
        _drain_all(intake)
    staged = [r for r in platform.rows("staged_rows") if r["staging_reason"] == "engine_error"]
    assert bad.payload in [row["payload"] for row in staged]
    assert all("poisoned" in row["error"] for row in staged)
    lines = platform.rows("batch_ledger")
    assert len(lines) == len(events)
    undecided = [line for line in lines if line["outcome"] == "staged" and line["code"] is None]
    assert len(undecided) == len(staged)


def test_a_device_that_kills_its_worker_cannot_stop_the_others(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, bad = _poisoned(generate(22, batches=30, devices=3, day_crossings=False))
    monkeypatch.setenv("POISON", f"death:{_batch_id(bad)}")
    platform.import_events(events)
    with platform.intake() as intake, intake.alone():
        for _ in range(PATIENT_ATTEMPTS):
            with pytest.raises(DrainInterrupted):
                intake.drain()
        assert intake.drain() is not None
    lines = platform.rows("batch_ledger")
    assert len(lines) == len(events)
    device = next(line["device_id"] for line in lines if line["topic"] == bad.topic)
    assert {line["outcome"] for line in lines if line["device_id"] == device} == {"staged"}
    assert any(line["outcome"] == "accepted" for line in lines)


def test_a_drain_of_nothing_but_rejected_messages_ends_like_any_other(platform: Platform) -> None:
    lines = generate(23, batches=40, day_crossings=False)
    outcomes = [line["outcome"] for line in expected_tables(lines)["batch_ledger"]]
    events = [
        event for event, outcome in zip(lines, outcomes, strict=True) if outcome == "rejected"
    ]
    assert events
    platform.import_events(events)
    platform.drain()
    platform.assert_equals_oracle(events)


def test_a_second_drain_is_told_that_one_is_at_work(platform: Platform) -> None:
    with (
        platform.intake() as intake,
        intake.alone(),
        pytest.raises(LockTaken),
        intake.alone(wait=False),
    ):
        pass


def test_a_drain_that_does_not_balance_is_held_until_it_is_released(platform: Platform) -> None:
    events = generate(23, batches=15, day_crossings=False)
    platform.import_events(events)
    engine = create_engine(platform.settings.postgres_url or "")
    with engine.begin() as connection:
        connection.execute(text("UPDATE segment SET messages = messages + 1"))
    with platform.intake() as intake, intake.alone():
        with pytest.raises(DrainHeld, match="accounted for"):
            intake.drain()
        assert platform.rows("raw_batches") == []
        with pytest.raises(DrainHeld, match="ilyama drains --release 1"):
            intake.drain()
    with engine.begin() as connection:
        connection.execute(text("UPDATE drain SET messages = messages - 1"))
    engine.dispose()
    assert platform.try_ilyama("drains", "--release", "7").returncode == 1
    platform.ilyama("drains", "--release", "1")
    with platform.gateway.transaction() as tx:
        assert [(line.verb, line.resource) for line in tx.audit.page(limit=9)] == [
            ("release", "drain/1")
        ]
    platform.drain()
    platform.assert_equals_oracle(events)


def test_records_older_than_the_tables_are_refused(platform: Platform) -> None:
    platform.import_events(generate(24, batches=5, day_crossings=False))
    with platform.intake() as intake:
        _drain_all(intake)
    engine = create_engine(platform.settings.postgres_url or "")
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE drain, segment, ledger_total, drain_seal"))
    engine.dispose()
    with pytest.raises(WarehouseAhead, match="older backup"), platform.intake():
        pass


def test_a_crowded_lineage_is_not_served_from_postgres(platform: Platform) -> None:
    events = generate(25, batches=60, pks_per_table=12)
    platform.import_events(events)
    with platform.intake(served_instances=6) as intake:
        _drain_all(intake)
    oracle = Oracle(served_instances=6)
    for event in events:
        oracle.feed(event)
    with platform.gateway.transaction() as tx:
        values = tx.current_values.of_owners(tx.devices.sample(1_000))
        served = {(v.owner_id, v.key, v.instance) for v in values}
    wanted = {
        (v["owner_id"], v["key"].replace("\0", "\ufffd"), v["instance"].replace("\0", "\ufffd"))
        for v in oracle.served_current_values()
    }
    assert served == wanted


def test_a_full_disk_stops_the_drain_and_counts_no_attempt(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task itself runs here, not on Spark, so that its disk can be full."""
    events = generate(26, batches=15, day_crossings=False)
    platform.import_events(events)
    with platform.intake() as intake:
        with monkeypatch.context() as patch, intake.alone():
            patch.setattr(task, "write_data_file", _no_room)
            patch.setattr(Decider, "_products", lambda _, orders: list(map(task.carry_out, orders)))
            with pytest.raises(DrainInterrupted, match="No space left"):
                intake.drain()
        assert platform.rows("raw_batches") == []
        with platform.gateway.transaction() as tx:
            unfinished = tx.drains.unfinished()
        assert unfinished is not None
        assert unfinished.attempts == 0
        _drain_all(intake)
    assert len(platform.rows("batch_ledger")) == len(events)


def _no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_replaying_a_day_adds_what_is_missing_and_nothing_else(platform: Platform) -> None:
    events = generate(27, batches=60)
    platform.import_events(events)
    with platform.intake() as intake:
        _drain_all(intake)
        before = stored_rows(platform.settings.warehouse, "metric_datapoint")
        DeltaTable(platform.settings.warehouse / "metric_datapoint").delete("key LIKE '%e%'")
        assert len(platform.rows("metric_datapoint")) < len(before)
        stored = platform.rows("row_changes") + platform.rows("telemetry_samples")
        days = sorted({row["day"] for row in stored})
        with intake.alone():
            reports = [intake.replay(date.fromisoformat(day)) for day in [*days, *days]]
    assert [r.integrity.breaches for r in reports] == [[]] * len(reports)
    platform.drain()
    expected = expected_tables(events)
    lines = platform.rows("batch_ledger")
    assert len([line for line in lines if line["origin"] == "live"]) == len(events)
    second = {r.drain.drain_id for r in reports[len(days) :]}
    assert not any(line["rows_new"] for line in lines if line["drain_id"] in second)
    for table in ("metric_datapoint", "state_datapoint", "quarantined_datapoints", "row_changes"):
        names = list(expected[table][0])
        found = [{name: row[name] for name in names} for row in platform.rows(table)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected[table]))
