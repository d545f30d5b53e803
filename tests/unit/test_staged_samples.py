"""What is staged is looked at as far as its files can be read, and as was asked for."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ilyama_resources.delta import staged_samples
from ilyama_resources.delta.staged_files import StagedFile
from ilyama_resources.delta.staged_samples import SampledSum, staged_sample
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.damage import tear

Sampling = Callable[..., tuple[list[tuple[str, str]], list[str]]]
CONTENTS = {"op": "update", "pk": '{"id":1}', "fields": None}


def _sum(device_id: str = "dev-1", drain_id: int = 1, rows: int = 2) -> StagedSum:
    return StagedSum(device_id, "pumps", "schema_review", "a3", drain_id, rows, 100)


def _file(folder: Path, name: str, *rows: tuple[StagedSum, str]) -> StagedFile:
    """A file of rows, each of a sum and with a mode of its own."""
    told = [
        sum_._asdict()
        | CONTENTS
        | {"received_at": datetime(2026, 4, 28, tzinfo=UTC), "row": f'{{"mode":"{mode}"}}'}
        for sum_, mode in rows
    ]
    table = pa.Table.from_pylist(told).drop_columns(["turn", "rows", "bytes"])
    texts = table.schema.get_field_index("fields")
    table = table.set_column(texts, "fields", pa.array([None] * len(rows), pa.string()))
    path = folder / name
    pq.write_table(table, path)
    drains = [sum_.drain_id for sum_, _ in rows]
    return StagedFile(str(path), drains=(min(drains), max(drains)))


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sampling:
    """Which modes of which devices are looked at in files, and which of these are unreadable."""

    def looked_at(
        files: Sequence[StagedFile], *chosen: SampledSum
    ) -> tuple[list[tuple[str, str]], list[str]]:
        monkeypatch.setattr(staged_samples, "staged_files", lambda *_: files)
        unreadable = Unreadable(tmp_path)
        found = staged_sample(tmp_path, chosen, unreadable)
        return [(one.device_id, one.row.content["mode"]) for one in found], unreadable.files

    return looked_at


@pytest.mark.parametrize("damage", [tear, Path.unlink], ids=["torn", "lost"])
def test_rows_of_a_damaged_file_are_left_out_and_the_file_is_named(
    tmp_path: Path, sampled: Sampling, damage: Callable[[Path], None]
) -> None:
    files = [
        _file(tmp_path, name, (_sum(), mode))
        for name, mode in (("a.parquet", "idle"), ("b.parquet", "on"))
    ]
    damage(tmp_path / "a.parquet")

    assert sampled(files, SampledSum(_sum(), 2)) == ([("dev-1", "on")], ["a.parquet"])


def test_of_every_sum_so_many_rows_are_looked_at_wherever_they_lie(
    tmp_path: Path, sampled: Sampling
) -> None:
    early, late, other = _sum(), _sum(drain_id=2), _sum("dev-2", drain_id=2)
    files = [
        _file(tmp_path, "a", (late, "3"), (other, "4"), (late, "5"), (other, "6")),
        _file(tmp_path, "b", (early, "1"), (early, "2")),
    ]
    chosen = [SampledSum(early, 2), SampledSum(late, 1), SampledSum(other, 1)]

    expected = [("dev-1", "1"), ("dev-1", "2"), ("dev-1", "3"), ("dev-2", "4")]
    assert sampled(files, *chosen) == (expected, [])
    assert sampled(files[::-1], *chosen) == (expected, [])
    assert sampled(files, chosen[2]) == ([("dev-2", "4")], [])


def test_a_file_in_which_nothing_is_left_to_look_at_is_not_opened(
    tmp_path: Path, sampled: Sampling
) -> None:
    files = [_file(tmp_path, name, (_sum(), name), (_sum(drain_id=2), name)) for name in "ab"]
    tear(tmp_path / "b")

    assert sampled(files, SampledSum(_sum(), 1)) == ([("dev-1", "a")], [])
