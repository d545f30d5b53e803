"""What one would write instead: DuckDB for everything in between, delta-rs to store it.

The same messages become the same tables: the messages themselves, row changes without duplicates
and with their lateness, typed datapoints with the platform's ids, and current values in Postgres.
It is written for this fleet alone, as its users would do it: the columns of the one table are
known, every row carries all of them, and nothing is validated beyond what JSON parsing needs. It
meets no history, keeps no ledger, and a crash in the middle leaves half of it behind.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg2
import pyarrow as pa
from deltalake import WriterProperties, write_deltalake
from pyarrow import csv
from sqlalchemy.engine import make_url

DRAIN = 1
READ_AT_ONCE = 200_000
METRICS = ("id", "target", "temp", "fan", "lamp")
STATES = ("mode",)

_ENVELOPE = (
    '{"batch_id":"VARCHAR","journal_epoch":"VARCHAR","source_table":"VARCHAR",'
    '"schema_hash":"VARCHAR",'
    '"rows":[{"commit_seq":"BIGINT","op":"VARCHAR","pk":"JSON","row":"JSON"}]}'
)
_COLUMNS = (
    '{"id":"BIGINT","mode":"VARCHAR","target":"DOUBLE","temp":"DOUBLE","fan":"BIGINT",'
    '"lamp":"BIGINT"}'
)

_MESSAGES = """
CREATE OR REPLACE TEMP TABLE message AS
WITH landed AS (
    SELECT segment_id, position, received_at AS landed_at,
           split_part(topic, '/', 1) || '/' || split_part(topic, '/', 2) AS device_id,
           1 + payload_bytes // 40 AS takes_us
    FROM read_parquet($segments)
), spent AS (
    SELECT *, epoch_us(landed_at) AS landed_us,
           coalesce(sum(takes_us) OVER (
               PARTITION BY device_id ORDER BY landed_at, segment_id, position
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS spent_us
    FROM landed
)
SELECT segment_id, position, device_id,
       spent_us + max(landed_us - spent_us) OVER (
           PARTITION BY device_id ORDER BY landed_at, segment_id, position) AS received_us
FROM spent
"""

# Straight from the files: they are what DuckDB spreads over its threads.
_CHANGES = """
CREATE OR REPLACE TEMP TABLE change AS
WITH batch AS (
    SELECT device_id, segment_id, position, received_us,
           from_json(decode(payload), $envelope) AS doc
    FROM read_parquet($segments) JOIN message USING (segment_id, position)
), sent AS (
    SELECT device_id, segment_id, position, received_us, doc.batch_id, doc.journal_epoch,
           doc.source_table, doc.schema_hash, unnest(doc.rows) AS told,
           generate_subscripts(doc.rows, 1) - 1 AS row_index
    FROM batch
), typed AS (
    SELECT * EXCLUDE (told), told.commit_seq, told.op, told.pk::VARCHAR AS pk,
           told.row::VARCHAR AS row, from_json(told.row, $columns) AS held,
           received_us + row_index AS ts_us
    FROM sent
)
SELECT * FROM typed
QUALIFY row_number() OVER (
    PARTITION BY device_id, source_table, journal_epoch, pk, commit_seq ORDER BY ts_us) = 1
"""

_LATE = """
CREATE OR REPLACE TEMP TABLE late_change AS
SELECT device_id, ts_us, true AS late FROM (
    SELECT device_id, ts_us, commit_seq, max(commit_seq) OVER (
        PARTITION BY device_id, source_table, pk ORDER BY ts_us
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
    FROM change)
WHERE commit_seq < highest
"""

_KEYS = """
CREATE OR REPLACE TEMP TABLE known AS
SELECT *, sha256(pk) AS source_pk_hash, {series}
FROM (SELECT DISTINCT device_id, source_table, pk, held.id::VARCHAR AS instance FROM change)
"""

_SERIES = """
    lower(hex((2::UBIGINT << 62) | (('0x' || sha256(
        '["component","' || device_id || '","' || source_table || '.{column}","' || instance
        || '","observed","edge.rows"]')[1:16])::UBIGINT >> 2))) AS series_{column}
"""

_JOINED = """
CREATE OR REPLACE TEMP TABLE joined AS
SELECT change.*, known.* EXCLUDE (device_id, source_table, pk), make_timestamptz(ts_us) AS ts,
       coalesce(late, false) AS late,
       format('{:08x}-{:04x}-8{:03x}-', ts_us >> 28, (ts_us >> 12) & 65535, ts_us & 4095) AS head
FROM change
JOIN known USING (device_id, source_table, pk)
LEFT JOIN late_change USING (device_id, ts_us)
"""

_RAW_BATCHES = """
SELECT segment_id, position::BIGINT AS position, topic, device_id,
       make_timestamptz(received_us) AS received_at, landed.received_at AS landed_at,
       qos::BIGINT AS qos, NULL::VARCHAR AS user_properties, sha256(payload) AS payload_sha256,
       payload_bytes::BIGINT AS payload_bytes, payload, {drain}::BIGINT AS drain_id,
       make_timestamptz(received_us)::DATE AS day
FROM read_parquet($segments) AS landed JOIN message USING (segment_id, position)
"""

_ROW_CHANGES = """
SELECT device_id, source_table, journal_epoch, source_pk_hash, commit_seq, op, pk, row,
       schema_hash, late, false AS synthetic, batch_id, segment_id,
       position::BIGINT AS position, row_index,
       make_timestamptz(received_us) AS received_at, {drain}::BIGINT AS drain_id,
       make_timestamptz(received_us)::DATE AS day
FROM joined
"""

_POINTS = """
SELECT head || series_{column}[1:4] || '-' || series_{column}[5:] AS datapoint_id, ts,
       'component' AS owner_kind, device_id AS owner_id, source_table || '.{column}' AS key,
       instance, held.{column}::{type} AS value, {unit} 'observed' AS provenance,
       'edge.rows' AS source, 'edge.row_batch' AS source_rule,
       1::BIGINT AS source_rule_version, late, device_id AS component_id,
       NULL::VARCHAR AS system_id, NULL::VARCHAR AS location_id, NULL::VARCHAR AS node_id,
       NULL::VARCHAR AS event_id, NULL::VARCHAR AS correlation_id,
       NULL::VARCHAR AS caused_by_event_id, 0::BIGINT AS revision, NULL::VARCHAR AS supersedes,
       segment_id, batch_id, {drain}::BIGINT AS drain_id, ts::DATE AS day
FROM joined
"""

_NEWEST = """
CREATE OR REPLACE TEMP TABLE newest AS
SELECT * FROM joined WHERE NOT late
QUALIFY row_number() OVER (
    PARTITION BY device_id, source_table, pk ORDER BY ts_us DESC) = 1
"""

_CURRENT = """
SELECT md5(device_id || ' ' || source_table || '.{column} ' || instance) AS identity,
       'component' AS owner_kind, device_id AS owner_id, source_table || '.{column}' AS key,
       instance, 'observed' AS provenance, '{kind}' AS kind, {double} AS value_double,
       {text} AS value_text, ts, 'edge.rows' AS source, 'latest' AS policy,
       '[{{"source":"edge.rows","datapoint_id":"' || head || series_{column}[1:4] || '-'
           || series_{column}[5:] || '"}}]' AS contributors,
       source_table
FROM newest
"""

TABLE = "peer_current_value"
_CREATE_TABLE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    identity uuid PRIMARY KEY, owner_kind text NOT NULL, owner_id text NOT NULL,
    key text NOT NULL, instance text NOT NULL, provenance text NOT NULL, kind text NOT NULL,
    value_double double precision, value_text text, ts timestamptz NOT NULL,
    source text NOT NULL, policy text NOT NULL, contributors text NOT NULL,
    source_table text NOT NULL, updated_at timestamptz NOT NULL, drain_id bigint NOT NULL
)
"""
_CREATE_INCOMING = f"CREATE TEMP TABLE incoming (LIKE {TABLE}) ON COMMIT DROP"
_UPSERT = f"""
INSERT INTO {TABLE} SELECT * FROM incoming
ON CONFLICT (identity) DO UPDATE SET value_double = excluded.value_double,
    value_text = excluded.value_text, kind = excluded.kind, ts = excluded.ts,
    contributors = excluded.contributors, updated_at = excluded.updated_at,
    drain_id = excluded.drain_id
WHERE excluded.ts > {TABLE}.ts
"""


@dataclass
class DuckDbPeer:
    """The other program, in a warm process, with as many threads as there are cores."""

    postgres_url: str

    def __post_init__(self) -> None:
        """Open DuckDB, and make the table of current values."""
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
        with closing(self._postgres()) as postgres, postgres, postgres.cursor() as cursor:
            cursor.execute(_CREATE_TABLE)

    def run(self, segments: Sequence[Path], warehouse: Path) -> None:
        """Take segments into the tables of a warehouse, and current values into Postgres."""
        files = [str(path) for path in segments]
        self._parse(files)
        self._store("raw_batches", _RAW_BATCHES, warehouse, segments=files)
        self._store("row_changes", _ROW_CHANGES, warehouse)
        self._store("metric_datapoint", _points(METRICS, "DOUBLE", "NULL AS unit,"), warehouse)
        self._store("state_datapoint", _points(STATES, "VARCHAR", ""), warehouse)
        self._project()

    def forget(self) -> None:
        """Empty the table of current values."""
        with closing(self._postgres()) as postgres, postgres, postgres.cursor() as cursor:
            cursor.execute(f"TRUNCATE {TABLE}")

    def current_values(self) -> pa.Table:
        """The current values as they are in Postgres."""
        with closing(self._postgres()) as postgres, postgres.cursor() as cursor:
            cursor.execute(
                "SELECT owner_id, key, instance, kind, value_double, value_text, ts, "
                f"contributors FROM {TABLE}"
            )
            columns = zip(*cursor.fetchall(), strict=True)
            names = [column.name for column in cursor.description or ()]
        return pa.table(dict(zip(names, map(pa.array, columns), strict=True)))

    def _parse(self, files: list[str]) -> None:
        self._duckdb.execute(_MESSAGES, {"segments": files}).fetchall()
        given = {"segments": files, "envelope": _ENVELOPE, "columns": _COLUMNS}
        self._duckdb.execute(_CHANGES, given).fetchall()
        self._duckdb.execute(_LATE).fetchall()
        series = ",".join(_SERIES.format(column=column) for column in (*METRICS, *STATES))
        self._duckdb.execute(_KEYS.format(series=series)).fetchall()
        self._duckdb.execute(_JOINED).fetchall()

    def _store(self, table: str, query: str, warehouse: Path, **given: list[str]) -> None:
        rows = self._duckdb.sql(query.replace("{drain}", str(DRAIN)), params=given or None)
        write_deltalake(
            warehouse / table,
            rows.to_arrow_reader(READ_AT_ONCE),
            mode="append",
            partition_by=["day"],
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )

    def _project(self) -> None:
        self._duckdb.execute(_NEWEST).fetchall()
        query = " UNION ALL ".join(_current(column) for column in (*METRICS, *STATES))
        ordered = f"SELECT *, now() AS updated_at, {DRAIN} AS drain_id FROM ({query}) ORDER BY 1"
        values = self._duckdb.sql(ordered).to_arrow_table()
        lines = io.BytesIO()
        csv.write_csv(values, lines, csv.WriteOptions(include_header=False, quoting_style="needed"))
        lines.seek(0)
        with closing(self._postgres()) as postgres, postgres, postgres.cursor() as cursor:
            cursor.execute(_CREATE_INCOMING)
            cursor.copy_expert("COPY incoming FROM STDIN (FORMAT csv)", lines)
            cursor.execute(_UPSERT)

    def _postgres(self) -> psycopg2.extensions.connection:
        url = make_url(self.postgres_url).set(drivername="postgresql")
        return psycopg2.connect(url.render_as_string(hide_password=False))


def _points(columns: Sequence[str], kind: str, unit: str) -> str:
    parts = (
        _POINTS.replace("{column}", column).replace("{type}", kind).replace("{unit}", unit)
        for column in columns
    )
    return " UNION ALL ".join(parts)


def _current(column: str) -> str:
    metric = column in METRICS
    held = f"held.{column}"
    return _CURRENT.format(
        column=column,
        kind="metric" if metric else "state",
        double=f"{held}::DOUBLE" if metric else "NULL::DOUBLE",
        text="NULL::VARCHAR" if metric else held,
    )
