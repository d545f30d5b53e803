"""Lineages that are paused, what each drain has set aside of them, and resets of numbers."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "lineage_pause",
        sa.Column("device_id", sa.Text(), primary_key=True),
        sa.Column("source_table", sa.Text(), primary_key=True),
        sa.Column("reason", sa.Text(), primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.Text()),
        sa.CheckConstraint(
            "reason IN ('schema_review', 'backpressure', 'circuit_open', 'operator')",
            name="lineage_pause_reason",
        ),
    )
    op.create_table(
        "staged_backlog",
        sa.Column("device_id", sa.Text(), primary_key=True),
        sa.Column("source_table", sa.Text(), primary_key=True),
        sa.Column("staging_reason", sa.Text(), primary_key=True),
        sa.Column("schema_hash", sa.Text(), primary_key=True),
        sa.Column("drain_id", sa.BigInteger(), primary_key=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("retry", sa.Boolean(), nullable=False, server_default="false"),
        sa.Column("released_in", sa.BigInteger()),
    )
    op.create_table(
        "sequence_reset",
        sa.Column("reset_id", sa.BigInteger(), sa.Identity(), nullable=False, unique=True),
        sa.Column("device_id", sa.Text(), primary_key=True),
        sa.Column("source_table", sa.Text(), primary_key=True),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index(
        "staged_backlog_unreleased",
        "staged_backlog",
        ["drain_id", "device_id", "source_table"],
        postgresql_where=sa.text("released_in IS NULL"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("sequence_reset")
    op.drop_table("staged_backlog")
    op.drop_table("lineage_pause")
