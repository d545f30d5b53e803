"""Seals are compressed already: Postgres need not try again."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Store bodies as they are."""
    op.execute("ALTER TABLE drain_seal ALTER COLUMN body SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Let Postgres compress them."""
    op.execute("ALTER TABLE drain_seal ALTER COLUMN body SET STORAGE EXTENDED")
