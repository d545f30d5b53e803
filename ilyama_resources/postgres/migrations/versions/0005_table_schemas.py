"""The columns of a schema are kept once for all devices that send it."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_STATE = sa.table("device_state", sa.column("device_id"), sa.column("state"))
_SCHEMA = sa.table("table_schema", sa.column("schema_hash"), sa.column("columns"))


def upgrade() -> None:
    """Move the columns out of the states."""
    op.create_table(
        "table_schema",
        sa.Column("schema_hash", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("schema_hash"),
    )
    columns: dict[str, Any] = {}
    for device_id, state in _states():
        for lineage in state.get("lineages", {}).values():
            for schema_hash, (holds_from, found) in lineage.get("schemas", {}).items():
                columns[schema_hash] = found
                lineage["schemas"][schema_hash] = holds_from
        _replace(device_id, state)
    rows = [{"schema_hash": name, "columns": json.dumps(found)} for name, found in columns.items()]
    if rows:
        op.bulk_insert(_SCHEMA, rows)


def downgrade() -> None:
    """Move the columns back into the states."""
    found = op.get_bind().execute(sa.select(_SCHEMA.c.schema_hash, _SCHEMA.c.columns))
    columns = {schema_hash: json.loads(text) for schema_hash, text in found}
    for device_id, state in _states():
        for lineage in state.get("lineages", {}).values():
            for schema_hash, holds_from in lineage.get("schemas", {}).items():
                lineage["schemas"][schema_hash] = [holds_from, columns[schema_hash]]
        _replace(device_id, state)
    op.drop_table("table_schema")


def _states() -> list[tuple[str, dict[str, Any]]]:
    rows = op.get_bind().execute(sa.select(_STATE.c.device_id, _STATE.c.state))
    return [(device_id, json.loads(state)) for device_id, state in rows]


def _replace(device_id: str, state: dict[str, Any]) -> None:
    statement = sa.update(_STATE).where(_STATE.c.device_id == device_id)
    op.execute(statement.values(state=json.dumps(state)))
