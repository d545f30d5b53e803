"""Events, and ledger totals that do not grow with the number of segments."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

_GROUP = "drain_id, device_id, source_table, kind, outcome, day, origin"
_SUMS = (
    "messages",
    "rows_received",
    "rows_new",
    "rows_duplicate",
    "rows_conflict",
    "rows_below_floor",
    "rows_rejected",
    "rows_staged",
)
_OWNER_RULE = """
CASE owner_kind
  WHEN 'component' THEN component_id = owner_id
    AND num_nonnulls(system_id, location_id, node_id) = 0
  WHEN 'system' THEN system_id = owner_id
    AND num_nonnulls(component_id, location_id, node_id) = 0
  WHEN 'location' THEN location_id = owner_id
    AND num_nonnulls(component_id, system_id, node_id) = 0
  WHEN 'node' THEN node_id = owner_id
    AND num_nonnulls(component_id, system_id, location_id) = 0
  WHEN 'global' THEN num_nonnulls(owner_id, component_id, system_id, location_id, node_id) = 0
  ELSE false
END IS TRUE
"""


def upgrade() -> None:
    """Make the table of events; sum the ledger's totals over segments."""
    op.create_table(
        "event",
        sa.Column("event_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("owner_kind", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=True),
        sa.Column("component_id", sa.Text(), nullable=True),
        sa.Column("system_id", sa.Text(), nullable=True),
        sa.Column("location_id", sa.Text(), nullable=True),
        sa.Column("node_id", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("event_id"),
        sa.CheckConstraint(_OWNER_RULE, name="owner_rule"),
        sa.CheckConstraint(
            "origin IN ('caught', 'caused', 'derived', 'scheduled')", name="origin_rule"
        ),
    )
    op.create_index("event_by_time", "event", ["at"])
    _regroup_totals()


def _regroup_totals() -> None:
    sums = ", ".join(f"sum({name})::bigint AS {name}" for name in _SUMS)
    op.execute("ALTER TABLE ledger_total RENAME TO ledger_total_by_segment")
    op.execute(
        f"CREATE TABLE ledger_total AS SELECT {_GROUP}, {sums} "
        f"FROM ledger_total_by_segment GROUP BY {_GROUP}"
    )
    op.drop_table("ledger_total_by_segment")
    op.create_primary_key(
        "ledger_total_pkey",
        "ledger_total",
        ["drain_id", "device_id", "source_table", "kind", "outcome"],
    )
    op.create_foreign_key(
        "ledger_total_drain_id_fkey", "ledger_total", "drain", ["drain_id"], ["drain_id"]
    )
    for name in ("day", "origin", *_SUMS):
        op.alter_column("ledger_total", name, nullable=False)


def downgrade() -> None:
    """Drop events; the totals keep what they have, of no segment in particular."""
    op.drop_table("event")
    op.add_column(
        "ledger_total", sa.Column("segment_id", sa.Text(), nullable=False, server_default="")
    )
