"""A tiny firmware: a SQLite table, a journal of its changes, and the batches cut from it.

It shares no code with the platform; that is what its tests are for.
"""

import hashlib
import json
import os
import sqlite3
import sys
import time
import uuid

AFFINITIES = (
    ("INTEGER", ("INT",)),
    ("TEXT", ("CHAR", "CLOB", "TEXT")),
    ("BLOB", ("BLOB",)),
    ("REAL", ("REAL", "FLOA", "DOUB")),
)


def canonical(value: object) -> str:
    """Sorted keys, no white space, nothing escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def affinity(declared_type: str) -> str:
    """SQLite's own rules, in their order; only ASCII letters are folded."""
    folded = "".join(c.upper() if c.isascii() else c for c in declared_type)
    if not folded:
        return "BLOB"
    for name, words in AFFINITIES:
        if any(word in folded for word in words):
            return name
    return "NUMERIC"


def schema_columns(db: sqlite3.Connection, table: str) -> dict:
    """The columns of a table as they travel in `schema_columns`."""
    rows = db.execute('SELECT name, type, pk, "notnull" FROM pragma_table_info(?)', (table,))
    columns = [
        {
            "name": name,
            "decl_type_affinity": affinity(declared),
            "pk_ordinal": pk,
            "not_null": bool(not_null),
        }
        for name, declared, pk, not_null in rows
    ]
    return {"table_name": table, "columns": columns}


def schema_hash(schema: dict) -> str:
    """The fingerprint of a table."""
    by_name = sorted(schema["columns"], key=lambda column: column["name"])
    text = canonical({"columns": by_name, "table_name": schema["table_name"]})
    return hashlib.sha256(text.encode()).hexdigest()


def uuid7() -> str:
    """A UUID that begins with the time."""
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(0b11 << 62) | 0b10 << 62))


class Station:
    """One table and its journal."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.execute("CREATE TABLE pump (id INTEGER NOT NULL PRIMARY KEY, state TEXT, rpm REAL)")
        self.rebuild_journal()

    def rebuild_journal(self) -> None:
        """Begin anew: the numbers start again, so the epoch must be a new one."""
        self._epoch, self._commit_seq, self._changes = uuid7(), 0, []

    def set(self, pump: int, state: str, rpm: float) -> None:
        """Change a row, and write that down."""
        self._db.execute("REPLACE INTO pump VALUES (?, ?, ?)", (pump, state, rpm))
        row = {"id": pump, "state": state, "rpm": rpm}
        self._note("update", pump, row)

    def remove(self, pump: int) -> None:
        """Delete a row, and write that down."""
        self._db.execute("DELETE FROM pump WHERE id = ?", (pump,))
        self._note("delete", pump, None)

    def batch(self) -> bytes:
        """Everything that was not sent yet; keep these bytes until they are acknowledged."""
        changes, self._changes = self._changes, []
        schema = schema_columns(self._db, "pump")
        document = {
            "format_version": 1,
            "capture_strategy": "sqlite_row_batch_v1",
            "batch_id": uuid7(),
            "journal_epoch": self._epoch,
            "source_table": "pump",
            "schema_hash": schema_hash(schema),
            "schema_columns": schema,
            "first_commit_seq": changes[0]["commit_seq"],
            "last_commit_seq": changes[-1]["commit_seq"],
            "rows": changes,
        }
        return json.dumps(document, ensure_ascii=False).encode()

    def _note(self, op: str, pump: int, row: dict | None) -> None:
        self._commit_seq += 1
        change = {"commit_seq": self._commit_seq, "op": op, "pk": {"id": pump}, "row": row}
        self._changes.append(change)


def main() -> None:
    """Print one batch: two pumps start, one of them stops."""
    station = Station(sqlite3.connect(":memory:"))
    station.set(1, "running", 1450.0)
    station.set(2, "running", 1448.5)
    station.set(2, "stopped", 0.0)
    sys.stdout.buffer.write(station.batch())


if __name__ == "__main__":
    main()
