import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.canonical import canonical_bytes, canonical_json, pk_hash, pk_hashes
from tests.unit.protocol.vectors import vectors

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


@pytest.mark.parametrize("vector", vectors("canonical_and_hash"))
def test_a_key_has_one_text_and_one_hash(vector: dict[str, str]) -> None:
    pk = json.loads(vector["input_json"])

    assert canonical_json(pk) == vector["canonical"]
    assert pk_hash(pk) == vector["sha256"]


@pytest.mark.parametrize("vector", vectors("canonical_and_hash"))
def test_hashing_in_bulk_gives_the_same_hash(vector: dict[str, str]) -> None:
    pk = json.loads(vector["input_json"])
    batch = SimpleNamespace(pk=[pk, pk], pk_text=[vector["input_json"], vector["canonical"]])

    assert pk_hashes(batch) == [vector["sha256"]] * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"\U00010000": 1, "\uffff": 2}, '{"\uffff":2,"\U00010000":1}'),
        ({"a": [1, {"z": None, "y": True}]}, '{"a":[1,{"y":true,"z":null}]}'),
        ("\b\f\n\r\t\x1f\x7f/", '"\\b\\f\\n\\r\\t\\u001f\x7f/"'),
        (1e16, "1e+16"),
        (1e-5, "1e-05"),
        (2**63, "9223372036854775808"),
    ],
)
def test_canonical_json_is_sorted_and_short(value: Any, text: str) -> None:
    assert canonical_json(value) == text


def test_one_and_one_point_zero_are_different_keys() -> None:
    assert pk_hash({"id": 1}) != pk_hash({"id": 1.0}) != pk_hash({"id": True})


@given(st.dictionaries(TEXTS, SCALARS))
def test_a_respelled_key_keeps_its_hash(pk: dict[str, Any]) -> None:
    spellings = [json.dumps(pk), json.dumps(pk, indent=1), canonical_bytes(pk).decode()]
    batch = SimpleNamespace(pk=[pk] * 3, pk_text=spellings)

    assert set(pk_hashes(batch)) == {pk_hash(pk)}
