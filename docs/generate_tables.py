"""`python -m docs.generate_tables` writes `docs/tables.md` from the contracts of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import deltalake
from sqlalchemy import Column, Table

from ilyama_assets.tables import TABLES
from ilyama_assets.transforms.mirrored_rows import OWN_COLUMNS
from ilyama_resources.delta.data_files import PARTITION, TableContract
from ilyama_resources.postgres.schema import METADATA

PAGE = Path(__file__).with_name("tables.md")

_HEAD = """\
# Tables

This page is generated from `ilyama_assets/tables.py` and `ilyama_resources/postgres/schema.py` by
`python -m docs.generate_tables`; a test fails when it is not what they say.

## Delta tables

They lie in `warehouse/` of the home, one directory each, and are readable by anything that reads
Delta. Timestamps are UTC microseconds. A table with a column `day` is partitioned by it, and its
files carry the smallest and largest value of every column but flags and those that its line *No
statistics* names: filter by the others to read less.
"""

_MIRRORS_HEAD = """\
### `device_tables`

The rows of the devices' own tables as they are now, derived from `row_changes`: one Delta table per
project and source table. Those of project `acme` lie in `device_tables/project-acme/`, those of
devices without a project in `device_tables/projectless/`; characters of a name other than ASCII
letters, digits, `_` and `-` are written as `~` and the hex digits of their bytes, and a very long
name ends in `~~` and a hash. The table's description has project and source table as they are.

`device_id` comes first, then a column for each of the device's, then those of the platform. A
column keeps its name, with characters other than letters, digits, `_` and `-` percent-encoded
(`two%20words`), and so is the first character of `device_id` and of names that begin with two
underscores. Delta does not tell `Mode` from `mode`: of names that differ in case only, all but the
first are percent-encoded throughout. The column's comment has the name as the device has it, and
the affinity.

| affinity | type | a value that does not fit is NULL |
|---|---|---|
| INTEGER | bigint, where `2.0` is 2; else by the numbers | texts, flags, nested values |
| REAL, NUMERIC | double; else by the numbers | texts, flags, nested values |
| TEXT, BLOB | string, as sent; flags and nested values as canonical JSON | numbers |
| MIXED | string, as sent; all but texts as canonical JSON | what does not fit the affinity that \
its own schema says |
| not known | by the values: bigint, double, and string when they disagree | none |

Every number fits a column of numbers, and none loses a digit there. *By the numbers*: as soon as an
INTEGER column holds a fraction, or a REAL or NUMERIC one an integer beyond 2^53, it is a bigint
when all are whole, a double when no integer is beyond 2^53, and else a string of canonical JSON.

Devices that share a table need not agree on an affinity, those without a project least of all. A
column that is INTEGER to some and REAL or NUMERIC to others is NUMERIC; one that is a number to
some and TEXT or BLOB to others is MIXED, and holds numbers as canonical JSON beside the texts.

Columns are added as they come, at most 2,000 and none with a name of more than 255 characters; one
without a known affinity, when its first value comes that is not null. For others there is no place:
the page of the asset tells which those are, and `mirror_parity` warns. A table whose column must
change its type is made anew. What a table does not show stays in `row_changes`.

| column | type | meaning |
|---|---|---|
| `device_id` | string | device that has the row |
"""

_RECORDS_HEAD = """
## Records in Postgres

