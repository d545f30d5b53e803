from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ilyama_protocol.identifiers import (
    datapoint_id,
    instance_of,
    instances_of,
    is_uuid,
    is_uuid7,
    key_fault,
    key_of,
)
from tests.unit.protocol.vectors import vectors


@pytest.mark.parametrize("vector", vectors("datapoint_id"))
def test_a_datapoint_has_one_id(vector: dict[str, Any]) -> None:
    assert datapoint_id(vector["ts_us"], vector["series"]) == vector["datapoint_id"]


def test_a_corrected_datapoint_has_another_id_at_the_same_time() -> None:
    first, corrected = (
        UUID(datapoint_id(1_777_366_800_000_000, ["a"] * 6, revision)) for revision in (0, 1)
    )

    assert first.int >> 64 == corrected.int >> 64
    assert first != corrected
    assert first.version == corrected.version == 8


@pytest.mark.parametrize(
    ("text", "any_version", "version_7"),
    [
        ("019693e0-7c1a-7b3e-9f00-0123456789ab", True, True),
        ("019693E0-7C1A-7B3E-BF00-0123456789AB", True, True),
        ("019693e0-7c1a-7b3e-7f00-0123456789ab", True, False),
        ("019693e0-7c1a-7b3e-cf00-0123456789ab", True, False),
        ("9b2f7c1e-3d4a-4c5b-8e6f-0123456789ab", True, False),
        ("00000000-0000-0000-0000-000000000000", True, False),
        ("019693e07c1a7b3e9f000123456789ab", False, False),
        ("{019693e0-7c1a-7b3e-9f00-0123456789ab}", False, False),
        ("urn:uuid:019693e0-7c1a-7b3e-9f00-0123456789ab", False, False),
        ("019693e0-7c1a-7b3e-9f00-0123456789ab\n", False, False),
        ("019693e0-7c1a-7b3e-9f00-0123456789ag", False, False),
        ("\u066019693e0-7c1a-7b3e-9f00-0123456789ab", False, False),
        ("019693e07-c1a-7b3e-9f00-0123456789ab", False, False),
        ("", False, False),
    ],
)
def test_a_uuid_is_hex_with_hyphens(text: str, any_version: bool, version_7: bool) -> None:
    assert (is_uuid(text), is_uuid7(text)) == (any_version, version_7)


@pytest.mark.parametrize(
    ("source_table", "column", "key"),
    [
        ("temps", "value_c", "temps.value_c"),
        ("plant.alarms", "ack.by%", "plant%2Ealarms.ack%2Eby%25"),
        ("temps", "__deleted", "temps.%5F_deleted"),
        ("temps", "__Deleted", "temps.__Deleted"),
        ("__deleted", "x", "__deleted.x"),
        ("temps", "%5F_deleted", "temps.%255F_deleted"),
        ("temps", "", "temps."),
        ("temps", None, "temps.__deleted"),
    ],
)
def test_a_column_has_one_key(source_table: str, column: str | None, key: str) -> None:
    assert key_of(source_table, column) == key


@pytest.mark.parametrize(
    ("pk", "instance"),
    [
        ({"id": 7}, "7"),
        ({"b": 2, "a": "N/1%"}, "N%2F1%25/2"),
        ({"id": None}, ""),
        ({"a": None, "b": None}, "/"),
        ({"id": True, "no": False}, "true/false"),
        ({"id": 1.0}, "1.0"),
        ({"id": 1e16}, "1e+16"),
        ({"id": -0.0}, "-0.0"),
        ({"id": 2**63 - 1}, "9223372036854775807"),
        ({"id": "a.b"}, "a.b"),
        ({"Z": 1, "a": 2, "é": 3}, "1/2/3"),
    ],
)
def test_an_instance_lists_the_key_values(pk: dict[str, Any], instance: str) -> None:
    assert instance_of(pk) == instance


@pytest.mark.parametrize(
    "pks",
    [
        [{"id": 1}, {"id": 2}],
        [{"id": 1}, {"id": "a/b"}, {"id": None}, {"id": True}, {"id": 0.5}],
        [{"b": 1, "a": "x"}, {"b": 2, "a": "y"}],
        [{"b": 1, "a": "x"}, {"a": "y", "b": 2}, {"c": 3}],
    ],
    ids=["integers", "mixed values", "composite", "mixed columns"],
)
def test_the_instances_of_a_batch_are_those_of_its_keys(pks: list[dict[str, Any]]) -> None:
    batch = SimpleNamespace(pk=pks, pk_text=[])

    assert instances_of(batch) == [instance_of(pk) for pk in pks]


CHOOSABLE = ["site.flow", "a", "with space", "k" * 512, "\N{SNOWMAN}" * 512]
NOT_THE_PLATFORMS = ["a.__deleted.b", "a.__deleted_at", "a%2E__deleted", "my__deleted"]


@pytest.mark.parametrize("key", [*CHOOSABLE, *NOT_THE_PLATFORMS])
def test_people_may_choose_such_keys(key: str) -> None:
    assert key_fault(key) is None


@pytest.mark.parametrize(
    "key",
    ["", "k" * 513, "a\nb", "a\0", "\x7f", "a\x85b", "\ud800", "other.__deleted", "__deleted"],
)
def test_others_they_may_not(key: str) -> None:
    assert key_fault(key) is not None
