"""Segment files say what they hold, and those of older builds are read like new ones."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_resources.landing.segment_files import read_footer, read_messages, write_segment
from tests.unit.intake.traffic import NOW, TOPIC

REJECTION = "0193a0e0-0000-8000-8000-000000000001"
LIVE = [Message("s", i, TOPIC, b"x" * i, NOW + i, user_properties={"a": "b"}) for i in range(3)]
REPLAYED = [
    Message("s", 0, TOPIC, b"x", NOW, rejection_id=REJECTION),
    Message(
        "s", 1, TOPIC, b"rows", NOW + 1, rejection_id=REJECTION, timed_anew=True, arrived_at=NOW
    ),
]


@pytest.mark.parametrize(
    ("messages", "origin"),
    [
        pytest.param(LIVE, Origin.LIVE, id="live"),
        pytest.param(REPLAYED, Origin.REJECTION, id="rejection"),
    ],
)
def test_a_segment_is_read_as_it_was_written(
    tmp_path: Path, messages: list[Message], origin: Origin
) -> None:
    written = write_segment(tmp_path / "s.parquet", messages, origin)
    assert list(read_messages(tmp_path / "s.parquet")) == messages
    assert read_footer(tmp_path / "s.parquet") == written
    assert written.origin == origin


def test_a_segment_of_an_older_build_is_live(tmp_path: Path) -> None:
    written = write_segment(tmp_path / "s.parquet", LIVE)
    table = pq.read_table(tmp_path / "s.parquet")
    footer = table.schema.metadata[b"segment"].decode().removesuffix(" live")
    pq.write_table(table.replace_schema_metadata({"segment": footer}), tmp_path / "s.parquet")
    assert read_footer(tmp_path / "s.parquet") == written


def test_what_an_older_build_timed_anew_has_no_other_moment(tmp_path: Path) -> None:
    write_segment(tmp_path / "s.parquet", REPLAYED, Origin.REJECTION)
    table = pq.read_table(tmp_path / "s.parquet")
    pq.write_table(table.drop_columns(["arrived_at"]), tmp_path / "s.parquet")
    (_, anew) = read_messages(tmp_path / "s.parquet")
    assert anew == replace(REPLAYED[1], arrived_at=None)
