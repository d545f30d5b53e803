"""Unlisted missing numbers are counted anew, and links to rejections name them as they are named.

Numbers that came later were never taken off the old counts, and nobody knows which those were.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Forget the old counts, and hold the ids of rejections as what they are."""
    op.execute(sa.delete(sa.table("sequence_overflow")))
    op.alter_column(
        "sequence_rejection",
        "rejection_id",
        type_=sa.Uuid(as_uuid=False),
        postgresql_using="rejection_id::uuid",
    )


def downgrade() -> None:
    """Hold the ids as texts again; what was counted is gone."""
    op.alter_column(
        "sequence_rejection", "rejection_id", type_=sa.Text, postgresql_using="rejection_id::text"
    )
