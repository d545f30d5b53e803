"""A device table is the device's table: its rows as they are now, with the device's columns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetCheckSeverity
from pyspark.sql import functions as F
from sqlalchemy import create_engine, text

from ilyama_assets.checks.mirrors import mirror_report
from ilyama_assets.device_tables import bring_up, metadata_of
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.mirrors.taking_up import take_up
from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.governance.bindings import Binding, ColumnAction, Verb
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.intake.state import decode_state, encode_state
from ilyama_protocol.moments import micros
from ilyama_resources.delta.device_tables import Mirror
from ilyama_resources.landing.directory import register
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_service import devices
from ilyama_service.reviewing import Reviewing
from tests.mirrors import Mirrors
from tests.platform import Platform
from tests.spark.arrivals import drained, drained_telemetry
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    A,
    B,
    Change,
    batch,
    change,
    columns,
    sample,
    telemetry,
)

ONE, TWO = "acme/one", "acme/two"
PUMPS = columns(v="INTEGER", w="TEXT")
BIG = 2**53 + 1
REPLAY = "0193a0e0-0000-8000-8000-000000000001"


@pytest.fixture
def intake(platform: Platform) -> Iterator[Intake]:
    with platform.intake(allow_additive_continue=True) as parts:
        yield parts


def _put(seq: int, pk: Any = 1, **row: Any) -> Change:
    return change(seq, pk, row=row)


def _gone(seq: int, pk: Any = 1) -> Change:
    return change(seq, pk, op="delete")


def _key(device: str = ONE, pk: Any = 1) -> tuple[str, str]:
    return device, json.dumps({"id": pk}, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.usefixtures("way")
def test_rows_follow_changes_deletes_late_changes_and_new_epochs(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(
        intake,
        [
            (ONE, batch(_put(1, 1, v=1), _put(2, 2, v=2), _put(3, 3, v=3), schema=PUMPS)),
            (TWO, batch(_put(1, 1, v=BIG, w="é\0"), schema=PUMPS)),
        ],
    )
    mirrors.derive()
    assert mirrors.rows(TABLE) == {
        _key(pk=1): {"v": 1},
        _key(pk=2): {"v": 2},
        _key(pk=3): {"v": 3},
        _key(TWO): {"v": BIG, "w": "é\0"},
    }

    drained(intake, [(ONE, batch(_put(9, 1, v=9), _gone(8, 2), schema=PUMPS))])
    mirrors.derive()
    assert mirrors.rows(TABLE)[_key(pk=1)] == {"v": 9}
    assert _key(pk=2) not in mirrors.rows(TABLE)

    late = batch(_put(5, 1, v=5), _put(6, 2, v=6), _gone(4, 3), schema=PUMPS)
    drained(intake, [(ONE, late)])
    mirrors.derive()
    assert mirrors.rows(TABLE)[_key(pk=1)] == {"v": 9}
    assert _key(pk=2) not in mirrors.rows(TABLE)
    assert _key(pk=3) not in mirrors.rows(TABLE)

    drained(intake, [(ONE, batch(_put(1, 2, v=21), schema=PUMPS, epoch=B))])
    mirrors.derive()
    assert mirrors.rows(TABLE) == {
        _key(pk=1): {"v": 9},
        _key(pk=2): {"v": 21},
        _key(TWO): {"v": BIG, "w": "é\0"},
    }
    assert mirrors.differing() == 0
    (row,) = [r for r in mirrors.stored(TABLE) if r["__journal_epoch"] == B]
    came = micros(row["__received_at"])
    assert (row["__epoch_rank"], row["__commit_seq"], row["__drain_id"]) == (came, 1, 4)


@pytest.mark.usefixtures("way")
def test_a_journal_that_came_first_and_is_accepted_last_overwrites_nothing(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1), schema=PUMPS, epoch=B))])
    mirrors.derive()

    older = batch(_put(8, 1, v=8), _put(9, 2, v=9), schema=PUMPS, epoch=A)
    before = Message("", 0, f"{ONE}/sync/rows/batch", older, NOW - 10_000_000, rejection_id=REPLAY)
    segment = intake.landing.write(SegmentIds.fresh()[0], [before], origin=Origin.REJECTION)
    register(intake.gateway, [segment])
    drained(intake)
    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(pk=1): {"v": 1}, _key(pk=2): {"v": 9}}
    assert mirrors.differing() == 0


def test_a_column_that_was_ignored_is_not_mirrored(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1, w="secret"), schema=PUMPS))])
    _bind(intake, ONE, {"w": ColumnAction(Verb.IGNORE)})

    mirrors.derive()

    assert mirrors.types(TABLE) == {"v": "bigint"}
    assert mirrors.rows(TABLE) == {_key(): {"v": 1}}
    assert mirrors.differing() == 0


def test_parity_wants_every_bound_column(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1, w="shown"), schema=PUMPS))])
    _bind(intake, ONE, {"w": ColumnAction(Verb.IGNORE)})
    mirrors.derive()
    assert mirrors.differing() == 0

    _bind(intake, ONE, {"w": ColumnAction(Verb.MIRROR)})
    assert mirrors.differing() == 1

    mirrors.derive(rebuild=True)
    assert mirrors.rows(TABLE) == {_key(): {"v": 1, "w": "shown"}}
    assert mirrors.differing() == 0


def _bind(intake: Intake, device: str, actions: dict[str, ColumnAction]) -> None:
    """Let a device's only schema be bound so."""
    with intake.gateway.transaction() as tx:
        state = decode_state(tx.device_states.of([device])[device].encode())
        lineage = state.lineages[TABLE]
        lineage.accepted = {named: Binding(0, actions) for named in lineage.schemas}
        tx.device_states.advance([(device, encode_state(state).decode())], drain_id=1)
        tx.commit()


