"""The records of intake: devices, segments, drains, ledger totals and current values."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

CURRENT_VALUE_VIEW = """
CREATE VIEW current_value AS
SELECT owner_kind, owner_id, key, instance, provenance, kind, value_double, value_text, ts, source,
       policy, contributors,
       CASE WHEN ts < now() - stale_after_h * interval '1 hour' THEN 'stale' ELSE 'fresh' END
         AS state,
       updated_at
FROM current_value_record CROSS JOIN warehouse
"""


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "component",
        sa.Column("component_id", sa.Text(), nullable=False),
        sa.Column("auto", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("component_id"),
    )
    op.create_table(
        "current_value_record",
        sa.Column("identity", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("owner_kind", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value_double", sa.Double(), nullable=True),
        sa.Column("value_text", sa.Text(), nullable=True),
        sa.Column("ts", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("contributors", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source_table", sa.Text(), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("identity"),
    )
    op.create_table(
        "datapoint_type",
        sa.Column("name_hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("auto", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name_hash"),
    )
    op.create_table(
        "derived_run",
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("from_drain", sa.BigInteger(), nullable=False),
        sa.Column("to_drain", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("asset", "number"),
    )
    op.create_table(
        "device",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("topic_slug", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=True),
        sa.Column("project_id", sa.Text(), nullable=True),
        sa.Column("fleet_id", sa.Text(), nullable=True),
        sa.Column("firmware_version", sa.Text(), nullable=True),
        sa.Column("auto", sa.Boolean(), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("device_id"),
        sa.UniqueConstraint("topic_slug", "device_name"),
    )
    op.create_table(
        "device_state",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device_id"),
    )
    op.create_table(
        "drain",
        sa.Column("drain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("segments", sa.Integer(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("drain_id"),
    )
    op.create_table(
        "internal_log",
        sa.Column("log_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("log_id"),
    )
    op.create_table(
        "lineage",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("source_table", sa.Text(), nullable=False),
        sa.Column("served", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("device_id", "source_table"),
    )
    op.create_table(
        "warehouse",
        sa.Column("id", sa.SmallInteger(), nullable=False),
        sa.Column("warehouse_id", sa.Text(), nullable=False),
        sa.Column("stale_after_h", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "drain_seal",
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["drain_id"],
            ["drain.drain_id"],
        ),
        sa.PrimaryKeyConstraint("drain_id"),
    )
    op.create_table(
        "ledger_total",
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("source_table", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("rows_received", sa.BigInteger(), nullable=False),
        sa.Column("rows_new", sa.BigInteger(), nullable=False),
        sa.Column("rows_duplicate", sa.BigInteger(), nullable=False),
        sa.Column("rows_conflict", sa.BigInteger(), nullable=False),
        sa.Column("rows_below_floor", sa.BigInteger(), nullable=False),
        sa.Column("rows_rejected", sa.BigInteger(), nullable=False),
        sa.Column("rows_staged", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["drain_id"],
            ["drain.drain_id"],
        ),
        sa.PrimaryKeyConstraint(
            "drain_id", "segment_id", "device_id", "source_table", "kind", "outcome"
        ),
    )
    op.create_table(
        "segment",
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("first_received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["drain_id"],
            ["drain.drain_id"],
        ),
        sa.PrimaryKeyConstraint("segment_id"),
    )
    op.create_index(
        "current_value_by_lineage", "current_value_record", ["owner_id", "source_table"]
    )
    op.create_index(
        "segment_pending",
        "segment",
        ["day", "segment_id"],
        postgresql_where=sa.text("drain_id IS NULL"),
    )
    op.create_index("segment_by_drain", "segment", ["drain_id"])
    op.create_index(
        "drain_at_most_one_unfinished",
        "drain",
        [sa.text("(state <> 'done')")],
        unique=True,
        postgresql_where=sa.text("state <> 'done'"),
    )
    # Room on each page, so that an update need not touch an index.
    op.execute("ALTER TABLE current_value_record SET (fillfactor = 70)")
    op.execute(CURRENT_VALUE_VIEW)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP VIEW current_value")
    op.drop_table("segment")
    op.drop_table("ledger_total")
    op.drop_table("drain_seal")
    op.drop_table("warehouse")
    op.drop_table("lineage")
    op.drop_table("internal_log")
    op.drop_table("drain")
    op.drop_table("device_state")
    op.drop_table("device")
    op.drop_table("derived_run")
    op.drop_table("datapoint_type")
    op.drop_table("current_value_record")
    op.drop_table("component")
