"""Files that no table needs go; on a platform without tables there is nothing to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from ilyama_assets.compaction import sweepable
from ilyama_assets.tables import CURRENT_VALUE, RAW_BATCHES, TEXT
from ilyama_resources.delta.data_files import TableColumn, TableContract
from ilyama_resources.delta.device_tables import Mirror, mirror_at
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres import Gateway


class _Records:
    """Records that know whether a drain is unfinished, and nothing else."""

    def __init__(self, unfinished: object) -> None:
        self._unfinished = unfinished

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        yield SimpleNamespace(drains=SimpleNamespace(unfinished=lambda: self._unfinished))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path, "test")


def _sweepable(warehouse: Warehouse, *, unfinished: object = None) -> list[str]:
    return sweepable(warehouse, cast(Gateway, _Records(unfinished)))


def test_without_tables_there_is_nothing_to_sweep(warehouse: Warehouse) -> None:
    assert _sweepable(warehouse) == []


def test_derived_tables_are_swept_too_and_intake_only_between_drains(warehouse: Warehouse) -> None:
    for contract in (CURRENT_VALUE, RAW_BATCHES):
        warehouse.ensure(contract)
    assert _sweepable(warehouse) == [CURRENT_VALUE.name, RAW_BATCHES.name]
    assert _sweepable(warehouse, unfinished="a drain") == [CURRENT_VALUE.name]
    assert warehouse.vacuum(CURRENT_VALUE.name) == 0


def test_device_tables_are_swept_at_any_time(warehouse: Warehouse) -> None:
    mirror = Mirror("../x", "acme")
    device = TableColumn("device_id", TEXT, "device")
    warehouse.ensure(TableContract(mirror.name, mirror.description, (device,)))

    assert _sweepable(warehouse, unfinished="a drain") == [mirror.name]
    assert mirror_at(DeltaTable(warehouse.location(mirror.name))) == mirror