def test_a_value_that_does_not_fit_its_column_is_null(intake: Intake, mirrors: Mirrors) -> None:
    schema = columns(i="INTEGER", r="REAL", n="NUMERIC", t="TEXT", b="BLOB")
    fits = {"i": BIG, "r": 1, "n": 1.5, "t": "x", "b": "AAE="}
    nested = {"i": 2.0, "r": 0.5, "n": 3, "t": {"b": [1, True], "a": None}, "b": True}
    misfits = {"i": True, "r": "x", "n": [1], "t": 5, "b": 1.5}
    unbound = {"x": "not named by the schema"}
    rows: list[dict[str, Any]] = [fits, nested, misfits, unbound, dict.fromkeys(fits)]
    drained(intake, [(ONE, batch(*(_put(n, n, **r) for n, r in enumerate(rows)), schema=schema))])

    mirrors.derive()

    assert mirrors.types(TABLE) == {
        "i": "bigint",
        "r": "double",
        "n": "double",
        "t": "string",
        "b": "string",
    }
    found = mirrors.rows(TABLE)
    assert found[_key(pk=0)] == fits
    assert found[_key(pk=1)] == nested | {"i": 2, "t": '{"a":null,"b":[1,true]}', "b": "true"}
    assert [found[_key(pk=n)] for n in (2, 3, 4)] == [{}, {}, {}]


@pytest.mark.usefixtures("way")
def test_columns_are_added_and_keep_what_was_there(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1), schema=PUMPS))])
    mirrors.derive()
    before = mirrors.version(TABLE)
    wider = columns(v="INTEGER", w="TEXT", x="REAL")

    drained(intake, [(ONE, batch(_put(2, 2, v=2, x=0.5), schema=wider))])
    mirrors.derive()

    assert mirrors.names(TABLE)[:5] == ["device_id", "v", "w", "x", "__pk"]
    assert mirrors.rows(TABLE) == {_key(pk=1): {"v": 1}, _key(pk=2): {"v": 2, "x": 0.5}}
    assert before < mirrors.version(TABLE) <= before + 2


def test_columns_without_a_schema_go_by_their_values(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, i=BIG, d=1, s="x", n=None, m=1)))])
    mirrors.derive()
    assert mirrors.types(TABLE) == {"d": "bigint", "i": "bigint", "m": "bigint", "s": "string"}

    drained(intake, [(ONE, batch(_put(2, 2, i=0.5, d=0.5, s=True, n=1, m=2)))])
    mirrors.derive()

    assert mirrors.types(TABLE) == {
        "d": "double",
        "i": "string",
        "m": "bigint",
        "n": "bigint",
        "s": "string",
    }
    assert mirrors.rows(TABLE) == {
        _key(pk=1): {"i": str(BIG), "d": 1.0, "s": "x", "m": 1},
        _key(pk=2): {"i": "0.5", "d": 0.5, "s": "true", "n": 1, "m": 2},
    }
    assert mirrors.differing() == 0


