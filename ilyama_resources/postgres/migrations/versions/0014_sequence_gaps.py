"""Numbers that never came, and the rejections that may explain them."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "sequence_gap",
        *_scope(),
        sa.Column("first_missing", sa.BigInteger(), primary_key=True),
        sa.Column("last_missing", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_in", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "sequence_overflow", *_scope(), sa.Column("numbers", sa.Numeric(), nullable=False)
    )
    op.create_table(
        "sequence_rejection",
        sa.Column("rejection_id", sa.Text(), primary_key=True),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_number", sa.BigInteger(), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("source_table", sa.Text(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index(
        "sequence_rejection_by_number",
        "sequence_rejection",
        ["device_id", "kind", "name", "first_number"],
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("sequence_rejection", "sequence_overflow", "sequence_gap"):
        op.drop_table(table)


def _scope() -> list[sa.Column[str] | sa.Column[int]]:
    names = [sa.Column(name, sa.Text(), primary_key=True) for name in ("device_id", "kind", "name")]
    return [*names, sa.Column("era", sa.BigInteger(), primary_key=True)]
