import hashlib
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, affinity_of, schema_hash
from tests.oracle.canonical import schema_hash as hash_of_the_oracle
from tests.unit.protocol.payloads import columns_of
from tests.unit.protocol.vectors import vectors

ID = SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True)
MODE = SchemaColumn("mode", Affinity.TEXT, pk_ordinal=0, not_null=False)
SETPOINT = SchemaColumn("setpoint", Affinity.REAL, pk_ordinal=0, not_null=False)
WORDS = ("INT", "char", "CLOB", "Text", "BLOB", "real", "FLOA", "DOUB", *"INTF (\u0131")
WORDS_OF_A_COPY = {"INT": "INTEGER", "TEXT": "TEXT", "": "BLOB", "REAL": "REAL", "NUM": "NUMERIC"}
STORED_AS = {
    "INTEGER": ("integer", "integer"),
    "TEXT": ("text", "text"),
    "BLOB": ("integer", "text"),
    "REAL": ("real", "real"),
    "NUMERIC": ("integer", "integer"),
}


def test_the_fingerprint_of_a_table_is_known() -> None:
    assert (
        schema_hash("device_state", [ID, MODE, SETPOINT])
        == "2eca4022338318bb748bc0266ee4c9d9188aa84f3782687f9b585d36a9e79530"
    )


def test_the_fingerprint_is_the_hash_of_a_canonical_text() -> None:
    text = (
        '{"columns":[{"decl_type_affinity":"INTEGER","name":"id","not_null":true,"pk_ordinal":1}],'
        '"table_name":"t"}'
    )

    assert schema_hash("t", [ID]) == hashlib.sha256(text.encode()).hexdigest()


def test_the_order_of_columns_does_not_matter() -> None:
    assert schema_hash("t", [SETPOINT, ID, MODE]) == schema_hash("t", [ID, MODE, SETPOINT])


@pytest.mark.parametrize(
    ("declared_type", "affinity"),
    [
        ("INT", "INTEGER"),
        ("unsigned big int", "INTEGER"),
        ("CHARINT", "INTEGER"),
        ("FLOATING POINT", "INTEGER"),
        ("VARCHAR(255)", "TEXT"),
        ("nchar(55)", "TEXT"),
        ("CLOB", "TEXT"),
        ("text", "TEXT"),
        ("BLOB", "BLOB"),
        ("", "BLOB"),
        ("REAL", "REAL"),
        ("DOUBLE PRECISION", "REAL"),
        ("float", "REAL"),
        ("DECIMAL(10,5)", "NUMERIC"),
        ("BOOLEAN", "NUMERIC"),
        ("DATETIME", "NUMERIC"),
        ("STRING", "NUMERIC"),
        (" ", "NUMERIC"),
        ("\u0131NT", "NUMERIC"),
    ],
)
def test_the_affinity_follows_the_rules_of_sqlite(declared_type: str, affinity: str) -> None:
    assert affinity_of(declared_type) == affinity


@pytest.mark.parametrize("vector", vectors("affinity"))
def test_a_declared_type_has_the_affinity_of_its_vector(vector: dict[str, Any]) -> None:
    assert affinity_of(vector["declared_type"]) == vector["affinity"]
    assert affinity_in_sqlite(vector["declared_type"]) == vector["affinity"]


@given(st.lists(st.sampled_from(WORDS), max_size=5).map("".join))
def test_any_declared_type_has_the_affinity_that_sqlite_gives_it(declared_type: str) -> None:
    assert affinity_of(declared_type) == affinity_in_sqlite(declared_type)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6))
def test_any_text_is_a_declared_type(declared_type: str) -> None:
    assert affinity_of(declared_type) == affinity_in_sqlite(declared_type)


@pytest.mark.parametrize("vector", vectors("schema_fingerprint"))
def test_a_table_of_sqlite_has_the_fingerprint_of_its_vector(vector: dict[str, Any]) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(vector["create_table"])
        asked = 'SELECT name, type, pk, "notnull" FROM pragma_table_info(?)'
        found = [
            SchemaColumn(name, affinity_of(declared), pk_ordinal=pk, not_null=bool(not_null))
            for name, declared, pk, not_null in db.execute(asked, (vector["table_name"],))
        ]

    assert columns_of(*found, table_name=vector["table_name"])["columns"] == vector["columns"]
    assert schema_hash(vector["table_name"], found) == vector["sha256"]
    assert hash_of_the_oracle(vector["table_name"], vector["columns"]) == vector["sha256"]
    assert hashlib.sha256(vector["canonical"].encode()).hexdigest() == vector["sha256"]


def affinity_in_sqlite(declared_type: str) -> str:
    """What SQLite itself says, twice: by the table it makes of a column, and by what it stores."""
    quoted = '"' + declared_type.replace('"', '""') + '"' if declared_type else ""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE t (c {quoted})")
        db.execute("CREATE TABLE copied AS SELECT c FROM t")
        [(word,)] = db.execute("SELECT type FROM pragma_table_info('copied')")
        db.executemany("INSERT INTO t VALUES (?)", [(1,), ("1",)])
        stored = tuple(kind for (kind,) in db.execute("SELECT typeof(c) FROM t ORDER BY rowid"))
    affinity = WORDS_OF_A_COPY[word]
    assert stored == STORED_AS[affinity]
    return affinity
