import hashlib

import pytest

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, affinity_of, schema_hash

ID = SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True)
MODE = SchemaColumn("mode", Affinity.TEXT, pk_ordinal=0, not_null=False)
SETPOINT = SchemaColumn("setpoint", Affinity.REAL, pk_ordinal=0, not_null=False)


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
