"""Of large files of staged rows only what is wanted is kept, and others are not opened."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ilyama_resources.delta.staged_files import StagedFile, chosen_rows, holding, places_of
from ilyama_resources.postgres.staged_backlog import StagedSum

ROWS = 60_000
TEXT = "x" * 1_000
WHOLE = ROWS * len(TEXT)
PER_DEVICE = 20


def _sum(device_id: str, drain_id: int = 1) -> StagedSum:
    return StagedSum(device_id, "pumps", "lineage_paused", "a3", drain_id, PER_DEVICE, 100)


def _device(number: int) -> str:
    return f"dev-{number:05}"


_IN_A_PROCESS_OF_ITS_OWN = """
import sys
import pyarrow as pa
from ilyama_resources.delta.staged_files import chosen_rows, places_of
from tests.unit.test_staged_files import _sum
wanted = places_of([_sum(device_id) for device_id in sys.argv[2:]])
found = list(chosen_rows(sys.argv[1], wanted, ["row"]))
rows = sum(batch.num_rows for batch in found)
print(rows, pa.total_allocated_bytes(), pa.default_memory_pool().max_memory())
"""
"""Arrow tells the most that was ever allocated in a process."""


def _compacted(folder: Path, *, group: int) -> str:
    """One file of many devices, whose rows are a thousand bytes each."""
    count = ROWS // PER_DEVICE
    place = [_device(number % count) for number in range(ROWS)]
    rows = pa.table(
        {
            "staging_reason": ["lineage_paused"] * ROWS,
            "device_id": place,
            "source_table": ["pumps"] * ROWS,
            "row": [f"{number:08}{TEXT}" for number in range(ROWS)],
            "drain_id": pa.array([1] * ROWS, pa.int64()),
            "schema_hash": ["a3"] * ROWS,
        }
    )
    path = folder / "compacted.parquet"
    texts = ["staging_reason", "device_id", "source_table", "schema_hash"]
    pq.write_table(rows, path, row_group_size=group, compression="zstd", use_dictionary=texts)
    return str(path)


@pytest.mark.parametrize("group", [500, ROWS], ids=["many row groups", "one row group"])
def test_a_few_rows_of_a_large_file_are_found_without_holding_the_others(
    tmp_path: Path, group: int
) -> None:
    path = _compacted(tmp_path, group=group)
    told = subprocess.run(
        [sys.executable, "-c", _IN_A_PROCESS_OF_ITS_OWN, path, _device(7), _device(2_900)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows, held, most = map(int, told.stdout.split())
    assert rows == 2 * PER_DEVICE
    assert held < WHOLE // 100
    assert most < WHOLE // 3


def test_rows_are_chosen_by_everything_that_tells_one_sum_from_another(tmp_path: Path) -> None:
    path = _compacted(tmp_path, group=ROWS)
    near = _sum(_device(7))
    others = [
        near._replace(drain_id=2),
        near._replace(source_table="valves"),
        near._replace(staging_reason="schema_review"),
        near._replace(schema_hash="b4"),
    ]
    elsewhere = places_of([*others, _sum("nobody")])
    assert list(chosen_rows(path, elsewhere, ["row"])) == []
    found = list(chosen_rows(path, places_of([near]), ["row"]))
    assert sum(batch.num_rows for batch in found) == PER_DEVICE


def test_files_between_two_lineages_are_left_alone() -> None:
    files = [
        StagedFile(f"{drain}-{first}", (_device(first), _device(first + 9)), (drain, drain))
        for drain in (1, 2, 3)
        for first in (0, 10, 20)
    ]
    sums = [_sum(_device(3), 1), _sum(_device(25), 3)]
    assert [file.path for file in holding(files, sums)] == ["1-0", "3-20"]


def test_a_file_of_which_nothing_is_known_may_hold_anything() -> None:
    files = [StagedFile("a"), StagedFile("b", drains=(2, 3)), StagedFile("c", ("e", "f"))]
    assert [file.path for file in holding(files, [_sum("dev", 1)])] == ["a"]
    assert holding(files, []) == []