def test_a_numeric_column_loses_no_digit(intake: Intake, mirrors: Mirrors) -> None:
    schema = columns(whole="NUMERIC", mixed="NUMERIC")
    drained(intake, [(ONE, batch(_put(1, 1, whole=1, mixed=0.5), schema=schema))])
    mirrors.derive()
    assert mirrors.types(TABLE) == {"whole": "double", "mixed": "double"}

    drained(intake, [(ONE, batch(_put(2, 2, whole=BIG, mixed=BIG), schema=schema))])
    mirrors.derive()

    assert mirrors.types(TABLE) == {"whole": "bigint", "mixed": "string"}
    assert mirrors.rows(TABLE) == {
        _key(pk=1): {"whole": 1, "mixed": "0.5"},
        _key(pk=2): {"whole": BIG, "mixed": str(BIG)},
    }


@pytest.mark.usefixtures("way")
def test_no_number_is_lost_whatever_its_column_would_rather_have(
    intake: Intake, mirrors: Mirrors
) -> None:
    names = columns(i="INTEGER", j="INTEGER", r="REAL", s="REAL")
    key = SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True)
    schema = (key, *names)
    usual = {"id": 1, "i": 1, "j": BIG, "r": 1, "s": 0.5}
    drained(intake, [(ONE, batch(_put(1, 1, **usual), schema=schema))])
    mirrors.derive()
    assert mirrors.rows(TABLE) == {_key(pk=1): usual}
    assert [*mirrors.types(TABLE).values()] == [*["bigint"] * 3, *["double"] * 2]

    odd = {"id": 1.5, "i": 0.5, "j": 0.5, "r": BIG, "s": BIG}
    drained(intake, [(ONE, batch(_put(2, 1.5, **odd), schema=schema))])
    mirrors.derive()

    assert [*mirrors.types(TABLE).values()] == ["double", "double", "string", "bigint", "string"]
    assert mirrors.rows(TABLE) == {
        _key(pk=1): usual | {"j": str(BIG), "s": "0.5"},
        _key(pk=1.5): odd | {"j": "0.5", "s": str(BIG)},
    }
    assert mirrors.differing() == 0


def test_parity_notices_a_column_that_cannot_hold_its_values(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1.5), schema=PUMPS))])
    mirrors.derive()
    _narrow(intake, Mirror(TABLE), "v")
    assert mirrors.rows(TABLE) == {_key(): {}}
    assert mirrors.differing() == 1

    mirrors.derive(rebuild=True)
    assert mirrors.rows(TABLE) == {_key(): {"v": 1.5}}
    assert mirrors.differing() == 0


def _narrow(intake: Intake, mirror: Mirror, column: str) -> None:
    """Let a column be a bigint, without its values."""
    location = str(intake.warehouse.location(mirror.name))
    rows = intake.session().read.format("delta").load(location)
    empty = rows.withColumn(column, F.lit(None).cast("bigint"))
    narrow = empty.withMetadata(column, rows.schema[column].metadata)
    writer = narrow.write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(location)


def test_a_schema_that_comes_later_gives_its_columns_their_types(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1, w="x", odd=1), schema=PUMPS, announce=False))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(2, 2, v=0.5, w="y", odd=2), schema=PUMPS, number=1))])
    mirrors.derive()

    assert mirrors.types(TABLE) == {"odd": "bigint", "v": "double", "w": "string"}
    assert mirrors.rows(TABLE) == {
        _key(pk=1): {"v": 1, "w": "x", "odd": 1},
        _key(pk=2): {"v": 0.5, "w": "y"},
    }
    assert mirrors.differing() == 0


ODD_NAMES = (
    *("a b", "a,b;{}()=", "tab\tline\n", "quote \" and ' and `", "back\\slash", "select", "%"),
    *("%25", "", ".", "a.b", "device_id", "DEVICE_ID", "__pk", "__deleted", "_", "x\0y"),
    *("temp\u00e9rature", "za\u017c\u00f3\u0142\u0107", "\U0001f600", "Mode", "mode", "MODE"),
    *("\u00df", "SS", "\u017f", "s", "\u212a", "k", "\u0130", "i", "\u0131", "I"),
)
"""Among them letters that are one and the same once their case is folded."""


@pytest.mark.usefixtures("way")
def test_any_name_of_a_column_is_kept_apart_and_found_again(
    intake: Intake, mirrors: Mirrors
) -> None:
    row = {name: number for number, name in enumerate(ODD_NAMES)}
    drained(intake, [(ONE, batch(_put(1, 1, **row)))])
    mirrors.derive()
    again = {name: number + 1 for name, number in row.items()} | {"mOde": 0}
    drained(intake, [(ONE, batch(_put(2, 1, **again)))])
    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(): again}
    assert mirrors.differing() == 0


