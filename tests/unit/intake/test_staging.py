"""Batches of paused lineages are decided as ever, and set aside instead of shown."""

from dataclasses import replace

import pytest

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import Actions, Binding, ColumnAction, Verb, mirrored
from ilyama_protocol.governance.rules import DeviceRules
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.intake.outcomes import DecidedRows, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import BoundSchema, DeviceState
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import validate
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    A,
    B,
    accepted_places,
    batch,
    change,
    columns,
    counts,
    decided,
    last_line,
    message,
    staged,
    state_with,
)

KEYED = (
    SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=False),
    SchemaColumn("mode", Affinity.TEXT, pk_ordinal=0, not_null=True),
    SchemaColumn("level", Affinity.REAL, pk_ordinal=0, not_null=False),
)


def _engine(*reasons: PauseReason, origin: Origin = Origin.LIVE) -> IntakeEngine:
    pauses: dict[str, list[str]] = {TABLE: [*reasons]} if reasons else {}
    rulings = SchemaRulings(DeviceRules(pauses=pauses))
    return IntakeEngine(Device(DEVICE_ID), DeviceState(), rulings=rulings, origin=origin)


def _staged(engine: IntakeEngine) -> list[tuple[str, int]]:
    """The (reason, commit_seq) of every row that was set aside."""
    return [
        (part.reason.value, part.rows.batch.commit_seq[i])
        for part in engine.decisions.outcomes.staged_rows
        for i in part.rows.rows
    ]


@pytest.mark.parametrize("reason", PauseReason, ids=str)
def test_every_reason_of_a_pause_stages_what_comes(reason: PauseReason) -> None:
    engine = decided([batch(change(1), change(2))], _engine(reason))
    assert _staged(engine) == [("lineage_paused", 1), ("lineage_paused", 2)]
    assert accepted_places(engine) == []
    assert engine.current == {}
    assert (last_line(engine).outcome, counts(last_line(engine))) == (
        "staged",
        {"received": 2, "staged": 2},
    )


def test_other_tables_go_on() -> None:
    engine = decided([batch(change(1), table="valves")], _engine(PauseReason.OPERATOR))
    assert accepted_places(engine) == [(A, 1, False)]


def test_staged_rows_are_known_to_those_that_come_after_them() -> None:
    repeated = batch(change(2), change(1), number=1)
    other = batch(change(2, row={"mode": "on"}), number=2)
    engine = decided([batch(change(2)), repeated, other], _engine(PauseReason.OPERATOR))
    first, second, third = engine.decisions.outcomes.ledger
    assert counts(second) == {"received": 2, "duplicate": 1, "staged": 1}
    assert (third.outcome, counts(third)) == (
        "duplicate",
        {"received": 1, "duplicate": 1, "conflict": 1},
    )
    late = [part.rows.late for part in engine.decisions.outcomes.staged_rows]
    assert late == [set(), {1}]
    assert engine.decisions.state.lineages[TABLE].watermarks == {A: 2}
    assert first.rows_staged == 1


def test_the_backlog_is_counted_in_rows_and_payload_bytes() -> None:
    payload = batch(change(1), change(2))
    engine = decided([payload], _engine(PauseReason.OPERATOR))
    ((place, rows),) = engine.decisions.staged_rows.items()
    assert (place.source_table, place.reason, rows) == (TABLE, "lineage_paused", 2)
    assert engine.decisions.staged_bytes[place] == len(payload)


def test_the_turn_of_staged_rows_is_that_of_the_first_of_them() -> None:
    first, second = (batch(change(n), change(n + 4), epoch=epoch) for n, epoch in ((7, A), (3, B)))
    engine = decided([first, second], _engine(PauseReason.OPERATOR))
    assert [*engine.decisions.turns.values()] == [(NOW, 7)]

    engine = decided([second, first], _engine(PauseReason.OPERATOR))
    assert [*engine.decisions.turns.values()] == [(NOW, 3)]


