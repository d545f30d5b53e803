"""Seeded traffic: fleets whose devices change the same rows again and again.

A row has six columns, as wide as 4,096 of them fit a message of half a mebibyte.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from tests.oracle import Event
from tests.streams.identifiers import START_US, Identifiers
from tests.streams.telemetry import rfc3339

TABLE: Final = "zone"
COLUMNS: Final = (
    SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True),
    SchemaColumn("mode", Affinity.TEXT, pk_ordinal=0, not_null=True),
    SchemaColumn("target", Affinity.REAL, pk_ordinal=0, not_null=True),
    SchemaColumn("temp", Affinity.REAL, pk_ordinal=0, not_null=False),
    SchemaColumn("fan", Affinity.INTEGER, pk_ordinal=0, not_null=True),
    SchemaColumn("lamp", Affinity.INTEGER, pk_ordinal=0, not_null=True),
)
ROWS: Final = 4096
DEVICES: Final = 50
PRIMARY_KEYS: Final = 1000
MICROSECONDS_APART: Final = 20_000
_MODES: Final = ("heat", "cool", "idle", "thaw")
_NULL_TEMPERATURES: Final = 0.01


@dataclass
class Fleet:
    """Devices that report in turn; each has a journal that only moves forward."""

    seed: int
    devices: int = DEVICES
    primary_keys: int = PRIMARY_KEYS
    slug: str = "bench"
    table: str = TABLE
    sent: int = 0
    next_commit: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give every device a journal."""
        self._announced: set[tuple[str, int]] = set()
        self._identifiers = Identifiers(random.Random(self.seed))
        self._rng = np.random.default_rng(self.seed)
        self._epochs = [self._identifiers.uuid7() for _ in range(self.devices)]

    def device_id(self, number: int) -> str:
        """The id under which the platform registers a device by itself."""
        return f"{self.slug}/dev-{number:05}"

    def batches(self, count: int, *, rows: int = ROWS) -> list[Event]:
        """The next messages of the fleet."""
        return [self._next(rows) for _ in range(count)]

    def _next(self, rows: int) -> Event:
        device = self.sent % self.devices
        topic = f"{self.device_id(device)}/sync/rows/batch"
        landed_at = START_US + self.sent * MICROSECONDS_APART
        self.sent += 1
        return Event(topic, self._payload(device, rows), landed_at)

    def _payload(self, device: int, rows: int) -> bytes:
        first = self.next_commit.get(device, 1)
        self.next_commit[device] = first + rows
        head = {
            "format_version": 1,
            "capture_strategy": "sqlite_row_batch_v1",
            "batch_id": self._identifiers.uuid7(),
            "journal_epoch": self._epochs[device],
            "source_table": self.table,
            "schema_hash": schema_hash(self.table, COLUMNS),
            "first_commit_seq": first,
            "last_commit_seq": first + rows - 1,
        }
        if (self.table, device) not in self._announced:
            self._announced.add((self.table, device))
            head["schema_columns"] = _declared(self.table)
        opened = msgspec.json.encode(head).removesuffix(b"}")
        return b'%b,"rows":[%b]}' % (opened, ",".join(self._rows(first, rows)).encode())

    def _rows(self, first: int, rows: int) -> list[str]:
        draw = self._rng
        keys = draw.integers(self.primary_keys, size=rows).tolist()
        modes = draw.integers(len(_MODES), size=rows).tolist()
        targets = (draw.integers(150, 250, size=rows) / 10).tolist()
        temps = (draw.integers(100, 300, size=rows) / 10).tolist()
        unknown = (draw.random(rows) < _NULL_TEMPERATURES).tolist()
        fans = draw.integers(4, size=rows).tolist()
        lamps = draw.integers(2, size=rows).tolist()
        return [
            f'{{"commit_seq":{seq},"op":"update","pk":{{"id":{key}}},"row":{{"id":{key},'
            f'"mode":"{_MODES[mode]}","target":{target},"temp":{"null" if none else temp},'
            f'"fan":{fan},"lamp":{lamp}}}}}'
            for seq, key, mode, target, temp, none, fan, lamp in zip(
                range(first, first + rows),
                keys, modes, targets, temps, unknown, fans, lamps,
                strict=True,
            )
        ]  # fmt: skip


@dataclass
class SampledFleet:
    """Devices that sample the same columns, a row every few milliseconds."""

    seed: int
    devices: int = DEVICES
    slug: str = "bench"
    table: str = TABLE
    sent: int = 0

    def __post_init__(self) -> None:
        """Begin where the other fleets do."""
        self._announced: set[tuple[str, int]] = set()
        self._identifiers = Identifiers(random.Random(self.seed))
        self._rng = np.random.default_rng(self.seed)

    def device_id(self, number: int) -> str:
        """The id under which the platform registers a device by itself."""
        return f"{self.slug}/dev-{number:05}"

    def batches(self, count: int, *, rows: int = ROWS) -> list[Event]:
        """The next messages of the fleet."""
        return [self._next(rows) for _ in range(count)]

    def _next(self, rows: int) -> Event:
        device, turn = self.sent % self.devices, self.sent // self.devices
        topic = f"{self.device_id(device)}/sync/telemetry/batch"
        landed_at = START_US + self.sent * MICROSECONDS_APART
        self.sent += 1
        return Event(topic, self._payload(device, turn, rows), landed_at)

    def _payload(self, device: int, turn: int, rows: int) -> bytes:
        moments = _moments(turn, rows)
        head = {
            "format_version": 1,
            "capture_strategy": "sqlite_telemetry_batch_v1",
            "batch_id": self._identifiers.uuid7(),
            "batch_seq": turn,
            "source_table": self.table,
            "schema_hash": schema_hash(self.table, COLUMNS),
            "cursor_start_ts": moments[0],
            "cursor_end_ts": moments[-1],
            "row_count": rows,
        }
        if (self.table, device) not in self._announced:
            self._announced.add((self.table, device))
            head["schema_columns"] = _declared(self.table)
        opened = msgspec.json.encode(head).removesuffix(b"}")
        return b'%b,"rows":[%b]}' % (opened, ",".join(self._rows(moments)).encode())

    def _rows(self, moments: list[str]) -> list[str]:
        draw, rows = self._rng, len(moments)
        modes = draw.integers(len(_MODES), size=rows).tolist()
        targets = (draw.integers(150, 250, size=rows) / 10).tolist()
        fans = draw.integers(4, size=rows).tolist()
        return [
            f'{{"ts":"{ts}","fields":{{"id":1,"mode":"{_MODES[mode]}","target":{target},'
            f'"temp":null,"fan":{fan},"lamp":0}}}}'
            for ts, mode, target, fan in zip(moments, modes, targets, fans, strict=True)
        ]


@lru_cache(maxsize=1)
def _moments(turn: int, rows: int) -> list[str]:
    """When all devices sample, in one of their turns."""
    return [rfc3339(START_US + (turn * rows + n) * 5_000) for n in range(rows)]


def each_round(fleet: Fleet | SampledFleet, batches: int) -> Callable[[int], list[Event]]:
    """The messages of every round: made once, since both sides get the same."""

    @lru_cache(maxsize=1)
    def messages(_: int) -> list[Event]:
        return fleet.batches(batches)

    return messages


def _declared(table: str) -> dict[str, object]:
    return {"table_name": table, "columns": [asdict(column) for column in COLUMNS]}