def test_five_hundred_columns_are_mirrored(intake: Intake, mirrors: Mirrors) -> None:
    schema = columns(**{f"c{number}": "INTEGER" for number in range(500)})
    row = {f"c{number}": number for number in range(500)}
    drained(intake, [(ONE, batch(_put(1, 1, **row), schema=schema))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(2, 1, **row), _put(3, 2, c7=-1), schema=schema))])
    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(pk=1): row, _key(pk=2): {"c7": -1}}


@pytest.mark.usefixtures("way")
def test_a_column_that_has_no_place_is_told_by_every_run_and_by_parity(
    intake: Intake, mirrors: Mirrors
) -> None:
    long = "n" * 256
    schema = columns(**{"v": "INTEGER", long: "INTEGER"})
    for seq in (1, 2):
        drained(intake, [(ONE, batch(_put(seq, 1, v=seq, **{long: 7}), schema=schema))])
        run, touched = bring_up(mirrors.progress, mirrors.parts, rebuild=False)

        told = metadata_of(mirrors.parts.warehouse, run, touched)
        assert told["columns left out"] == 1
        *_, line = told["some columns left out"].value.splitlines()
        assert line == f"|  | {TABLE} | {'n' * 100} | 256 |"

    (compared,) = mirrors.compared()
    assert (compared.wrong, compared.left_out) == (0, [long])
    found = mirror_report(mirrors.chosen(), [compared])
    assert (found.passed, found.severity) == (False, AssetCheckSeverity.WARN)
    assert found.metadata["columns that are left out"].value == 1
    assert "row_changes" in str(found.metadata["what to do"].value)


