"""Reviews of schemas that were accepted already."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

_TABLE, _COLUMN = "schema_review", "revises"


def upgrade() -> None:
    """Tell them from those of new schemas; so far there are none."""
    revises: sa.Column[bool] = sa.Column(
        _COLUMN, sa.Boolean(), nullable=False, server_default="false"
    )
    op.add_column(_TABLE, revises)


def downgrade() -> None:
    """Make no difference."""
    op.drop_column(_TABLE, _COLUMN)
