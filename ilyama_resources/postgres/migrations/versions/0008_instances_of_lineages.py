"""How many instances a lineage has at most: a drain need not count all to see that they are few."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the number, and count what is served."""
    op.add_column(
        "lineage", sa.Column("instances", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.execute(
        """
        INSERT INTO lineage (device_id, source_table, served, instances)
        SELECT owner_id, source_table, true, count(DISTINCT instance)
        FROM current_value_record GROUP BY owner_id, source_table
        ON CONFLICT (device_id, source_table) DO UPDATE SET instances = excluded.instances
        """
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("lineage", "instances")
