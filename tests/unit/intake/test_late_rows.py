"""A row is late when a newer change of its primary key was accepted before it."""

import pytest

from ilyama_protocol.canonical import pk_hash
from ilyama_protocol.intake.history import History, NewestChange
from tests.unit.intake.traffic import (
    TABLE,
    A,
    B,
    accepted_places,
    batch,
    change,
    decided,
    engine,
    state_with,
    taken,
)


@pytest.mark.parametrize(
    ("before", "row", "late"),
    [
        ([(A, 5)], (A, 6), False),
        ([(A, 5)], (A, 4), True),
        ([(A, 5), (A, 9)], (A, 7), True),
        ([(A, 5), (A, 3)], (A, 4), True),
        ([(A, 5)], (B, 1), False),
        ([(A, 5), (B, 1)], (A, 6), True),
        ([(A, 5), (B, 2)], (B, 1), True),
        ([(B, 5)], (A, 6), False),
        ([(B, 5), (A, 1)], (B, 6), True),
    ],
)
def test_lateness_follows_the_order_of_epochs_and_numbers(
    before: list[tuple[str, int]], row: tuple[str, int], late: bool
) -> None:
    arrivals = [batch(change(seq), epoch=epoch) for epoch, seq in [*before, row]]

    assert accepted_places(taken(*arrivals))[-1] == (*row, late)


@pytest.mark.parametrize(("pk", "table"), [(2, TABLE), (1, "valves")])
def test_changes_of_another_row_make_nothing_late(pk: int, table: str) -> None:
    met = taken(batch(change(5)), batch(change(4, pk=pk), table=table))

    assert accepted_places(met)[-1] == (A, 4, False)


def test_rows_of_one_batch_are_accepted_in_order_of_index() -> None:
    met = taken(batch(change(5), change(3), change(4, pk=2), change(9), change(8)))

    late = {seq for _, seq, is_late in accepted_places(met) if is_late}
    assert late == {3, 8}


@pytest.mark.parametrize(("stored", "late"), [((A, 6), True), ((A, 4), False), ((B, 1), True)])
def test_a_change_of_an_earlier_drain_makes_a_row_late(stored: tuple[str, int], late: bool) -> None:
    newest = NewestChange(TABLE, pk_hash({"id": 1}), *stored)
    told = engine(state_with(watermarks={A: 9, B: 9}), history=History.of(newest=[newest]))

    decided([batch(change(5))], told)

    assert accepted_places(told) == [(A, 5, late)]


def test_a_late_row_gives_datapoints_that_never_become_current() -> None:
    met = taken(batch(change(5, row={"v": "new"})), batch(change(4, row={"v": "old"})))

    assert met.decisions.outcomes.accepted[-1].points[-1].values == ["old"]
    assert met.current["pumps.v"]["1"].value == "new"


def test_a_late_delete_does_not_end_a_row() -> None:
    met = taken(batch(change(5, op="insert")), batch(change(4, op="delete")))

    assert met.current["pumps.__deleted"]["1"].value == "false"
