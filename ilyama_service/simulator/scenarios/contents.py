"""Legal rows that look odd, and legal batches that are as large as they may be."""

from dataclasses import replace
from typing import Any

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.limits import MAX_TABLE_NAME
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.scenarios.expected import accepted, duplicate, staged
from ilyama_service.simulator.scenarios.script import COLUMNS, Script
from ilyama_service.simulator.source_tables import columns_of
from ilyama_service.simulator.spelling import compact

_UNFIT = StagingReason.MATERIALIZATION_FAILED
ODD_TABLES = (
    *("../x", "..", ".", "/", "a/b", "~", "C:\\x", "%2e%2e%2f", "*", "?x=1#y"),
    *("'; DROP TABLE device; --", '"quoted"', "`x`", "${HOME}", "a.b", "sqlite_master", " "),
    *("zażółć", "😀", "e\u0301", "row_changes", "x" * MAX_TABLE_NAME),
    *("Valve", "VALVE", "valve", "select", "con", "_delta_log"),
)
ODD_COLUMNS = (
    "a.b",
    "%",
    "%2E",
    "__deleted",
    "%5F_deleted",
    "zażółć",
    "",
    "a b",
    "\0",
    '"',
    "../x",
)
_WORDS = (
    *("select", "FROM", "table", "order", "Order", "ORDER", "rowid", "device_id", "commit_seq"),
    *("e\u0301", "é", "😀", "İ", "ß", "SS", " id", "id ", "`x`", "'", '""', "a;b", "a,b"),
    "x" * 200,
)
_ODD_VALUES: tuple[Any, ...] = (
    *(0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1e-7, 1e16, 5e-324, 1.7976931348623157e308),
    *("", "a/b%2F.c", "zażółć", "😀", 'quote"back\\', "\0", "line\nbreak", None, True, False),
    *([], {}, {"y": [1, 2.5, None]}, [[[]]]),
)
_ODD_KEYS = (None, True, False, 1, 1.0, "1", "1.0", "true", "", "/", "%2F", 2**63 - 1, -0.5, "\0")


def table_named_like_a_path(device: Script) -> None:
    """Tables are named ../x and worse: names are data, never places."""
    for name in ODD_TABLES:
        device.sends(device.batch(device.changes(1), table=name), accepted(1))


def odd_column_names(device: Script) -> None:
    """Columns have names with dots, slashes, quotes, nothing at all."""
    row: Document = dict.fromkeys(ODD_COLUMNS, "x")
    device.sends(device.batch(device.changes(1, **row), announced=False), accepted(1))


def announced_odd_columns(device: Script) -> None:
    """Announced columns are reserved words, quoted, alike but for case or accents, very long."""
    named = [SchemaColumn(name, Affinity.TEXT, pk_ordinal=0, not_null=False) for name in _WORDS]
    for columns in ((*COLUMNS, *named), (*COLUMNS, *named[::-1])):
        row: Document = {column.name: "x" for column in named}
        device.sends(device.batch(device.changes(2, **row), columns=columns), accepted(2))


def odd_values(device: Script) -> None:
    """Values are nested, null, boolean, or at the ends of what fits 64 bits and doubles."""
    changes = [change for value in _ODD_VALUES for change in device.changes(1, odd=value)]
    device.sends(device.batch(changes, announced=False), accepted(len(_ODD_VALUES)))


def odd_primary_keys(device: Script) -> None:
    """Keys that read alike are different: 1, 1.0, "1" and true."""
    changes = device.changes(len(_ODD_KEYS))
    odd = [change | {"pk": {"k": key}} for change, key in zip(changes, _ODD_KEYS, strict=True)]
    same = [change | {"commit_seq": 1} for change in odd]
    device.sends(device.batch(odd, announced=False), accepted(len(odd)))
    device.sends(device.batch(same, table="same", announced=False), accepted(len(same)))


def values_of_another_kind(device: Script) -> None:
    """Values do not fit columns that may be null: kept, and shown as quarantined."""
    columns = [replace(column, not_null=column.pk_ordinal > 0) for column in COLUMNS]
    device.sends(device.batch(device.changes(2, rpm="fast"), columns=columns), accepted(2))


def keys_of_another_kind(device: Script) -> None:
    """A key does not fit its column, nor null one that must not be null: kept, or set aside."""
    device.sends(device.batch(device.changes(2, rpm=None)), accepted(2))
    device.sends(device.batch(device.changes(2, pk="one")), staged(2, _UNFIT))


def deaf_to_a_pause(device: Script) -> None:
    """Rows that fit no table come until its circuit opens: it is paused, and sends on."""
    device.sends(device.batch(device.changes(2)), accepted(2))
    most = device.failures
    device.sends(device.batch(device.changes(most, pk="one")), staged(most, _UNFIT))
    for _ in range(2):
        device.sends(device.batch(device.changes(2)), staged(2, StagingReason.LINEAGE_PAUSED))


def five_hundred_columns(device: Script) -> None:
    """A table has five hundred columns."""
    columns = columns_of("id INTEGER", *(f"c{number} REAL" for number in range(499)))
    row: Document = {column.name: 1.5 for column in columns[1:]}
    device.sends(device.batch(device.changes(2, **row), columns=columns), accepted(2))


def most_rows(device: Script) -> None:
    """A batch has exactly as many rows as it may, then all of them again."""
    short = [
        {"commit_seq": number, "op": "update", "pk": {"n": number}, "row": {"v": 1}}
        for number in range(1, device.limits.batch_max_rows + 1)
    ]
    for expected in (accepted(len(short)), duplicate(len(short))):
        device.sends(device.batch(short, announced=False), expected)


def largest_payload(device: Script) -> None:
    """A payload has exactly as many bytes as it may."""
    payload = compact(device.batch(device.changes(1))).encode()
    device.sends(payload.ljust(device.limits.payload_max_bytes), accepted(1))


CONTENTS = (
    table_named_like_a_path,
    odd_column_names,
    announced_odd_columns,
    odd_values,
    odd_primary_keys,
    values_of_another_kind,
    keys_of_another_kind,
    deaf_to_a_pause,
    five_hundred_columns,
    most_rows,
    largest_payload,
)
