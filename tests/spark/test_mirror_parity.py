"""The check of device tables notices every row that another writer has spoiled."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ilyama_assets.drains.protocol import Intake
from ilyama_assets.mirrors.taking_up import take_up
from ilyama_protocol.canonical import pk_hash
from ilyama_resources.postgres.devices import DevicePlaces
from tests.mirrors import Mirrors
from tests.platform import Platform
from tests.spark.arrivals import drained
from tests.unit.intake.traffic import TABLE, batch, change, columns

DEVICE = "acme/one"
PUMPS = columns(v="INTEGER")
GONE = {"__pk": '{"id":3}', "__source_pk_hash": pk_hash({"id": 3})}


@pytest.fixture
def intake(platform: Platform) -> Iterator[Intake]:
    with platform.intake() as parts:
        yield parts


def set_value(table: DeltaTable, row: dict[str, Any]) -> None:
    table.update(updates={"v": "77"}, predicate=f"__pk = '{row['__pk']}'")


def make_older(table: DeltaTable, row: dict[str, Any]) -> None:
    table.update(updates={"v": "1", "__commit_seq": "1"}, predicate=f"__pk = '{row['__pk']}'")


def drop(table: DeltaTable, row: dict[str, Any]) -> None:
    table.delete(f"__pk = '{row['__pk']}'")


def double(table: DeltaTable, row: dict[str, Any]) -> None:
    append(table, row)


def resurrect(table: DeltaTable, row: dict[str, Any]) -> None:
    append(table, row | GONE)


def append(table: DeltaTable, row: dict[str, Any]) -> None:
    write_deltalake(table, pa.Table.from_pylist([row], schema=_schema(table)), mode="append")


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.table(table.to_pyarrow_table()).schema


@pytest.mark.parametrize("spoil", [set_value, make_older, drop, double, resurrect])
def test_parity_counts_and_shows_a_row_that_was_spoiled(
    intake: Intake, mirrors: Mirrors, spoil: Callable[[DeltaTable, dict[str, Any]], None]
) -> None:
    rows = [change(n, pk=n % 3, row={"v": n}) for n in range(1, 7)]
    drained(intake, [(DEVICE, batch(*rows, change(7, 3), change(8, 3, op="delete"), schema=PUMPS))])
    mirrors.derive()
    (sound,) = mirrors.compared()
    assert (sound.rows, sound.wrong, [*sound.sample]) == (3, 0, [])

    first = mirrors.stored(TABLE)[0]
    spoil(mirrors.delta(TABLE), first)

    (found,) = mirrors.compared()
    (shown,) = found.sample
    assert found.wrong == 1
    assert shown["device_id"] == DEVICE
    assert (shown["ours"] is None, shown["theirs"] is None) == (spoil is drop, spoil is resurrect)
    assert shown["copies"] == (None if spoil is drop else 1 + (spoil is double))


def test_tables_are_compared_as_they_were_chosen_while_later_runs_go_on(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(DEVICE, batch(change(1, row={"v": 1}), schema=PUMPS))])
    mirrors.derive()
    chosen = mirrors.chosen()

    drained(intake, [(DEVICE, batch(change(2, row={"v": 2.5}), schema=PUMPS))])
    mirrors.derive()

    assert [*mirrors.rows(TABLE).values()] == [{"v": 2.5}]
    assert mirrors.differing(chosen) == mirrors.differing() == 0


def test_a_table_that_an_interrupted_run_has_taken_further_is_not_compared(
    intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(DEVICE, batch(change(1, row={"v": 1}), schema=PUMPS))])
    mirrors.derive()
    drained(intake, [(DEVICE, batch(change(2, row={"v": 2}), schema=PUMPS))])
    with pytest.raises(_Died):
        _take_up_and_die(mirrors)

    assert mirrors.chosen().tables == []


def _take_up_and_die(mirrors: Mirrors) -> None:
    with mirrors.progress.next_run() as run:
        take_up(mirrors.parts, run)
        raise _Died


class _Died(Exception):
    """The process that derived tables is gone."""


def test_a_device_that_moves_while_its_tables_are_compared_makes_no_difference(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    drained(intake, [(DEVICE, batch(change(1, row={"v": 1}), schema=PUMPS))])
    mirrors.derive()
    chosen = mirrors.chosen()

    with platform.gateway.transaction() as tx:
        tx.devices.move(DEVICE, DevicePlaces(None, "elsewhere", None))
        tx.commit()

    assert mirrors.differing(chosen) == 0
