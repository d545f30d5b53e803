"""Reviews of schemas, what they bound, and the policies."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_OPEN = "state IN ('queued', 'in_review')"


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _moment(name: str, *, nullable: bool = True) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def upgrade() -> None:
    """Make the tables of governance."""
    _make_reviews()
    op.create_table(
        "schema_binding",
        _text("scope_kind"),
        _text("scope_id"),
        _text("source_table"),
        _text("schema_hash"),
        _text("actions", nullable=True),
        sa.Column("holds_from", sa.BigInteger(), nullable=False),
        sa.Column("holding", sa.Boolean(), nullable=False),
        sa.Column("review_id", sa.BigInteger(), sa.ForeignKey("schema_review.review_id")),
        _moment("bound_at", nullable=False),
        sa.PrimaryKeyConstraint("scope_kind", "scope_id", "source_table", "schema_hash"),
        sa.CheckConstraint("scope_kind IN ('project', 'device')"),
    )
    op.create_table(
        "governance_policy",
        _text("project_id"),
        _text("source_table"),
        _text("first_schema", nullable=True),
        sa.Column("allow_additive_continue", sa.Boolean()),
        sa.Column("allow_auto_create_datapoints", sa.Boolean()),
        _moment("changed_at", nullable=False),
        sa.PrimaryKeyConstraint("project_id", "source_table"),
        sa.CheckConstraint("first_schema IN ('review', 'accept')"),
    )


def _make_reviews() -> None:
    op.create_table(
        "schema_review",
        sa.Column("review_id", sa.BigInteger(), sa.Identity(), primary_key=True),
        _text("device_id"),
        _text("source_table"),
        _text("schema_hash"),
        _text("project_id", nullable=True),
        _text("schema_class"),
        _text("state"),
        sa.Column("action_version", sa.Integer(), nullable=False),
        _text("columns", nullable=True),
        _text("seen_columns"),
        _text("evidence"),
        _text("firmware_version"),
        sa.Column("first_received_at", sa.BigInteger(), nullable=False),
        sa.Column("opened_by", sa.BigInteger(), nullable=False),
        _moment("opened_at", nullable=False),
        _moment("started_at"),
        _moment("decided_at"),
        _text("decided_by", nullable=True),
        _text("note", nullable=True),
        _text("actions", nullable=True),
        sa.Column("shared_from", sa.BigInteger(), sa.ForeignKey("schema_review.review_id")),
        sa.CheckConstraint("state IN ('queued', 'in_review', 'approved', 'rejected', 'abandoned')"),
    )
    op.create_index(
        "schema_review_open_once",
        "schema_review",
        ["device_id", "source_table", "schema_hash"],
        unique=True,
        postgresql_where=sa.text(_OPEN),
    )
    op.create_index("schema_review_lineage", "schema_review", ["device_id", "source_table"])
    op.create_index("schema_review_by_state", "schema_review", ["state", "review_id"])
    op.create_index(
        "schema_review_by_schema", "schema_review", ["schema_hash", "source_table", "project_id"]
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("governance_policy", "schema_binding", "schema_review"):
        op.drop_table(table)
