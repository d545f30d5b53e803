"""Compares the rows of a run with `row_changes`."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from ilyama_service.simulator.expectations import (
    SEQ_BITS,
    Expectations,
    Flags,
    Longs,
    content_of,
)
from ilyama_service.simulator.message_comparison import places_in
from ilyama_service.simulator.reports import EXAMPLES, RowFindings

ROW_COLUMNS: Final = (
    "device_id",
    "source_table",
    "journal_epoch",
    "source_pk_hash",
    "commit_seq",
    "op",
    "row",
    "received_at",
)


class StoredRows:
    """The rows of a run's devices as the platform holds them, scanned once."""

    def __init__(self, expected: Expectations, *, wanted: Collection[int]) -> None:
        self._expected = expected
        self._wanted = wanted
        self.texts: dict[int, str] = {}
        self.stray = 0
        self._keys = array("q")
        self._contents = array("q")
        self._first_own: dict[str, int] = {}
        self._last_foreign: dict[str, int] = {}

    def scan(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows in."""
        for batch in batches:
            columns = [batch[name].to_pylist() for name in ROW_COLUMNS[:-1]]
            moments = batch["received_at"].cast(pa.int64()).to_pylist()
            for device, table, epoch, pk, seq, op, text, moment in zip(
                *columns, moments, strict=True
            ):
                number = self._expected.instances.get((device, table, epoch, pk))  # type: ignore[call-overload]
                if number is None:
                    self._take_other(device, epoch, moment)
                else:
                    self._take(number << SEQ_BITS | seq, op, text)
                    self._first_own[device] = min(moment, self._first_own.get(device, moment))

    @property
    def keys(self) -> Longs:
        """The keys of the run's rows, as often as they are stored."""
        return np.frombuffer(self._keys, np.int64)

    @property
    def contents(self) -> Longs:
        """The operation and checksum of each."""
        return np.frombuffer(self._contents, np.int64)

    @property
    def shared_devices(self) -> set[str]:
        """Devices that sent something else since the run began."""
        return {
            device
            for device, moment in self._last_foreign.items()
            if moment > self._first_own.get(device, moment)
        }

    def _take(self, key: int, op: str, text: str | None) -> None:
        self._keys.append(key)
        self._contents.append(content_of(op, 0 if text is None else crc32(text.encode())))
        if text is not None and key in self._wanted:
            self.texts[key] = text

    def _take_other(self, device: str, epoch: str, moment: int) -> None:
        if epoch in self._expected.epochs:
            self.stray += 1
        else:
            self._last_foreign[device] = max(moment, self._last_foreign.get(device, moment))


def compare_rows(expected: Expectations, stored: StoredRows) -> tuple[RowFindings, list[str]]:
    """What is lost, doubled, unexpected or altered, with some examples."""
    known, first = np.unique(expected.row_keys, return_index=True)
    certain = expected.row_keys[expected.acknowledged[expected.row_messages]]
    must = np.isin(known, certain)
    place, ours = places_in(known, stored.keys)
    count = np.bincount(place[ours], minlength=len(known))
    altered = _altered(expected, stored, first=first, place=place, ours=ours)
    findings = RowFindings(
        expected=int(must.sum()),
        visible=int((count > 0).sum()),
        lost=int((must & (count == 0)).sum()),
        doubled=int((count > 1).sum()),
        unexpected=int((~ours).sum()) + stored.stray,
        altered=len(altered),
    )
    return findings, [
        *_examples(expected, known[must & (count == 0)], "is lost"),
        *_examples(expected, known[count > 1], "is there more than once"),
        *_examples(expected, stored.keys[~ours], "was never published"),
        *_examples(expected, altered, "has other content than came first"),
    ]


def _altered(
    expected: Expectations, stored: StoredRows, *, first: Longs, place: Longs, ours: Flags
) -> Longs:
    """Keys whose content is not the first; any published one where the first is not certain."""
    origin = first[place[ours]]
    keys, contents = stored.keys[ours], stored.contents[ours]
    differs = contents != expected.row_contents[origin]
    devices = expected.message_devices[expected.row_messages[origin]]
    undecided = np.isin(devices, expected.undecided_devices)
    if (differs & undecided).any():
        published = set(
            zip(expected.row_keys.tolist(), expected.row_contents.tolist(), strict=True)
        )
        for index in np.flatnonzero(differs & undecided):
            differs[index] = (int(keys[index]), int(contents[index])) not in published
    altered: Longs = keys[differs]
    return altered


def _examples(expected: Expectations, keys: Longs, what: str) -> list[str]:
    if not len(keys):
        return []
    names = list(expected.instances)
    told = []
    for key in keys[:EXAMPLES].tolist():
        instance, seq = names[key >> SEQ_BITS], key & ((1 << SEQ_BITS) - 1)
        where = f"{instance.source_table} of {instance.device_id}"
        told.append(f"commit {seq} of {where}, epoch {instance.journal_epoch}, {what}")
    return told
