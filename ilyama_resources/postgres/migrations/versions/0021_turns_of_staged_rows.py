"""Staged rows know their turn in a release; what was staged before comes first."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "staged_backlog",
        sa.Column("turn", ARRAY(sa.BigInteger), nullable=False, server_default="{}"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_column("staged_backlog", "turn")
