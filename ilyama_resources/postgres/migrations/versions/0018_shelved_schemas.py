"""Schemas that nobody accepted leave the states of devices, and lie on a shelf."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_KEY = ("device_id", "source_table", "schema_hash")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "shelved_schema",
        *(sa.Column(name, sa.Text(), nullable=False) for name in _KEY),
        sa.Column("holds_from", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(*_KEY),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("shelved_schema")
