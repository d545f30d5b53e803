"""What is staged is summed up as it comes and goes: nobody adds up all of it to know how much."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_KEY = ("device_id", "source_table", "staging_reason", "schema_hash")
_MEASURES = ("sums", "rows", "bytes", "ready_sums", "ready_rows", "ready_bytes")
_INDEX, _SUMS, _TOTALS = "staged_backlog_of_total", "staged_backlog", "staged_total"
_FILL = """
    INSERT INTO staged_total
    SELECT device_id, source_table, staging_reason, schema_hash,
           count(*), sum(rows), sum(bytes),
           count(*) FILTER (WHERE ready),
           coalesce(sum(rows) FILTER (WHERE ready), 0),
           coalesce(sum(bytes) FILTER (WHERE ready), 0)
    FROM staged_backlog, LATERAL (
        SELECT NOT missing AND (
            retry OR staging_reason NOT IN ('materialization_failed', 'engine_error')
        ) AS ready
    ) AS told
    WHERE released_in IS NULL
    GROUP BY device_id, source_table, staging_reason, schema_hash
"""


def upgrade() -> None:
    """Make the totals of what is there, and an index by which the sums of one are found."""
    op.create_table(
        _TOTALS,
        *(sa.Column(name, sa.Text(), primary_key=True) for name in _KEY),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _MEASURES),
    )
    op.execute(f"LOCK TABLE {_SUMS} IN SHARE ROW EXCLUSIVE MODE")
    op.execute(_FILL)
    of_total, unreleased = [*_KEY, "drain_id"], sa.text("released_in IS NULL")
    op.create_index(_INDEX, _SUMS, of_total, postgresql_where=unreleased)


def downgrade() -> None:
    """Add up all of it again."""
    op.drop_index(_INDEX, _SUMS)
    op.drop_table(_TOTALS)
