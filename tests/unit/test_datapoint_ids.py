"""Ids for whole columns are the ids of their datapoints."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_protocol.identifiers import datapoint_id, escape_instance, id_at, series_digest
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, SOURCE
from ilyama_protocol.intake.known_keys import KnownKeys
from tests.unit.protocol.vectors import vectors

MOMENTS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
DIGESTS = st.integers(0, 2**62 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _column_ids(ts: list[int], digests: list[int]) -> list[str]:
    ids = datapoint_ids(np.array(ts, np.int64), np.array(digests, np.uint64))
    return list(ids.to_pylist())


@pytest.mark.parametrize("vector", vectors("datapoint_id"))
def test_a_column_of_one_has_the_id_of_the_vector(vector: dict[str, Any]) -> None:
    digest = series_digest(vector["series"])

    assert _column_ids([vector["ts_us"]], [digest]) == [vector["datapoint_id"]]
    assert datapoint_id(vector["ts_us"], vector["series"]) == vector["datapoint_id"]


@given(st.lists(st.tuples(MOMENTS, DIGESTS), max_size=20))
def test_every_row_of_a_column_has_its_own_id(points: list[tuple[int, int]]) -> None:
    ts, digests = [ts for ts, _ in points], [digest for _, digest in points]

    assert _column_ids(ts, digests) == [id_at(*point) for point in points]


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=4))
def test_the_remembered_bits_are_those_of_the_series(
    device_id: str, key: str, names: list[str]
) -> None:
    known = KnownKeys(device_id)
    pks = [{"name": name} for name in names]
    numbers = known.numbers([*map(json.dumps, pks)])

    expected = [
        series_digest([OWNER_KIND, device_id, key, escape_instance(name), PROVENANCE, SOURCE])
        for name in names
    ]

    assert [known.series(key)[number] for number in numbers] == expected


def test_keys_that_are_met_later_get_their_own_series() -> None:
    known = KnownKeys("dev")
    known.numbers(['{"id":1}'])
    first = [*known.series("t.c")]
    numbers = known.numbers(['{"id":2}', '{"id":1}'])

    assert numbers.tolist() == [1, 0]
    assert [*known.series("t.c")][:1] == first
    assert len({*known.series("t.c")}) == 2


def test_two_spellings_of_a_key_are_told_as_one() -> None:
    known = KnownKeys("dev")
    known.numbers(['{"id":1}', '{ "id": 1 }'])

    assert known.texts == ['{"id":1}', '{ "id": 1 }']
    assert len({*known.hashes}) == len({*known.instances}) == len({*known.series("t.c")}) == 1
