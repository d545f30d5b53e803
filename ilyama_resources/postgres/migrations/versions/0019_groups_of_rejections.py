"""The index of rejections by code and table knows firmware too: together they are a group."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_INDEX = "rejection_by_code"
_GROUP = ("code", "source_table", "firmware_version")


def upgrade() -> None:
    """Make the index anew."""
    op.drop_index(_INDEX, "rejection")
    op.create_index(_INDEX, "rejection", [*_GROUP, sa.text("received_at DESC")])


def downgrade() -> None:
    """Make it without firmware."""
    op.drop_index(_INDEX, "rejection")
    op.create_index(_INDEX, "rejection", [*_GROUP[:2], sa.text("received_at DESC")])