def test_released_rows_are_what_they_would_have_been() -> None:
    payload = batch(change(2, row={"mode": 1}), change(1), schema=columns(mode="TEXT"))
    direct, paused = (
        decided([payload], _engine()),
        decided([payload], _engine(PauseReason.OPERATOR)),
    )
    (aside,) = paused.decisions.outcomes.staged_rows
    (shown,) = direct.decisions.outcomes.accepted
    rows = aside.rows
    whole = decided([payload], _engine()).decisions.state
    release = IntakeEngine(Device(DEVICE_ID), whole, origin=Origin.STAGED)
    again = DecidedRows(rows.arrival, _validated(payload), rows.rows, rows.late)
    release.release(again)
    (released,) = release.decisions.outcomes.accepted
    assert released.points == shown.points
    assert released.late == shown.late == {1}
    assert release.current == direct.current
    assert counts(last_line(release)) == {"received": 2, "new": 2}


def test_an_older_message_that_is_decided_after_a_newer_one_does_not_become_current() -> None:
    engine = _engine(origin=Origin.STAGED)
    newer, older = batch(change(1, row={"v": "newer"})), batch(change(2, row={"v": "older"}))

    engine.decide(message(newer, at=NOW + 10))
    engine.decide(message(older, at=NOW, position=1))

    (value,) = engine.current[f"{TABLE}.v"].values()
    assert (value.value, value.ts) == ("newer", NOW + 10)


def _validated(payload: bytes) -> RowBatch:
    verdict = validate(MessageKind.ROWS, payload, registered=True)
    assert isinstance(verdict, RowBatch)
    return verdict


@pytest.mark.parametrize(
    ("pk", "row", "fits"),
    [
        (1, {"id": 1, "mode": "on"}, True),
        (1, {"id": None, "mode": None}, True),
        (1, {"id": 1, "mode": 5}, False),
        (1, {"id": "x", "mode": "on"}, False),
        ("x", {"id": 1, "mode": "on"}, False),
        ("x", {"mode": "on"}, False),
        (1, {"id": 1, "mode": "on", "level": "high"}, True),
        (1, {"id": 1, "mode": True}, True),
        (1, {"id": True, "mode": "on"}, False),
    ],
)
def test_only_misfits_of_keys_and_not_null_columns_set_their_row_aside(
    pk: object, row: dict[str, object], fits: bool
) -> None:
    engine = decided([batch(change(1, pk=pk, row=row), change(2), schema=KEYED)], _engine())
    misfits = [] if fits else [("materialization_failed", 1)]
    assert _staged(engine) == misfits
    assert accepted_places(engine) == [(A, 1, False)] * fits + [(A, 2, False)]
    line = last_line(engine)
    assert (line.outcome, line.rows_new, line.rows_staged) == ("accepted", 1 + fits, 1 - fits)


def test_a_delete_under_a_key_that_does_not_fit_is_set_aside() -> None:
    engine = decided([batch(change(1, pk="x", op="delete"), schema=KEYED)], _engine())
    assert _staged(engine) == [("materialization_failed", 1)]
    assert (last_line(engine).outcome, last_line(engine).code) == (
        "staged",
        "materialization_failed",
    )


def test_five_misfits_in_a_row_open_the_circuit_from_the_next_batch_on() -> None:
    misfits = [change(n, pk="x") for n in range(4)]
    state = decided([batch(*misfits, schema=KEYED)], _engine()).decisions.state
    assert state.lineages[TABLE].failures == 4
    engine = IntakeEngine(Device(DEVICE_ID), state)
    fifth = batch(change(4, pk="x"), change(5), number=1, schema=KEYED)
    decided([fifth, batch(change(6), number=2, schema=KEYED)], engine)
    assert [pause[:2] for pause in engine.decisions.pauses] == [(TABLE, "circuit_open")]
    assert accepted_places(engine) == [(A, 5, False)]
    assert _staged(engine) == [("materialization_failed", 4), ("lineage_paused", 6)]
    assert engine.decisions.state.lineages[TABLE].failures == 0


