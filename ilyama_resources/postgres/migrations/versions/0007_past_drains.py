"""What forgotten drains took, by day: the books are held against it."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "past_drains",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "origin"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("past_drains")
