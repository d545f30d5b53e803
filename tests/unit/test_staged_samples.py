"""What is staged is looked at as far as its files can be read."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ilyama_resources.delta import staged_samples
from ilyama_resources.delta.staged_files import StagedFile
from ilyama_resources.delta.staged_samples import staged_sample
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.damage import tear

SUMS = [StagedSum("dev-1", "pumps", "schema_review", "a3", 1, 2, 100)]


def _file(folder: Path, name: str, mode: str) -> StagedFile:
    row = {
        "device_id": "dev-1",
        "source_table": "pumps",
        "staging_reason": "schema_review",
        "schema_hash": "a3",
        "drain_id": 1,
        "received_at": datetime(2026, 4, 28, tzinfo=UTC),
        "op": "update",
        "pk": '{"id":1}',
        "row": f'{{"mode":"{mode}"}}',
        "fields": None,
    }
    table = pa.Table.from_pylist([row])
    texts = table.schema.get_field_index("fields")
    table = table.set_column(texts, "fields", pa.array([None], pa.string()))
    path = folder / name
    pq.write_table(table, path)
    return StagedFile(str(path))


@pytest.mark.parametrize("damage", [tear, Path.unlink], ids=["torn", "lost"])
def test_rows_of_a_damaged_file_are_left_out_and_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: object
) -> None:
    files = [_file(tmp_path, "a.parquet", "idle"), _file(tmp_path, "b.parquet", "on")]
    monkeypatch.setattr(staged_samples, "staged_files", lambda *_: files)
    assert callable(damage)
    damage(tmp_path / "a.parquet")
    unreadable = Unreadable(tmp_path)

    found = staged_sample(tmp_path, SUMS, unreadable, most=9, most_bytes=1_000)

    assert [sampled.row.content for sampled in found] == [{"mode": "on"}]
    assert unreadable.files == ["a.parquet"]
