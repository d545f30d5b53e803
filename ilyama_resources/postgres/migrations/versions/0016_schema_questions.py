"""Schemas that wait until there is room for a review of them."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_TEXTS = ("schema_class", "seen_columns", "evidence", "firmware_version")
_NUMBERS = ("first_received_at", "opened_by")
_KEY = ("device_id", "source_table", "schema_hash")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "schema_question",
        *(sa.Column(name, sa.Text(), nullable=False) for name in (*_KEY, *_TEXTS)),
        sa.Column("columns", sa.Text()),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _NUMBERS),
        sa.PrimaryKeyConstraint(*_KEY),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("schema_question")
