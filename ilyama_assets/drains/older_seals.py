"""Current values in the seals of older builds: a row for each, rather than for each instance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa

from ilyama_resources.postgres.copying import SHOWN_NUL

_DATAPOINT = re.compile(r'"datapoint_id":"([^"]+)"')


def is_of_older_build(told: pa.Table) -> bool:
    """Whether a table of current values has a row for each."""
    return not pa.types.is_list(told.schema.field("key").type)


def told_by_value(told: pa.Table) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Device, instance and value of each row, by key.

    The oldest of them tell whole contributors, of one datapoint each. Where U+FFFD may stand for
    U+0000, nobody knows the identity any more: such a value is served when it next changes.
    """
    for row in sorted(told.to_pylist(), key=lambda row: str(row["key"])):
        if SHOWN_NUL in row["key"] + row["instance"]:
            continue
        datapoint = row.get("datapoint_id") or _DATAPOINT.findall(row["contributors"])[0]
        yield row["owner_id"], row["instance"], row | {"datapoint_id": UUID(datapoint).bytes}
