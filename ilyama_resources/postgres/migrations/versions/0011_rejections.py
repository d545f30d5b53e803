"""Rejections with a life: their states, their replays, and segments that replay them."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_OPEN = sa.text("state IN ('rejected', 'explained')")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def upgrade() -> None:
    """Make the tables, and let segments and the warehouse tell more."""
    op.add_column("segment", sa.Column("origin", sa.Text(), nullable=False, server_default="live"))
    op.add_column(
        "warehouse",
        sa.Column("rejections_known", sa.Boolean(), nullable=False, server_default="false"),
    )
    _make_rejection()
    _make_replay()


def _make_rejection() -> None:
    op.create_table(
        "rejection",
        sa.Column("rejection_id", sa.Uuid(as_uuid=False), nullable=False),
        *map(_text, ("code", "json_path", "message", "action", "source_table", "device_id")),
        *map(_text, ("firmware_version", "topic", "segment_id")),
        sa.Column("position", sa.BigInteger(), nullable=False),
        _moment("received_at"),
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("payload_bytes", sa.BigInteger(), nullable=False),
        _text("first_code"),
        _moment("clock_at", nullable=True),
        sa.Column("clock_bytes", sa.BigInteger(), nullable=True),
        _text("state"),
        _text("note", nullable=True),
        sa.Column("replays", sa.Integer(), nullable=False),
        _text("last_outcome", nullable=True),
        sa.Column("last_drain_id", sa.BigInteger(), nullable=True),
        _moment("changed_at"),
        sa.PrimaryKeyConstraint("rejection_id"),
        sa.CheckConstraint(
            "state IN ('rejected', 'explained', 'replayed', 'accepted', 'discarded')",
            name="state_rule",
        ),
    )
    op.create_index(
        "rejection_by_code", "rejection", ["code", "source_table", sa.text("received_at DESC")]
    )
    op.create_index("rejection_by_device", "rejection", ["device_id"])
    op.create_index("rejection_open", "rejection", ["code"], postgresql_where=_OPEN)


def _make_replay() -> None:
    op.create_table(
        "rejection_replay",
        sa.Column("rejection_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        _moment("requested_at"),
        _text("requested_by"),
        _moment("received_at"),
        sa.Column("timed_anew", sa.Boolean(), nullable=False),
        sa.Column("payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("corrected", sa.LargeBinary(), nullable=True),
        _text("segment_id", nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("landed", sa.Boolean(), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=True),
        _text("outcome", nullable=True),
        _text("code", nullable=True),
        sa.PrimaryKeyConstraint("rejection_id", "attempt"),
        sa.ForeignKeyConstraint(["rejection_id"], ["rejection.rejection_id"]),
    )
    op.create_index("rejection_replay_by_place", "rejection_replay", ["segment_id", "position"])
    op.create_index(
        "rejection_replay_to_land",
        "rejection_replay",
        ["received_at", "rejection_id"],
        postgresql_where=sa.text("NOT landed AND outcome IS NULL"),
    )
    op.create_index(
        "rejection_replay_by_drain",
        "rejection_replay",
        ["drain_id"],
        postgresql_where=sa.text("drain_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("rejection_replay")
    op.drop_table("rejection")
    op.drop_column("warehouse", "rejections_known")
    op.drop_column("segment", "origin")