def test_tables_have_places_of_their_own_whatever_their_names(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    names = ("../x", "..", "/etc", "Pumps", "pumps", "a%2Fb", "a/b", "😀" * 128)
    drained(
        intake,
        [
            (ONE, batch(_put(n, n, v=n), schema=PUMPS, table=name, number=n))
            for n, name in enumerate(names)
        ],
    )
    mirrors.derive()

    assert {mirror.source_table for mirror in mirrors.all()} == {*names}
    for number, name in enumerate(names):
        assert mirrors.rows(name) == {_key(pk=number): {"v": number}}
    tables = platform.settings.warehouse / "device_tables" / "projectless"
    assert len([*tables.iterdir()]) == len(names)


def _move(platform: Platform, device: str, project: str) -> None:
    statement = "UPDATE device SET project_id = :project WHERE device_id = :device"
    _execute(platform, statement, project=project, device=device)


def test_projects_have_tables_of_their_own_and_a_rebuild_moves_devices(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    payload = batch(_put(1, 1, v=1), schema=PUMPS)
    drained(intake, [(ONE, payload), (TWO, payload)])
    mirrors.derive()
    assert {*mirrors.rows(TABLE)} == {_key(ONE), _key(TWO)}

    _move(platform, TWO, "projectless")
    mirrors.derive(rebuild=True)
    assert {*mirrors.rows(TABLE)} == {_key(ONE)}
    assert {*mirrors.rows(TABLE, "projectless")} == {_key(TWO)}

    _move(platform, ONE, "projectless")
    mirrors.derive(rebuild=True)
    assert mirrors.rows(TABLE) == {}
    assert {*mirrors.rows(TABLE, "projectless")} == {_key(ONE), _key(TWO)}
    assert mirrors.all() == [Mirror(TABLE, "projectless"), Mirror(TABLE)]


def _move_and_note(platform: Platform, device: str, project: str | None) -> None:
    """As a person moves a device."""
    with platform.gateway.transaction() as tx:
        desk = Reviewing(platform.settings.policy)
        devices.move(tx, device, {"project_id": project}, desk=desk, actor="test")
        tx.commit()


@pytest.mark.usefixtures("way")
def test_rows_follow_a_device_that_moves_and_no_other_is_touched(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    rows = batch(_put(1, 1, v=1), _put(2, 2, v=2), _gone(3, 3), schema=PUMPS)
    drained(intake, [(ONE, rows), (TWO, rows)])
    drained(intake, [(TWO, batch(_put(5, 1, v=1), schema=PUMPS, table="valves"))])
    mirrors.derive()
    valves = mirrors.version("valves")

    _move_and_note(platform, ONE, "acme")
    assert mirrors.derive() == [Mirror(TABLE, "acme"), Mirror(TABLE)]

    assert mirrors.rows(TABLE, "acme") == {_key(ONE, 1): {"v": 1}, _key(ONE, 2): {"v": 2}}
    assert mirrors.rows(TABLE) == {_key(TWO, 1): {"v": 1}, _key(TWO, 2): {"v": 2}}
    assert mirrors.version("valves") == valves
    assert mirrors.differing() == 0
    assert mirrors.derive() == []


@pytest.mark.usefixtures("way")
def test_devices_that_change_places_take_new_changes_and_deletes_along(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    rows = batch(_put(1, 1, v=1), _put(2, 2, v=2), schema=PUMPS)
    drained(intake, [(ONE, rows), (TWO, rows)])
    _move_and_note(platform, TWO, "acme")
    mirrors.derive()

    _move_and_note(platform, ONE, "acme")
    _move_and_note(platform, TWO, None)
    drained(intake, [(ONE, batch(_gone(3, 1), _put(4, 2, v=4), schema=PUMPS))])
    mirrors.derive()

    assert mirrors.rows(TABLE, "acme") == {_key(ONE, 2): {"v": 4}}
    assert mirrors.rows(TABLE) == {_key(TWO, 1): {"v": 1}, _key(TWO, 2): {"v": 2}}
    assert mirrors.differing() == 0


def test_rows_follow_a_device_that_moves_on_and_stay_with_one_that_comes_back(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    rows = batch(_put(1, 1, v=1), schema=PUMPS)
    drained(intake, [(ONE, rows), (TWO, rows)])
    mirrors.derive()
    for device, project in ((ONE, "acme"), (ONE, "waterworks"), (TWO, "acme"), (TWO, None)):
        _move_and_note(platform, device, project)
    assert mirrors.compared() == []

    mirrors.derive()

    assert mirrors.rows(TABLE, "waterworks") == {_key(ONE): {"v": 1}}
    assert mirrors.rows(TABLE) == {_key(TWO): {"v": 1}}
    assert mirrors.differing() == 0


def test_a_move_during_a_run_is_for_the_next_one(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1), schema=PUMPS))])
    mirrors.derive()
    _move_and_note(platform, ONE, "acme")
    with mirrors.progress.next_run() as run:
        take_up(mirrors.parts, run)
        _move_and_note(platform, ONE, "waterworks")
    assert mirrors.rows(TABLE, "acme") == {_key(): {"v": 1}}

    mirrors.derive()

    places = [mirrors.rows(TABLE, project) for project in ("waterworks", "acme", None)]
    assert places == [{_key(): {"v": 1}}, {}, {}]


def test_only_touched_tables_are_written(intake: Intake, mirrors: Mirrors) -> None:
    drained(
        intake,
        [(ONE, batch(_put(1, v=1), schema=PUMPS, table=name)) for name in ("pumps", "valves")],
    )
    mirrors.derive()
    before = mirrors.version("valves")

    drained(intake, [(ONE, batch(_put(2, v=2), schema=PUMPS, table="pumps"))])

    assert mirrors.derive() == [Mirror("pumps")]
    assert mirrors.version("valves") == before
    assert mirrors.derive() == []


def test_a_run_tells_the_rows_and_bytes_of_the_tables_that_it_touched(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, v=1), schema=PUMPS))])
    run, touched = bring_up(mirrors.progress, mirrors.parts, rebuild=False)
    told = metadata_of(mirrors.parts.warehouse, run, touched)

    files = mirrors.parts.warehouse.files(Mirror(TABLE).name)
    assert (told["dagster/row_count"], told["bytes"]) == (1, sum(file.size for file in files))
    *_, line = told["tables"].value.splitlines()
    assert f"| {TABLE} | 1 | {told['bytes']:,} |" in line


@pytest.mark.usefixtures("way")
def test_a_row_released_after_its_delete_does_not_come_back(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 7, v=0), schema=PUMPS))])
    drained(intake, [(ONE, batch(_gone(3, 1), schema=PUMPS))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(2, 1, v=1), _put(4, 8, v=8), schema=PUMPS))])
    _make_a_release_of(platform, intake, drain_id=3)

    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(pk=7): {"v": 0}, _key(pk=8): {"v": 8}}