The intake side of the platform's memory. Migrations in `ilyama_resources/postgres/migrations/`
are the authority; only the gateway (`ilyama_resources/postgres/gateway.py`) opens the database. The
view `current_value` has the columns of the Delta table of that name, over `current_instance`;
it says `stale` of a value that is older than 24 hours.
"""

_RECORDS = {
    "api_token": "Who may use the HTTP API: the SHA-256 of each token, never the token.",
    "audit_log": "Who changed what, by month; triggers refuse UPDATE, DELETE and TRUNCATE.",
    "component": "Owners of datapoints; a device is one, created by its first drain.",
    "current_instance": "The newest values of every instance of served lineages, side by side.",
    "datapoint_type": "Datapoint keys, created with the kind that was first seen.",
    "derived_run": "How far each derived table has come: a number and a range of drains per run.",
    "device": "The registry: which topic root is which device.",
    "device_state": "What the engine remembers of a device between drains, as JSON.",
    "device_table_move": "Devices whose rows are still in device tables of a project that they left.",
    "drain": "Drains and how far each has come: `open`, `sealed`, `done` or `held`.",
    "drain_seal": "What a sealed drain will commit and close with; gone once it is done.",
    "governance_policy": "What projects and tables chose; an empty name stands for none, or all.",
    "idempotent_answer": "Answers of the HTTP API that the same key gets again, for a day.",
    "internal_log": "Lines for operators, such as why a drain is held.",
    "event": "What happened that somebody may want to know of: failed runs and checks, so far.",
    "ledger_total": "The ledger summed by drain, device, table, kind and outcome.",
    "lineage": "Lineages that are not served from Postgres.",
    "lineage_pause": "Why lineages are paused; one without a line is active.",
    "sequence_reset": "Numbers of telemetry batches that begin anew with the next drain.",
    "staged_backlog": "What each drain has set aside, and the drain that has released it since.",
    "staged_total": "How much of what was set aside was not released, by lineage, reason and schema.",
    "past_drains": "What drains took that are forgotten, by day and origin.",
    "schema_binding": "Accepted schemas of projects and devices, and what becomes of columns.",
    "schema_question": "Schemas that wait until there is room for a review of them.",
    "schema_review": "Schemas that a person decides on, one line per lineage and schema.",
    "rejection": "Rejected messages and their life: a state, a note, and what the last look found.",
    "rejection_replay": "Replays of rejections: who asked, where it landed, what became of it.",
    "segment": "Landed files, and the drain that took each.",
    "sequence_gap": "Numbers of journals and telemetry that never came, as ranges.",
    "sequence_overflow": "At least so many numbers of a journal are missing beside those in listed gaps.",
    "sequence_rejection": "Rejected batches by their numbers; for 90 days, or till their gap closes.",
    "shelved_schema": "Unaccepted schemas that a device's state has no room for.",
    "table_schema": "The columns behind each schema hash that a device has sent.",
    "warehouse": "The UUID that ties these records to their tables.",
}


def tables_page() -> str:
    """The page as it should be."""
    delta = (part for contract in TABLES.values() for part in _delta_table(contract))
    records = (part for name in sorted(METADATA.tables) for part in _record_table(name))
    mirrors = "\n".join([_MIRRORS_HEAD.rstrip(), *_own_columns()])
    return "\n".join([_HEAD, *delta, mirrors, _RECORDS_HEAD, *records]).rstrip() + "\n"


def _delta_table(contract: TableContract) -> Iterator[str]:
    yield f"### `{contract.name}`\n\n{contract.description}\n"
    yield "| column | type | meaning |\n|---|---|---|"
    fields = deltalake.Schema.from_arrow(contract.schema).fields
    for column, field in zip(contract.columns, fields, strict=True):
        yield f"| `{column.name}` | {field.type.type} | {column.meaning} |"
    yield ""
    yield from _without_statistics(contract)
    for name, expression in contract.constraints.items():
        yield f"CHECK `{name}`:\n\n```sql\n{expression}\n```\n"


def _own_columns() -> Iterator[str]:
    for name, (_, kind, meaning) in OWN_COLUMNS.items():
        yield f"| `{name}` | {kind} | {meaning} |"


def _without_statistics(contract: TableContract) -> Iterator[str]:
    names = [f"`{c.name}`" for c in contract.columns if not c.skipping and c.name != PARTITION]
    if names:
        yield f"No statistics: {', '.join(names)}.\n"


def _record_table(name: str) -> Iterator[str]:
    table = METADATA.tables[name]
    yield f"### `{name}`\n\n{_RECORDS[name]}\n"
    yield f"{', '.join(_named(table, column) for column in table.columns)}.\n"


def _named(table: Table, column: Column[object]) -> str:
    key = " *(key)*" if column.name in table.primary_key.columns else ""
    return f"`{column.name}`{key}"


if __name__ == "__main__":
    PAGE.write_text(tables_page(), encoding="utf-8")
