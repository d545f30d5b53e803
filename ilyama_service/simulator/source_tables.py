"""The SQLite tables of a simulated pumping station, and how their rows change.

Every table has few primary keys, so that current values make sense, and no null, so that a value
has the same kind whether or not its column was declared.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash

Row = dict[str, Any]
INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"


class RowEdit(msgspec.Struct, frozen=True):
    """A change before the journal has numbered it."""

    op: str
    pk: Row
    row: Row | None


class Walk:
    """A value that wanders and is drawn back to where it belongs."""

    def __init__(self, chance: random.Random, *, around: float, step: float) -> None:
        self._chance = chance
        self._around = around
        self._step = step
        self._value = around + chance.gauss(0, 3 * step)

    def next(self) -> float:
        """The next value."""
        pull = 0.05 * (self._around - self._value)
        self._value += pull + self._chance.gauss(0, self._step)
        return round(self._value, 2)


class SourceTable(ABC):
    """A table of one device."""

    name: ClassVar[str]
    columns: ClassVar[tuple[SchemaColumn, ...]]
    weight: ClassVar[int]

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._inserted: set[Any] = set()

    @abstractmethod
    def edit(self, moment_ms: int) -> RowEdit:
        """Change one row."""

    def forget(self) -> None:
        """Begin a new journal: it states every row anew."""
        self._inserted.clear()

    def put(self, key: Any, row: Row) -> RowEdit:
        """Insert a row, or update it when this journal knows it."""
        op = UPDATE if key in self._inserted else INSERT
        self._inserted.add(key)
        return RowEdit(op, self._pk(key), row)

    def remove(self, key: Any) -> RowEdit | None:
        """Delete a row, when this journal knows it."""
        if key not in self._inserted:
            return None
        self._inserted.remove(key)
        return RowEdit(DELETE, self._pk(key), None)

    def _pk(self, key: Any) -> Row:
        return {self.columns[0].name: key}


def columns_of(*declared: str) -> tuple[SchemaColumn, ...]:
    """Columns spelt `name AFFINITY`; the first is the primary key, and none may be null."""
    pairs = [text.split() for text in declared]
    return tuple(
        SchemaColumn(name, Affinity(affinity), pk_ordinal=int(place == 0), not_null=True)
        for place, (name, affinity) in enumerate(pairs)
    )


class Readings(SourceTable):
    """The newest reading of each sensor."""

    name = "readings"
    weight = 12
    columns = columns_of(
        "id INTEGER", "sensor TEXT", "value REAL", "unit TEXT", "quality TEXT", "read_at TEXT"
    )
    _SENSORS: Final = (
        ("inlet_pressure", 2.4, 0.02, "bar"),
        ("outlet_pressure", 6.1, 0.04, "bar"),
        ("flow", 118.0, 1.2, "m3/h"),
        ("water_temperature", 11.5, 0.05, "°C"),
        ("reservoir_level", 3.2, 0.01, "m"),
        ("vibration", 1.8, 0.08, "mm/s"),
    )

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._walks = [
            Walk(chance, around=around, step=step) for _, around, step, _ in self._SENSORS
        ]

    def edit(self, moment_ms: int) -> RowEdit:
        """Read one sensor."""
        place = int(self.chance.random() * len(self._SENSORS))
        sensor, _, _, unit = self._SENSORS[place]
        row = {
            "id": place + 1,
            "sensor": sensor,
            "value": self._walks[place].next(),
            "unit": unit,
            "quality": "good" if self.chance.random() < 0.97 else "suspect",
            "read_at": rfc3339(moment_ms),
        }
        return self.put(place + 1, row)


class Pump(SourceTable):
    """The two pumps."""

    name = "pump"
    weight = 3
    columns = columns_of(
        "id INTEGER", "state TEXT", "speed_rpm REAL", "running_hours REAL", "starts INTEGER"
    )

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._speeds = [Walk(chance, around=1450.0, step=6.0) for _ in range(2)]
        self._hours = [round(chance.uniform(200, 9000), 2) for _ in range(2)]
        self._starts = [chance.randrange(20, 900) for _ in range(2)]
        self._running = [True, False]

    def edit(self, moment_ms: int) -> RowEdit:
        """Let one pump run on, start or stop."""
        del moment_ms
        place = self.chance.randrange(2)
        if self.chance.random() < 0.1:
            self._running[place] = not self._running[place]
            self._starts[place] += self._running[place]
        running = self._running[place]
        self._hours[place] = round(self._hours[place] + 0.01 * running, 2)
        row = {
            "id": place + 1,
            "state": "running" if running else "stopped",
            "speed_rpm": self._speeds[place].next() if running else 0.0,
            "running_hours": self._hours[place],
            "starts": self._starts[place],
        }
        return self.put(place + 1, row)


class Events(SourceTable):
    """The last events, in a ring: an old one is deleted before its place is taken again."""

    name = "events"
    weight = 3
    columns = columns_of(
        "id INTEGER", "kind TEXT", "severity TEXT", "message TEXT", "raised_at TEXT"
    )
    _PLACES: Final = 12
    _KINDS: Final = (
        ("high_vibration", "warning", "Vibration of pump 1 is above 2.5 mm/s"),
        ("low_level", "warning", "The reservoir is below its lower mark"),
        ("door", "info", "The cabinet's door was opened"),
        ("power", "alarm", "Mains lost, running on battery"),
        ("restart", "info", "The controller was started"),
    )

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._next = 0

    def edit(self, moment_ms: int) -> RowEdit:
        """Raise an event, or make room for one."""
        place = self._next % self._PLACES + 1
        gone = self.remove(place)
        if gone is not None:
            return gone
        self._next += 1
        kind, severity, message = self.chance.choice(self._KINDS)
        row = {
            "id": place,
            "kind": kind,
            "severity": severity,
            "message": message,
            "raised_at": rfc3339(moment_ms),
        }
        return self.put(place, row)


class Setpoints(SourceTable):
    """What the controller aims at; its primary key is a text."""

    name = "setpoints"
    weight = 2
    columns = columns_of("name TEXT", "value REAL", "unit TEXT")
    _POINTS: Final = (
        ("outlet_pressure", 6.0, "bar"),
        ("level/high", 3.8, "m"),
        ("level/low", 1.1, "m"),
    )

    def edit(self, moment_ms: int) -> RowEdit:
        """Set one of them."""
        del moment_ms
        name, usual, unit = self.chance.choice(self._POINTS)
        value = round(usual + self.chance.choice((-0.2, -0.1, 0.0, 0.1, 0.2)), 1)
        return self.put(name, {"name": name, "value": value, "unit": unit})


class Probe(SourceTable):
    """One row that says what the fleet's clock showed when it was written."""

    name = "probe"
    weight = 1
    columns = columns_of("id INTEGER", "mark INTEGER")

    def edit(self, moment_ms: int) -> RowEdit:
        """Write the clock down; no two probes of a fleet have the same mark."""
        return self.put(1, {"id": 1, "mark": moment_ms})


STATION: Final[Sequence[type[SourceTable]]] = (Readings, Pump, Events, Setpoints)
"""The tables of a usual device."""


@lru_cache(maxsize=16)
def rfc3339(moment_ms: int) -> str:
    """A moment as devices write it."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def declaration(table_name: str, columns: Sequence[SchemaColumn]) -> dict[str, Any]:
    """The schema of a table as a device sends it."""
    declared = [
        {
            "name": column.name,
            "decl_type_affinity": column.decl_type_affinity.value,
            "pk_ordinal": column.pk_ordinal,
            "not_null": column.not_null,
        }
        for column in columns
    ]
    return {"table_name": table_name, "columns": declared}


_ALL: Final[Sequence[type[SourceTable]]] = (*STATION, Probe)
SCHEMA_HASHES: Final = {table.name: schema_hash(table.name, table.columns) for table in _ALL}
DECLARATIONS: Final = {table.name: declaration(table.name, table.columns) for table in _ALL}
