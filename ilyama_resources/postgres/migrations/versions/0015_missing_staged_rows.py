"""Sums of staged rows that a release did not find."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the mark."""
    op.add_column(
        "staged_backlog",
        sa.Column("missing", sa.Boolean(), nullable=False, server_default="false"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("staged_backlog", "missing")
