"""The CHECK rules as Arrow evaluates them, over every combination of what they look at."""

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from ilyama_assets.checks.rules import OWNER_KINDS, keeps_lineage_rule, keeps_owner_rule

PROVENANCES = ("observed", "calculated", "intended", "guessed", "Observed", "", None)
KINDS = (*OWNER_KINDS, "global", "planet", "", None)
IDS = tuple(f"{kind}_id" for kind in OWNER_KINDS)
Row = dict[str, Any]


def _table(rows: list[Row], *, encoded: bool) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]}
    if encoded:
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    return pa.table(columns)


def _combinations(**choices: tuple[str | None, ...]) -> list[Row]:
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def _keeps_lineage(row: Row) -> bool:
    has_rule, has_event = row["source_rule"] is not None, row["event_id"] is not None
    if row["provenance"] == "intended":
        return has_event and not has_rule
    return row["provenance"] in ("observed", "calculated") and has_rule and not has_event


def _keeps_owner(row: Row) -> bool:
    given = [name for name in IDS if row[name] is not None]
    if row["owner_kind"] == "global":
        return not given
    return row["owner_kind"] in OWNER_KINDS and given == [f"{row['owner_kind']}_id"]


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_the_lineage_rule_holds_exactly_where_it_should(encoded: bool) -> None:
    rows = _combinations(
        provenance=PROVENANCES, source_rule=("edge.row_batch", "", None), event_id=("e", "", None)
    )

    kept = keeps_lineage_rule(_table(rows, encoded=encoded)).to_pylist()

    assert kept == [*map(_keeps_lineage, rows)]


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_the_owner_rule_holds_exactly_where_it_should(encoded: bool) -> None:
    rows = _combinations(owner_kind=KINDS, **dict.fromkeys(IDS, ("x", "", None)))

    kept = keeps_owner_rule(_table(rows, encoded=encoded)).to_pylist()

    assert kept == [*map(_keeps_owner, rows)]


def test_the_rules_judge_an_empty_table() -> None:
    empty = _table([dict.fromkeys(("provenance", "source_rule", "event_id"))], encoded=False)

    assert keeps_lineage_rule(empty.slice(1)).to_pylist() == []
