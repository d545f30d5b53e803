"""What is to be released is read in full, or what is missing of it is told."""

import errno
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from ilyama_assets.drains import staged_reading
from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.staged_reading import StagedRowsMissing, read_staged, read_undecided
from ilyama_assets.tables import STAGED_ROWS
from ilyama_protocol.governance.rules import DeviceRules
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.intake.outcomes import DecidedRows, DecidedSamples, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState
from ilyama_resources.delta.data_files import PARTITION, DataFile, write_data_file
from ilyama_resources.delta.staged_files import staged_files
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    TOPIC,
    A,
    B,
    batch,
    change,
    decided,
    message,
    sample,
    telemetry,
)

DRAIN = 7
REJECTION = "0193a0e0-0000-8000-8000-000000000001"


def _engine_of_a_paused_table() -> IntakeEngine:
    rules = SchemaRulings(DeviceRules(pauses={TABLE: [PauseReason.OPERATOR]}))
    return IntakeEngine(Device(DEVICE_ID), DeviceState(), history=History(), rulings=rules)


def _paused() -> IntakeEngine:
    return decided([batch(change(1), change(2))], _engine_of_a_paused_table())


def _broken() -> IntakeEngine:
    engine = IntakeEngine(Device(DEVICE_ID), DeviceState())
    engine.stage(message(batch(change(1), change(2))), "a bug")
    return engine


def _sum(engine: IntakeEngine) -> StagedSum:
    ((place, rows),) = engine.decisions.staged_rows.items()
    return StagedSum(DEVICE_ID, *place, DRAIN, rows, engine.decisions.staged_bytes[place])


def _written(folder: Path, engine: IntakeEngine) -> DataFile:
    rows = Encoder(DRAIN, Origin.LIVE).encode(engine.decisions.outcomes)[STAGED_ROWS.name]
    (day,) = rows[PARTITION].unique().to_pylist()
    rows = rows.drop_columns([PARTITION])
    return write_data_file(folder, STAGED_ROWS, rows, day=day, name="staged")


def _file(folder: Path, engine: IntakeEngine) -> str:
    return str(folder / _written(folder, engine).path)


def test_files_are_chosen_by_the_devices_and_drains_that_they_hold(tmp_path: Path) -> None:
    engine, warehouse = _paused(), Warehouse(tmp_path, "here")
    warehouse.ensure(STAGED_ROWS)
    held = _sum(engine)
    assert staged_files(warehouse, [held]) == []

    location = warehouse.location(STAGED_ROWS.name)
    warehouse.add(STAGED_ROWS.name, DRAIN, [_written(location, engine)])

    (file,) = staged_files(warehouse, [held])
    assert (file.devices, file.drains) == ((DEVICE_ID, DEVICE_ID), (DRAIN, DRAIN))
    assert list(read_staged([file.path], [held])) == [DEVICE_ID]
    assert staged_files(warehouse, [held._replace(drain_id=8), held._replace(device_id="a")]) == []


def test_rows_that_are_there_are_read(tmp_path: Path) -> None:
    engine = _paused()
    found = read_staged([_file(tmp_path, engine)], [_sum(engine)])
    assert found[DEVICE_ID]["commit_seq"].to_pylist() == [1, 2]


def test_telemetry_is_released_first_and_then_batches_by_epoch_and_commit(tmp_path: Path) -> None:
    payloads = [
        batch(change(1), epoch=A, number=1),
        batch(change(4), change(9), epoch=B, number=2),
        telemetry(sample(1), seq=1),
        batch(change(5), epoch=B, number=3),
        batch(change(3), epoch=B, number=4),
        batch(change(8), epoch=A, number=5),
        batch(change(7), epoch=A, number=6),
        telemetry(sample(2), seq=2),
    ]
    engine = _engine_of_a_paused_table()
    for place, payload in enumerate(payloads):
        topic = TELEMETRY_TOPIC if b"batch_seq" in payload else TOPIC
        engine.decide(message(payload, at=NOW + place * 1_000_000, position=place, topic=topic))
    sums = [
        StagedSum(DEVICE_ID, *place, DRAIN, rows, engine.decisions.staged_bytes[place])
        for place, rows in engine.decisions.staged_rows.items()
    ]
    found = read_staged([_file(tmp_path, engine)], sums)[DEVICE_ID]
    in_order = staged_reading.staged_batches(DEVICE_ID, found, rank=engine.decisions.state.rank)
    assert [_told(part) for part in in_order] == [
        (1,),
        (2,),
        (A, 1),
        (A, 7),
        (A, 8),
        (B, 3),
        (B, 4, 9),
        (B, 5),
    ]


