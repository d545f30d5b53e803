"""Reviews of a schema are found by their device too: a whole fleet may share a schema."""

from alembic import op

revision = "0028"
down_revision = "0027"

_NAME, _TABLE, _SCHEMA = "schema_review_by_schema", "schema_review", ["schema_hash", "source_table"]


def upgrade() -> None:
    """Let the index tell the device."""
    op.drop_index(_NAME, _TABLE)
    op.create_index(_NAME, _TABLE, [*_SCHEMA, "device_id"])


def downgrade() -> None:
    """Let it tell the project."""
    op.drop_index(_NAME, _TABLE)
    op.create_index(_NAME, _TABLE, [*_SCHEMA, "project_id"])
