"""Schemas whose columns do not hash to their fingerprint, found by Spark's own workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from ilyama_protocol.canonical import canonical_hash


def wrong_fingerprints(schemas: DataFrame) -> DataFrame:
    """Those of the schemas that are told by a wrong hash; there may be as many as batches."""
    return schemas.mapInArrow(_wrong, schemas.schema)


def _wrong(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        told = (batch[name].to_pylist() for name in ("source_table", "schema_hash", "columns"))
        wrong = [not _is_fingerprinted(*schema) for schema in zip(*told, strict=True)]
        yield batch.filter(pa.array(wrong, pa.bool_()))


def _is_fingerprinted(source_table: str, schema_hash: str, columns: str) -> bool:
    try:
        described = {"columns": msgspec.json.decode(columns), "table_name": source_table}
    except msgspec.DecodeError:
        return False
    return canonical_hash(described) == schema_hash