def test_a_release_reads_the_history_of_no_device_but_its_own(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(TWO, batch(_put(1, 1, v=1), _gone(2, 2), schema=PUMPS))])
    drained(intake, [(ONE, batch(_put(1, 7, v=0), _gone(3, 1), schema=PUMPS))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(2, 1, v=1), schema=PUMPS))])
    _make_a_release_of(platform, intake, drain_id=3)
    drained(intake, [(TWO, batch(_put(3, 1, v=3), schema=PUMPS))])
    _lose_changes_of(intake, drain_id=1)

    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(pk=7): {"v": 0}, _key(TWO): {"v": 3}}


def test_a_release_that_wrote_no_change_reads_no_history(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1), schema=PUMPS))])
    mirrors.derive()
    drained_telemetry(intake, [(ONE, telemetry(sample(v=1.5), table="levels"))])
    drained(intake, [(ONE, batch(_put(2, 1, v=2), schema=PUMPS))])
    _execute(platform, "UPDATE drain SET origin = 'staged' WHERE drain_id = 2")
    _lose_changes_of(intake, drain_id=1)

    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(): {"v": 2}}


def test_releases_of_more_keys_than_a_statement_names_undo_no_delete(
    platform: Platform, intake: Intake, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ilyama_assets.transforms.newest_changes.MOST_LITERALS", 1)
    both = (ONE, TWO)
    drained(intake, [(device, batch(_gone(3, 1), schema=PUMPS)) for device in both])
    mirrors.derive()
    rows = batch(_put(2, 1, v=1), _put(4, 8, v=8), schema=PUMPS)
    drained(intake, [(device, rows) for device in both])
    _make_a_release_of(platform, intake, drain_id=2)

    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(device, 8): {"v": 8} for device in both}


def test_a_drain_that_the_records_forgot_undoes_no_delete(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(ONE, batch(_gone(3, 1), schema=PUMPS))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(2, 1, v=1), schema=PUMPS))])
    _make_a_release_of(platform, intake, drain_id=2)
    drained(intake, [(ONE, batch(_put(5, 9, v=9), schema=PUMPS))])
    _forget(platform, drain_id=2)

    mirrors.derive()

    assert mirrors.rows(TABLE) == {_key(pk=9): {"v": 9}}


def _forget(platform: Platform, *, drain_id: int) -> None:
    """As compaction leaves the records of a drain of long ago."""
    for table in ("ledger_total", "segment", "drain"):
        _execute(platform, f"DELETE FROM {table} WHERE drain_id = :id", id=drain_id)


def _lose_changes_of(intake: Intake, *, drain_id: int) -> None:
    """Take the files of a drain away: whoever reads them fails."""
    for path in intake.warehouse.files_within("row_changes", {"drain_id": (drain_id, drain_id)}):
        Path(path).unlink()


def _make_a_release_of(platform: Platform, intake: Intake, *, drain_id: int) -> None:
    """As if the rows of a drain had been decided before all others, and staged until then."""
    location = intake.warehouse.location("row_changes")
    statement = f"UPDATE delta.`{location}` SET late = false WHERE drain_id = {drain_id}"
    intake.session().sql(statement).collect()
    _execute(platform, "UPDATE drain SET origin = 'staged' WHERE drain_id = :id", id=drain_id)


def _execute(platform: Platform, statement: str, **values: Any) -> None:
    engine = create_engine(platform.settings.postgres_url or "")
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def test_tables_whose_changes_do_not_fit_memory_together_are_taken_up_one_by_one(
    intake: Intake, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ilyama_assets.mirrors.taking_up.MOST_AT_ONCE", 700)
    long = "x" * 1_000
    drained(
        intake,
        [
            (ONE, batch(_put(1, v=1), schema=PUMPS)),
            (ONE, batch(_put(2, v=2), table="valves")),
            (ONE, batch(_put(3, w=long), table="notes")),
        ],
    )
    mirrors.derive()
    found = [mirrors.rows(table) for table in (TABLE, "valves", "notes")]
    assert found == [{_key(): {"v": 1}}, {_key(): {"v": 2}}, {_key(): {"w": long}}]


def test_a_table_too_large_for_memory_is_merged_however_small_its_files_are(
    intake: Intake, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ilyama_assets.mirrors.writing.MOST_HELD", 10)
    for seq in (1, 2):
        drained(intake, [(ONE, batch(_put(seq, seq, v=seq), schema=PUMPS))])
        mirrors.derive()
    assert mirrors.rows(TABLE) == {_key(pk=1): {"v": 1}, _key(pk=2): {"v": 2}}
