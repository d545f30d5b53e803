"""Compares the record of a run with what the platform holds: nothing lost, nothing doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from ilyama_resources.delta.reading import rows_of_devices
from ilyama_resources.postgres import Gateway
from ilyama_service.simulator.drain_watch import LEDGER, DrainWatch
from ilyama_service.simulator.expectations import Expectations
from ilyama_service.simulator.message_comparison import LEDGER_COLUMNS, compare_messages
from ilyama_service.simulator.reports import Report
from ilyama_service.simulator.row_comparison import ROW_COLUMNS, StoredRows, compare_rows
from ilyama_service.simulator.sample_comparison import SAMPLE_COLUMNS, compare_samples
from ilyama_service.simulator.value_comparison import ValueComparison, served_by

_ROWS: Final = "row_changes"
_SAMPLES: Final = "telemetry_samples"


class Verification:
    """Compares one run."""

    def __init__(self, expected: Expectations, warehouse: Path, gateway: Gateway) -> None:
        self._expected = expected
        self._warehouse = warehouse
        self._gateway = gateway
        self._drains = DrainWatch(warehouse, gateway)

    def verify(self, *, wait_s: float) -> Report:
        """Compare; while something is missing, again after every drain until the time is over."""
        deadline = time.monotonic() + wait_s
        while True:
            seen = self._drains.progress()
            report = self.compare()
            if report.is_clean or not self._drains.awaited(seen, deadline):
                return report

    def compare(self) -> Report:
        """Compare with what there is now."""
        expected = self._expected
        messages, lost = compare_messages(expected, self._batches(LEDGER, LEDGER_COLUMNS))
        newest = expected.newest_rows()
        wanted = {row.content_key for row in newest if row.content_key is not None}
        stored = StoredRows(expected, wanted=wanted)
        stored.scan(self._batches(_ROWS, ROW_COLUMNS))
        rows, misplaced = compare_rows(expected, stored)
        values, wrong = ValueComparison(served_by(self._gateway), stored.texts).compare(
            newest, left_out=stored.shared_devices
        )
        values.undecided += expected.undecided_pks
        sampled = self._batches(_SAMPLES, SAMPLE_COLUMNS) if expected.samples else ()
        samples, missing = compare_samples(expected, sampled)
        examples = [*lost, *misplaced, *wrong, *missing]
        return Report(expected.header.run, messages, rows, values, examples, samples)

    def _batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        header = self._expected.header
        # What a seeded run sends may have come on any day before, from a run with the same seed.
        since = None if header.seeded else header.started_at.date()
        return rows_of_devices(
            self._warehouse, table, columns, device_ids=self._expected.device_ids, since=since
        )
