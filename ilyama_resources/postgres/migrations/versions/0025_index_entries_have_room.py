"""No index entry is longer than Postgres has room for, whatever devices and people call things.

Families of keys were indexed in full, and firmware had any length that a device told.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_INDEX, _TABLE = "current_instance_by_family", "current_instance"
_TOO_LONG = "length(firmware_version) NOT BETWEEN 1 AND 512"


def upgrade() -> None:
    """Index the beginning of a family, and forget firmware that nobody could have registered."""
    op.drop_index(_INDEX, _TABLE)
    op.create_index(_INDEX, _TABLE, ["owner_id", sa.text("left(family, 128)")])
    op.execute(f"UPDATE device SET firmware_version = NULL WHERE {_TOO_LONG}")
    op.execute(f"UPDATE rejection SET firmware_version = 'unknown' WHERE {_TOO_LONG}")


def downgrade() -> None:
    """Index all of it."""
    op.drop_index(_INDEX, _TABLE)
    op.create_index(_INDEX, _TABLE, ["owner_id", "family"])
