"""A dry run counts what approving would make of staged rows."""

from typing import Any

import pytest

from ilyama_protocol.governance.bindings import Actions, ColumnAction, Verb, mirrored
from ilyama_protocol.governance.dry_run import DryRun, dry_run, touched_keys
from tests.unit.governance.schemas import columns

TYPED = columns("id:INTEGER:pk1", "serial:TEXT:nn", "flow:REAL")
ALL = mirrored(column.name for column in TYPED)
ROW = {"id": 1, "serial": "a", "flow": 2.5}
IGNORE, DEFER = ColumnAction(Verb.IGNORE), ColumnAction(Verb.DEFER)

CASES: dict[str, tuple[dict[str, Any] | None, Actions, DryRun]] = {
    "a row that fits": (ROW, ALL, DryRun(1, 1, 0, 3, 0)),
    "a delete": (None, ALL, DryRun(1, 1, 0, 0, 0)),
    "a null where it may be": (ROW | {"flow": None}, ALL, DryRun(1, 1, 0, 3, 0)),
    "a value of the wrong kind": (ROW | {"flow": "x"}, ALL, DryRun(1, 1, 0, 2, 1)),
    "a key of the wrong kind": (ROW | {"id": "x"}, ALL, DryRun(1, 0, 1, 0, 0)),
    "a hole in a NOT NULL column": (ROW | {"serial": None}, ALL, DryRun(1, 0, 1, 0, 0)),
    "a member without a column": (ROW | {"other": 1}, ALL, DryRun(1, 1, 0, 3, 0)),
    "an ignored column": (ROW, ALL | {"flow": IGNORE}, DryRun(1, 1, 0, 2, 0)),
    "a deferred column": (ROW, ALL | {"flow": DEFER}, DryRun(1, 1, 0, 2, 0)),
    "a deferred key": (ROW, ALL | {"id": DEFER}, DryRun(1, 0, 1, 0, 0)),
}


@pytest.mark.parametrize(("row", "actions", "expected"), CASES.values(), ids=CASES.keys())
def test_a_row_is_counted(row: dict[str, Any] | None, actions: Actions, expected: DryRun) -> None:
    assert dry_run([row], TYPED, actions) == expected


def test_columns_that_were_never_announced_all_give_datapoints() -> None:
    assert dry_run([{"a": 1, "b": "x"}, {"a": None}], None, {}) == DryRun(2, 2, 0, 3, 0)


def test_the_keys_that_an_approval_feeds_are_named() -> None:
    actions = {"flow": ColumnAction(Verb.MAP, "site.flow"), "serial": IGNORE}

    assert touched_keys("pumps", ["id", "serial", "flow"], actions) == ["pumps.id", "site.flow"]
