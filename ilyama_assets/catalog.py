"""How tables present themselves in the Dagster UI."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from dagster import (
    AssetSpec,
    MetadataValue,
    TableColumn,
    TableColumnConstraints,
    TableConstraints,
    TableSchema,
)

from ilyama_resources.delta.data_files import TableContract

OWNERS = ["team:platform"]
KINDS = {"deltalake", "pyspark"}


def column_schema(contract: TableContract) -> TableSchema:
    """A contract's columns and constraints, as Dagster shows them."""
    return TableSchema(
        columns=[
            TableColumn(
                column.name,
                _type_name(column.type),
                description=column.meaning,
                constraints=TableColumnConstraints(nullable=column.nullable),
            )
            for column in contract.columns
        ],
        constraints=TableConstraints(other=[f"{n}: {e}" for n, e in contract.constraints.items()]),
    )


def table_spec(contract: TableContract, *, group: str, deps: Iterable[object]) -> AssetSpec:
    """The asset of a Delta table."""
    return AssetSpec(
        contract.name,
        deps=list(deps),  # type: ignore[arg-type]
        description=contract.description,
        group_name=group,
        kinds=KINDS,
        owners=OWNERS,
        metadata={"dagster/column_schema": MetadataValue.table_schema(column_schema(contract))},
    )


def _type_name(kind: pa.DataType) -> str:
    names = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double"}
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return names.get(kind, str(kind))
