"""A dry run counts what approving would make of staged rows."""

from typing import Any

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import Actions, ColumnAction, Verb, mirrored
from ilyama_protocol.governance.dry_run import (
    DryRun,
    SeenRows,
    StagedRow,
    dry_run,
    touched_assets,
    touched_keys,
)
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from tests.unit.governance.schemas import columns
from tests.unit.intake.traffic import TABLE, batch, decided, engine, staged, taken

TYPED = columns("id:INTEGER:pk1", "serial:TEXT:nn", "flow:REAL")
ALL = mirrored(column.name for column in TYPED)
ROW = {"id": 1, "serial": "a", "flow": 2.5}
IGNORE, DEFER = ColumnAction(Verb.IGNORE), ColumnAction(Verb.DEFER)


def _row(**values: Any) -> StagedRow:
    return StagedRow(ROW | values, "update", {"id": 1})


CASES: dict[str, tuple[StagedRow, Actions, DryRun]] = {
    "a row that fits": (_row(), ALL, DryRun(1, 1, 0, 3, 0)),
    "a new row": (_row()._replace(op="insert"), ALL, DryRun(1, 1, 0, 4, 0)),
    "a delete": (StagedRow({}, "delete", {"id": 1}), ALL, DryRun(1, 1, 0, 1, 0)),
    "a delete of no row": (StagedRow({}, "delete", {"id": "x"}), ALL, DryRun(1, 0, 1, 0, 0)),
    "a key that only the row lacks": (
        StagedRow({"serial": "a"}, "update", {"id": 1}), ALL, DryRun(1, 1, 0, 1, 0)
    ),
    "a null where it may be": (_row(flow=None), ALL, DryRun(1, 1, 0, 3, 0)),
    "a null where it may not be": (_row(serial=None), ALL, DryRun(1, 1, 0, 3, 0)),
    "a value of the wrong kind": (_row(flow="x"), ALL, DryRun(1, 1, 0, 2, 1)),
    "a key of the wrong kind": (_row(id="x"), ALL, DryRun(1, 0, 1, 0, 0)),
    "a wrong kind in a NOT NULL column": (_row(serial=7), ALL, DryRun(1, 0, 1, 0, 0)),
    "the same in an ignored one": (_row(serial=7), ALL | {"serial": IGNORE}, DryRun(1, 1, 0, 2, 0)),
    "a key of the wrong kind that is ignored": (
        StagedRow(ROW, "update", {"id": "x"}), ALL | {"id": IGNORE}, DryRun(1, 1, 0, 2, 0)
    ),
    "telemetry of the wrong kind": (StagedRow(ROW | {"serial": 7}), ALL, DryRun(1, 1, 0, 2, 1)),
    "a member without a column": (_row(other=1), ALL, DryRun(1, 1, 0, 3, 0)),
    "an ignored column": (_row(), ALL | {"flow": IGNORE}, DryRun(1, 1, 0, 2, 0)),
    "a deferred column": (_row(), ALL | {"flow": DEFER}, DryRun(1, 1, 0, 2, 0)),
    "a deferred key": (_row(), ALL | {"id": DEFER}, DryRun(1, 0, 1, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("row", "actions", "expected"), CASES.values(), ids=CASES.keys())
def test_a_row_is_counted(row: StagedRow, actions: Actions, expected: DryRun) -> None:
    assert dry_run([row], TYPED, actions) == expected


def _released(row: StagedRow) -> tuple[int, int, int]:
    """What the engine makes of a row: how many it shows, sets aside, and their datapoints."""
    body = {"commit_seq": 1, "op": row.op, "pk": row.pk, "row": row.content or None}
    return _shown(taken(batch(body, schema=TYPED)))


def _shown(met: IntakeEngine) -> tuple[int, int, int]:
    shown = met.decisions.outcomes.accepted
    points = sum(len(p.values) for rows in shown for p in rows.points if not p.quarantine_reason)
    return sum(len(rows.rows) for rows in shown), sum(met.decisions.staged_rows.values()), points


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1] is ALL])
def test_the_engine_makes_the_same_of_it(name: str) -> None:
    row, _, expected = CASES[name]
    if row.op is not None:
        told = (expected.would_materialize, expected.would_stay_staged, expected.datapoints)
        assert _released(row) == told


STRICT = ProjectRules(Policy(FirstSchema.REVIEW))
APPROVED = DeviceRules(approved={TABLE: {schema_hash(TABLE, TYPED): None}})