def _told(part: DecidedRows | DecidedSamples) -> tuple[str | int, ...]:
    if isinstance(part, DecidedSamples):
        return (part.batch.batch_seq,)
    return (part.batch.journal_epoch, *(part.batch.commit_seq[row] for row in part.rows))


def test_messages_that_are_there_are_read(tmp_path: Path) -> None:
    engine = _broken()
    found = read_undecided([_file(tmp_path, engine)], [_sum(engine)])
    assert [m.payload for m in found[DEVICE_ID]] == [batch(change(1), change(2))]


def test_a_message_that_replays_a_rejection_still_does_when_it_is_released(tmp_path: Path) -> None:
    engine = IntakeEngine(Device(DEVICE_ID), DeviceState(), origin=Origin.REJECTION)
    replayed = msgspec.structs.replace(message(batch(change(1))), rejection_id=REJECTION)
    engine.stage(replayed, "a bug")
    (found,) = read_undecided([_file(tmp_path, engine)], [_sum(engine)])[DEVICE_ID]
    assert found == replayed


def test_messages_in_files_that_name_no_rejections_are_read(tmp_path: Path) -> None:
    engine = _broken()
    path = _file(tmp_path, engine)
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["rejection_id"]), path)
    (found,) = read_undecided([path], [_sum(engine)])[DEVICE_ID]
    assert found.rejection_id is None


def test_only_the_sums_whose_rows_are_missing_are_told(tmp_path: Path) -> None:
    engine = _paused()
    there = _sum(engine)
    lost = there._replace(drain_id=DRAIN + 1)
    with pytest.raises(StagedRowsMissing, match=f"2 staged rows .*{TABLE} of {DEVICE_ID}") as told:
        read_staged([_file(tmp_path, engine)], [there, lost])
    assert told.value.missing == [lost]


def test_a_message_that_is_missing_is_told(tmp_path: Path) -> None:
    engine = _broken()
    there = _sum(engine)
    lost = there._replace(drain_id=DRAIN + 1)
    with pytest.raises(StagedRowsMissing) as told:
        read_undecided([_file(tmp_path, engine)], [there, lost])
    assert told.value.missing == [lost]


def test_the_rows_of_a_lost_file_are_missing(tmp_path: Path) -> None:
    found = _sum(_paused())
    with pytest.raises(StagedRowsMissing) as told:
        read_staged([str(tmp_path / "lost.parquet")], [found])
    assert told.value.missing == [found]


@pytest.mark.parametrize("damage", ["cut short", "not Parquet", "wrong bytes"])
def test_the_rows_of_a_damaged_file_are_missing(tmp_path: Path, damage: str) -> None:
    engine = _paused()
    path = Path(_file(tmp_path, engine))
    whole = path.read_bytes()
    spoilt = {
        "cut short": whole[: len(whole) // 2],
        "not Parquet": b"",
        "wrong bytes": b"PAR1" + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :],
    }
    path.write_bytes(spoilt[damage])
    with pytest.raises(StagedRowsMissing) as told:
        read_staged([str(path)], [_sum(engine)])
    assert told.value.missing == [_sum(engine)]


def test_a_disk_that_fails_is_no_reason_to_give_rows_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error", path)

    engine = _paused()
    path = _file(tmp_path, engine)
    monkeypatch.setattr(staged_reading, "holds_rows", fail)
    with pytest.raises(OSError, match="Input/output"):
        read_staged([path], [_sum(engine)])


def test_a_message_that_was_timed_anew_still_tells_when_it_first_came(tmp_path: Path) -> None:
    engine = IntakeEngine(Device(DEVICE_ID), DeviceState(), origin=Origin.REJECTION)
    sent = message(batch(change(1)), at=NOW + 9)
    engine.stage(replace(sent, timed_anew=True, arrived_at=NOW), "a bug")
    ((again,),) = read_undecided([_file(tmp_path, engine)], [_sum(engine)]).values()
    assert (again.landed_at, again.arrived_at) == (NOW + 9, NOW)
