"""Rejections are listed one by one, newest first."""

from alembic import op

revision = "0024"
down_revision = "0023"

_INDEX = "rejection_by_moment"


def upgrade() -> None:
    """Find a page of the newest without sorting all."""
    op.create_index(_INDEX, "rejection", ["received_at", "rejection_id"])


def downgrade() -> None:
    """Sort them all."""
    op.drop_index(_INDEX, "rejection")