def _released_after_review(row: StagedRow) -> tuple[int, int, int]:
    """The same of a row that came once before its columns were announced, and once after."""
    bodies = [
        {"commit_seq": n, "op": row.op, "pk": row.pk, "row": row.content or None} for n in (1, 2)
    ]
    early = batch(bodies[0], schema=TYPED, announce=False)
    late = batch(bodies[1], schema=TYPED, number=1)
    staging = decided([early, late], engine(rulings=SchemaRulings(None, STRICT)))
    releasing = engine(staging.decisions.state.copy(), rulings=SchemaRulings(APPROVED, STRICT))
    for second, payload in enumerate((early, late)):
        releasing.release(staged(payload, second))
    return _shown(releasing)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1] is ALL])
def test_the_engine_types_no_row_from_before_the_columns_were_announced(name: str) -> None:
    row, _, _ = CASES[name]
    if row.op is not None:
        trial = dry_run([row._replace(typed=False), row], TYPED, ALL)
        told = (trial.would_materialize, trial.would_stay_staged, trial.datapoints)
        assert _released_after_review(row) == told


def test_columns_that_were_never_announced_give_datapoints_where_they_are_named() -> None:
    rows = [StagedRow({"a": 1, "b": "x"}, "update"), StagedRow({"a": None}, "update")]
    assert dry_run(rows, None, mirrored("ab")) == DryRun(2, 2, 0, 3, 0)
    assert dry_run(rows, None, mirrored("a")) == DryRun(2, 2, 0, 2, 0)


def test_the_keys_that_an_approval_feeds_are_named() -> None:
    actions = {"flow": ColumnAction(Verb.MAP, "site.flow"), "serial": IGNORE}

    assert touched_keys("pumps", ["id", "serial", "flow"], actions) == ["pumps.id", "site.flow"]


SAMPLE = StagedRow(ROW)
INSERT = _row()._replace(op="insert")
OF_ROWS = ["row_changes", "metric_datapoint", "state_datapoint", "current_value", "device_tables"]
OF_SAMPLES = ["telemetry_samples", *OF_ROWS[1:-1]]
NO_STATES = ALL | {"serial": IGNORE}
NOTHING = dict.fromkeys(ALL, IGNORE)
ASSETS: dict[str, tuple[list[StagedRow], Actions, list[str]]] = {
    "rows": ([_row()], ALL, OF_ROWS),
    "telemetry has no mirror": ([SAMPLE], ALL, OF_SAMPLES),
    "both": ([_row(), SAMPLE], ALL, [OF_ROWS[0], *OF_SAMPLES, OF_ROWS[-1]]),
    "no row to look at": ([], ALL, [OF_ROWS[0], *OF_SAMPLES, OF_ROWS[-1]]),
    "no text is published": (
        [_row()], NO_STATES, [name for name in OF_ROWS if name != "state_datapoint"]
    ),
    "the states of new rows are": ([INSERT], NO_STATES, OF_ROWS),
    "no number is published": (
        [SAMPLE], ALL | {"id": IGNORE, "flow": DEFER},
        [name for name in OF_SAMPLES if name != "metric_datapoint"],
    ),
    "a text came before its column was announced as a number": (
        [_row(flow="x")._replace(typed=False)], NO_STATES, OF_ROWS
    ),
    "nothing is published": ([_row()], NOTHING, ["row_changes", "device_tables"]),
    "nothing of telemetry is": ([SAMPLE], NOTHING, ["telemetry_samples"]),
    "everything stays staged": ([_row()], ALL | {"id": DEFER}, []),
}  # fmt: skip


def seen(
    rows: list[StagedRow], columns: tuple[SchemaColumn, ...] | None, actions: Actions
) -> SeenRows:
    """What is seen of rows while they pass, as they are."""
    found = SeenRows(columns, actions)
    assert [*found.passing(rows)] == rows
    return found


@pytest.mark.parametrize("case", ASSETS)
def test_assets_follow_from_what_is_staged_and_what_is_published(case: str) -> None:
    rows, actions, assets = ASSETS[case]
    assert touched_assets(seen(rows, TYPED, actions), TYPED, actions) == assets


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ({"flow": 1.5}, ["metric_datapoint"]),
        ({"flow": 1.5, "mode": "on"}, ["metric_datapoint"]),
        ({"flow": None}, ["metric_datapoint", "state_datapoint"]),
        ({"flow": True}, ["state_datapoint"]),
    ],
)
def test_of_columns_that_nobody_announced_the_values_say_the_kind(
    content: dict[str, Any], kinds: list[str]
) -> None:
    actions = mirrored(("flow",)) | {"mode": IGNORE}
    assets = touched_assets(seen([StagedRow(content)], None, actions), None, actions)
    assert assets == ["telemetry_samples", *kinds, "current_value"]
