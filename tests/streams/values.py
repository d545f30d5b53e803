"""Columns, primary keys and values, plain and odd."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ilyama_service.simulator.spelling import Token
from tests.oracle.canonical import schema_hash

PlainPk = Callable[[int], dict[str, Any]]

ODD_INTEGERS = (0, -1, 2**53 + 1, 2**63 - 1, -(2**63), Token("-0"))
ODD_REALS = (0.0, -0.0, 1e-7, 1e16, 5e-324, 1.7976931348623157e308, Token("1E+1"), Token("10"))
# Every number fits a column of numbers, whatever its affinity would rather have.
ODD_IN_WHOLE = (0.5, *ODD_INTEGERS[1:])
ODD_IN_REAL = (2**53 + 1, *ODD_REALS[1:])
ODD_TEXTS = ("", "a/b%2F.c", "zażółć", "😀", "e\u0301", 'quote"back\\', "\0", "line\nbreak\x1f")
NESTED: tuple[Any, ...] = ({"y": [1, 2.5, None], "x": {"deep": [[]]}}, [], {}, [True, {"é": "\t"}])
ODD_PK_VALUES = (None, True, False, 1, 1.0, "1", -0.0, 0, 2.5e-7, 2**63 - 1, *ODD_TEXTS, "50%")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a device: its columns by affinity, and how its primary keys look."""

    name: str
    affinities: tuple[tuple[str, str], ...]
    pk_names: tuple[str, ...]
    plain_pk: PlainPk
    nullable: bool = False

    def schema_columns(self) -> dict[str, Any]:
        """The table's schema as a device announces it."""
        columns = [
            {
                "name": name,
                "decl_type_affinity": affinity,
                "pk_ordinal": self.pk_names.index(name) + 1 if name in self.pk_names else 0,
                "not_null": name in self.pk_names and not self.nullable,
            }
            for name, affinity in self.affinities
        ]
        return {"table_name": self.name, "columns": columns}

    def schema_hash(self) -> str:
        """The fingerprint of that schema."""
        return schema_hash(self.name, self.schema_columns()["columns"])

    def row(self, pk: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """A whole row that fits the columns."""
        values = {name: fitting_value(affinity, rng) for name, affinity in self.affinities}
        return values | {name: value for name, value in pk.items() if name in values}


def fitting_value(affinity: str, rng: random.Random) -> Any:
    """A value of the affinity's kind; now and then null, nested or extreme."""
    if rng.random() < 0.1:
        return None
    is_odd = rng.random() < 0.2
    if affinity in ("INTEGER", "NUMERIC"):
        return rng.choice(ODD_IN_WHOLE) if is_odd else rng.randrange(1000)
    if affinity == "REAL":
        return rng.choice(ODD_IN_REAL) if is_odd else rng.randrange(1000) / 8
    odd = rng.choice((*ODD_TEXTS, *NESTED, True, False))
    return odd if is_odd else rng.choice(("heating", "cooling", "idle"))


def any_value(rng: random.Random) -> Any:
    """A value of any kind."""
    return fitting_value(rng.choice(("INTEGER", "REAL", "TEXT")), rng)


def odd_pk_value(number: int) -> Any:
    """One of the odd primary key values, in turn."""
    return ODD_PK_VALUES[number % len(ODD_PK_VALUES)]


TABLES = (
    Table(
        name="device_state",
        affinities=(("id", "INTEGER"), ("mode", "TEXT"), ("setpoint", "REAL")),
        pk_names=("id",),
        plain_pk=lambda number: {"id": number},
    ),
    Table(
        name="alarms",
        affinities=(("site", "TEXT"), ("n", "INTEGER"), ("level", "NUMERIC"), ("blob", "BLOB")),
        pk_names=("site", "n"),
        plain_pk=lambda number: {"site": f"s/{number % 3}", "n": number},
    ),
    Table(
        name="odd.table%é",
        affinities=(
            ("a.b", "REAL"),
            ("%", "INTEGER"),
            ("__deleted", "TEXT"),
            ("zażółć", "TEXT"),
            ("", "NUMERIC"),
        ),
        pk_names=("a.b",),
        plain_pk=lambda number: {"a.b": number / 4},
    ),
    Table(
        name="anything",
        affinities=(("k", "BLOB"), ("v", "NUMERIC")),
        pk_names=("k",),
        plain_pk=lambda number: {"k": odd_pk_value(number), "n": number // len(ODD_PK_VALUES)},
    ),
)
