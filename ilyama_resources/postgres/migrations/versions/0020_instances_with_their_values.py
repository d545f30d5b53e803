"""The current values of an instance lie together: one record for each instead of one per value."""

from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"

_OF_VALUES: dict[str, Any] = {
    "key": sa.Text(),
    "kind": sa.Text(),
    "value_double": sa.Double(),
    "value_text": sa.Text(),
    "ts": sa.DateTime(timezone=True),
    "source": sa.Text(),
    "datapoint_id": sa.Uuid(),
    "source_table": sa.Text(),
    "drain_id": sa.BigInteger(),
    "updated_at": sa.DateTime(timezone=True),
}
_HEAD = "owner_kind, owner_id, provenance, family, instance"

_IS_KNOWN = "strpos({key} || instance, U&'\\FFFD') = 0"
"""A text with U+FFFD may have had U+0000 there, of which the identity was made. Nobody knows: such
a value is served again when it next changes, and the Delta form has it."""

_PACK = f"""
INSERT INTO current_instance (identity, {_HEAD}, oldest, newest, {", ".join(_OF_VALUES)})
SELECT encode(substring(sha256(convert_to(
         owner_kind || E'\\n' || provenance || E'\\n' || length(owner_id) || ':' || owner_id
         || length(family) || ':' || family || instance, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid,
       {_HEAD}, min(ts), max(ts),
       {", ".join(f'array_agg({name} ORDER BY key COLLATE "C")' for name in _OF_VALUES)}
FROM (SELECT *, split_part(key, '.', 1) AS family,
             (regexp_match(contributors, '"datapoint_id":"([^"]+)"'))[1]::uuid AS datapoint_id
      FROM current_value_record) AS value
WHERE {_IS_KNOWN.format(key="key")}
GROUP BY {_HEAD}
"""

_VALUES = f"""
current_instance CROSS JOIN LATERAL
  unnest({", ".join(f"current_instance.{name}" for name in _OF_VALUES)})
    AS value({", ".join(_OF_VALUES)})
"""
_CONTRIBUTORS = """
concat('[{"source":"', value.source, '","datapoint_id":"', value.datapoint_id, '"}]')
"""

_VIEW = f"""
CREATE VIEW current_value AS
SELECT owner_kind, owner_id, value.key, instance, provenance, value.kind, value.value_double,
       value.value_text, value.ts, value.source, 'latest' AS policy,
       {_CONTRIBUTORS} AS contributors,
       CASE WHEN value.ts < now() - stale_after_h * interval '1 hour' THEN 'stale' ELSE 'fresh' END
         AS state,
       value.updated_at
FROM {_VALUES} CROSS JOIN warehouse
"""

_BY_VALUE = f"""
SELECT owner_kind, owner_id, value.key, instance, provenance, value.kind, value.value_double,
       value.value_text, value.ts, value.source, 'latest' AS policy,
       {_CONTRIBUTORS} AS contributors, value.updated_at, value.source_table, value.drain_id
FROM {_VALUES}
WHERE {_IS_KNOWN.format(key="value.key")}
"""
_VIEW_BY_VALUE = """
CREATE VIEW current_value AS
SELECT owner_kind, owner_id, key, instance, provenance, kind, value_double, value_text, ts, source,
       policy, contributors,
       CASE WHEN ts < now() - stale_after_h * interval '1 hour' THEN 'stale' ELSE 'fresh' END
         AS state,
       updated_at
FROM current_value_record CROSS JOIN warehouse
"""
_RECORD = sa.Table(
    "current_value_record",
    sa.MetaData(),
    sa.Column("identity", sa.Uuid(as_uuid=False), primary_key=True),
    *(
        sa.Column(name, sa.Text(), nullable=False)
        for name in ("owner_kind", "owner_id", "key", "instance", "provenance", "kind")
    ),
    sa.Column("value_double", sa.Double()),
    sa.Column("value_text", sa.Text()),
    sa.Column("ts", sa.DateTime(timezone=True), nullable=False),
    *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "policy", "contributors")),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("source_table", sa.Text(), nullable=False),
    sa.Column("drain_id", sa.BigInteger(), nullable=False),
)
_STREAMED = {"yield_per": 10_000}


def upgrade() -> None:
    """Put the values of each instance together."""
    op.create_table(
        "current_instance",
        sa.Column("identity", sa.Uuid(as_uuid=False), primary_key=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _HEAD.split(", ")),
        sa.Column("oldest", sa.DateTime(timezone=True), nullable=False),
        sa.Column("newest", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, postgresql.ARRAY(of), nullable=False) for name, of in _OF_VALUES.items()),
    )
    op.execute("ALTER TABLE current_instance SET (fillfactor = 50)")
    op.execute(_PACK)
    op.create_index("current_instance_by_family", "current_instance", ["owner_id", "family"])
    op.execute("ANALYZE current_instance")
    op.execute("DROP VIEW current_value")
    op.execute(_VIEW)
    op.drop_table("current_value_record")


def downgrade() -> None:
    """Part the values of each instance again."""
    connection = op.get_bind()
    _RECORD.create(connection)
    op.execute("ALTER TABLE current_value_record SET (fillfactor = 50)")
    op.create_index(
        "current_value_by_lineage", "current_value_record", ["owner_id", "source_table"]
    )
    found = connection.execute(sa.text(_BY_VALUE), execution_options=_STREAMED)
    for rows in found.mappings().partitions():
        connection.execute(_RECORD.insert(), [{**row, "identity": _identity(row)} for row in rows])
    op.execute("DROP VIEW current_value")
    op.execute(_VIEW_BY_VALUE)
    op.drop_table("current_instance")


def _identity(value: sa.RowMapping) -> str:
    owner_id, key = value["owner_id"], value["key"]
    head = f"{value['owner_kind']}\n{value['provenance']}\n{len(owner_id)}:{owner_id}"
    told = f"{head}{len(key)}:{key}{value['instance']}"
    return blake2b(told.encode(), digest_size=16).hexdigest()
