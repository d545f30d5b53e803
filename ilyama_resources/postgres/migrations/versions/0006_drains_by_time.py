"""Drains by the time they were closed: what came lately is asked for often."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the index."""
    op.create_index("drain_by_closing", "drain", ["closed_at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("drain_by_closing", "drain")