def test_a_row_that_fits_begins_the_count_anew() -> None:
    rows = [change(n, pk=1 if n == 4 else "x") for n in range(9)]
    engine = decided([batch(*rows, schema=KEYED)], _engine())
    assert engine.decisions.pauses == []
    assert engine.decisions.state.lineages[TABLE].failures == 4


@pytest.mark.parametrize(
    ("pk", "row"), [(1, {"id": 1, "mode": 5}), ("x", {"id": "x", "mode": "on"})]
)
def test_a_column_that_an_approval_ignores_is_not_judged_in_the_key_neither(
    pk: object, row: dict[str, object]
) -> None:
    engine = _ignoring("id", "mode")
    decided([batch(change(1, pk=pk, row=row), schema=KEYED)], engine)
    assert accepted_places(engine) == [(A, 1, False)]
    assert _staged(engine) == []


def test_the_parts_of_a_key_that_are_shown_are_judged_still() -> None:
    paired = (*KEYED[:1], SchemaColumn("site", Affinity.INTEGER, 2, not_null=True))
    engine = _ignoring("id", schema=paired)
    changes = [change(n, row={}) | {"pk": pk} for n, pk in enumerate(PAIRS, 1)]
    decided([batch(*changes, schema=paired)], engine)
    assert accepted_places(engine) == [(A, 1, False), (A, 2, False)]
    assert _staged(engine) == [("materialization_failed", 3)]


def test_each_row_is_judged_by_what_was_bound_when_it_came() -> None:
    """The key was left for later, and shown after that."""
    known = {schema_hash(TABLE, KEYED): Binding(0, LEFT, {"id": NOW + 5_000_000}, only_named=True)}
    schemas = {schema_hash(TABLE, KEYED): BoundSchema(0, KEYED)}
    releasing = IntakeEngine(Device(DEVICE_ID), state_with(schemas=schemas, accepted=known))
    for second in (1, 9):
        misfit = batch(change(second, pk="x", row={}), number=second, schema=KEYED)
        releasing.release(staged(misfit, second))
    assert accepted_places(releasing) == [(A, 1, False)]
    assert _staged(releasing) == [("materialization_failed", 9)]


LEFT = mirrored(["id", "mode", "level"])
PAIRS = [{"id": "x", "site": 1}, {"id": "y", "site": 1}, {"id": "x", "site": "z"}]


def _ignoring(*names: str, schema: tuple[SchemaColumn, ...] = KEYED) -> IntakeEngine:
    """An engine of a device whose schema was approved but for some columns."""
    actions = mirrored(column.name for column in schema)
    actions |= dict.fromkeys(names, ColumnAction(Verb.IGNORE))
    approved: dict[str, Actions | None] = {schema_hash(TABLE, schema): actions}
    rulings = SchemaRulings(DeviceRules(approved={TABLE: approved}))
    return IntakeEngine(Device(DEVICE_ID), DeviceState(), rulings=rulings)


def test_a_schema_that_drops_not_null_is_accepted_and_its_misfits_are_quarantined() -> None:
    relaxed = tuple(replace(column, not_null=False) for column in KEYED)
    misfit = {"id": 1, "mode": 5}
    strict, nullable = (
        batch(change(n, row=misfit), number=n, schema=schema)
        for n, schema in enumerate((KEYED, relaxed), 1)
    )
    engine = decided([strict, nullable], _engine())
    assert _staged(engine) == [("materialization_failed", 1)]
    assert accepted_places(engine) == [(A, 2, False)]
    assert engine.decisions.schemas.reviews == {}


def test_a_release_counts_no_failures() -> None:
    payload = batch(*(change(n, pk="x") for n in range(5)), schema=KEYED)
    paused = decided([payload], _engine(PauseReason.OPERATOR)).decisions
    (aside,) = (part.rows for part in paused.outcomes.staged_rows)
    release = IntakeEngine(Device(DEVICE_ID), paused.state, origin=Origin.STAGED)
    release.release(DecidedRows(aside.arrival, _validated(payload), aside.rows, aside.late))
    assert _staged(release) == [("materialization_failed", n) for n in range(5)]
    assert release.decisions.pauses == []
    assert release.decisions.state.lineages[TABLE].failures == 0
