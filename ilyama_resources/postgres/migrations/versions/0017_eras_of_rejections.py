"""Rejected batches have the era of their numbers; of what came before this, it is the first."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "sequence_rejection",
        sa.Column("era", sa.BigInteger(), nullable=False, server_default="0"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("sequence_rejection", "era")
