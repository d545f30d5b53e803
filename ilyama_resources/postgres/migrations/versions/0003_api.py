"""The HTTP API: its tokens, the answers it must repeat, and sums of the ledger by day."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables and the index."""
    op.create_table(
        "api_token",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("token_hash"),
    )
    op.create_table(
        "idempotent_answer",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", "idempotency_key"),
    )
    op.create_index("idempotent_answer_by_age", "idempotent_answer", ["answered_at"])
    op.create_index(
        "ledger_total_by_day",
        "ledger_total",
        ["day", "device_id", "source_table", "kind", "outcome"],
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ledger_total_by_day", "ledger_total")
    op.drop_table("idempotent_answer")
    op.drop_table("api_token")
