"""Devices that moved are noted until their device tables have followed.

Which project was left by those that moved before, nobody knows: a rebuild brings their rows over.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Make room for the notes."""
    op.create_table(
        "device_table_move",
        sa.Column("move_id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("device_id", sa.Text, nullable=False),
        sa.Column("left_project", sa.Text),
        sa.Column("taken_up_by", sa.BigInteger),
    )


def downgrade() -> None:
    """Forget them; the rows stay where they are."""
    op.drop_table("device_table_move")
