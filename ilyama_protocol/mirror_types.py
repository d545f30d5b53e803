"""Types of the columns of device tables, and what becomes of a value in them.

TEXT and BLOB are texts. Every number fits a column of numbers, and none is lost in it: INTEGER is a
bigint, REAL and NUMERIC are doubles, as long as that holds all values exactly. Otherwise the column
goes by its values, as one does of which nothing is known: a bigint when all are whole, a double
when no integer needs more digits than a double has, else a text.

Devices that share a table need not agree. A column that is a number to all of them is NUMERIC; one
that is a number to some and a text to others is MIXED, a text that holds both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import Any, Final

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.fingerprint import METRIC_AFFINITIES, Affinity
from ilyama_protocol.governance.bindings import SILENT, Binding
from ilyama_protocol.intake.state import BoundSchema
from ilyama_protocol.limits import INT64_MAX

MOST_COLUMNS: Final = 2_000
"""As many as a table of SQLite has at most, unless it was built otherwise."""
_MOST_EXACT: Final = 2**53
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1


class MirrorType(StrEnum):
    """The type of a column in Delta, by its name in SQL."""

    LONG = "bigint"
    DOUBLE = "double"
    TEXT = "string"


class Mixed(StrEnum):
    """What a column has in place of an affinity when its devices do not agree on its kind."""

    MIXED = "MIXED"


Shared = Affinity | Mixed
"""The affinity of a column that devices share."""


_NOT_JUST_TEXT: Final = METRIC_AFFINITIES | {Mixed.MIXED}


class ValueKind(StrEnum):
    """Values that need different types to be kept as they are."""

    SMALL = "small integer"
    BIG = "integer that no double holds"
    ROUND = "double that a bigint holds"
    FRACTION = "double that no bigint holds"
    OTHER = "no number"


Kinds = Collection[ValueKind]
_WHOLE: Final = frozenset({ValueKind.SMALL, ValueKind.BIG, ValueKind.ROUND})
_EXACT: Final = frozenset({ValueKind.SMALL, ValueKind.ROUND, ValueKind.FRACTION})
_HELD: Final = {
    MirrorType.LONG: _WHOLE,
    MirrorType.DOUBLE: _EXACT,
    MirrorType.TEXT: frozenset(ValueKind),
}
_OF_NUMBERS: Final[Mapping[Shared | None, MirrorType]] = {
    Affinity.INTEGER: MirrorType.LONG,
    Affinity.REAL: MirrorType.DOUBLE,
    Affinity.NUMERIC: MirrorType.DOUBLE,
}
"""The types of columns of numbers, as long as they hold all values."""
_TEXTS: Final = frozenset({Affinity.TEXT, Affinity.BLOB, Mixed.MIXED})


Unmirrored = Mapping[str | None, int]
"""Columns that are kept out of a device table, and the received_at until which they are.

None stands for all columns that are not named."""
FOR_GOOD: Final = INT64_MAX
NEVER: Final = 0


def mirrored_columns(
    schema: BoundSchema, unmirrored: Unmirrored | None = None
) -> dict[str, Affinity]:
    """The columns of a bound schema that its device table has, with their affinities."""
    kept_out = unmirrored or {}
    return {
        column.name: column.decl_type_affinity
        for column in schema.columns
        if kept_out_until(column.name, kept_out) != FOR_GOOD
    }


def unmirrored_columns(binding: Binding | None) -> Unmirrored:
    """What a binding keeps out of the device table: ignored columns, deferred ones till then."""
    if binding is None:
        return {}
    actions = (binding.actions or {}).items()
    unmirrored: dict[str | None, int] = {}
    if binding.only_named:
        unmirrored |= {None: FOR_GOOD} | {name: NEVER for name, _ in actions}
    unmirrored.update(binding.decided or {})
    unmirrored.update({name: FOR_GOOD for name, action in actions if action.verb in SILENT})
    return unmirrored


def kept_out_until(column: str, unmirrored: Unmirrored) -> int:
    """The received_at until which a column is kept out of the device table."""
    return unmirrored.get(column, unmirrored.get(None, NEVER))


def goes_by_values(affinity: Shared | None) -> bool:
    """Whether the type of a column depends on what it holds."""
    return affinity not in _TEXTS


def type_of(affinity: Shared | None, kinds: Kinds) -> MirrorType | None:
    """The type of a column that holds values of these kinds; None while nothing is known of it."""
    if not goes_by_values(affinity):
        return MirrorType.TEXT
    told = _that_count(affinity, kinds)
    usual = _OF_NUMBERS.get(affinity)
    if not told or (usual is not None and told <= _HELD[usual]):
        return usual
    return next(sort for sort, held in _HELD.items() if told <= held)


def widened(current: MirrorType, affinity: Shared | None, kinds: Kinds) -> MirrorType:
    """The type of a column that takes up values of these kinds; the current one if it holds them.

    Another type says that the table is to be made anew; the values there decide which.
    """
    if not goes_by_values(affinity) or _that_count(affinity, kinds) <= _HELD[current]:
        return current
    return type_of(affinity, {*kinds, *_HELD[current] & _EXACT}) or current


def _that_count(affinity: Shared | None, kinds: Kinds) -> frozenset[ValueKind]:
    """The kinds that matter: what is no number does not fit a column of numbers and is NULL there.

    In such a column 2.0 is 2, as it is to SQLite; elsewhere a double stays one.
    """
    if affinity in _OF_NUMBERS:
        return frozenset(kinds) - {ValueKind.OTHER}
    return frozenset(ValueKind.FRACTION if k is ValueKind.ROUND else k for k in kinds)


def kinds_of(values: Sequence[Any]) -> set[ValueKind]:
    """The kinds of some values, but for those that are held wherever another of them is.

    Null is of none. Whole columns are looked at, since every row that is taken up comes by here.
    """
    types = set(map(type, values)) - {NoneType}
    found = {ValueKind.OTHER} if types - {int, float} else set()
    if int in types:
        found.add(_kind_of_whole([v for v in values if type(v) is int]))
    if float in types:
        found.add(_kind_of_doubles([v for v in values if type(v) is float]))
    return found


def _kind_of_whole(values: list[int]) -> ValueKind:
    are_small = min(values) >= -_MOST_EXACT and max(values) <= _MOST_EXACT
    return ValueKind.SMALL if are_small else ValueKind.BIG


def _kind_of_doubles(values: list[float]) -> ValueKind:
    are_round = all(_whole(value) is not None for value in values)
    return ValueKind.ROUND if are_round else ValueKind.FRACTION


def fitted(values: list[Any], kind: MirrorType, affinity: Shared | None) -> list[Any]:
    """The values as their column holds them; one that does not fit is None."""
    if kind is MirrorType.LONG:
        return [v if type(v) is int else _whole(v) for v in values]
    if kind is MirrorType.DOUBLE:
        return [v if type(v) is float else float(v) if type(v) is int else None for v in values]
    if affinity in _OF_NUMBERS:
        return [canonical_json(v) if type(v) in (int, float) else None for v in values]
    if affinity is None or affinity is Mixed.MIXED:
        return [v if v is None or type(v) is str else canonical_json(v) for v in values]
    return [v if type(v) is str else _nested(v) for v in values]


def _whole(value: Any) -> int | None:
    """A double without fraction is an integer to SQLite too."""
    if type(value) is not float or not value.is_integer():
        return None
    whole = int(value)
    return whole if _LEAST_LONG <= whole <= _MOST_LONG else None


def _nested(value: Any) -> str | None:
    return None if value is None or type(value) in (int, float) else canonical_json(value)


def is_of_kind(value: Any, affinity: Affinity | None) -> bool:
    """Whether a value is a number where its own schema says so, and none where it does not."""
    is_number = type(value) in (int, float)
    return value is None or affinity is None or is_number == (affinity in METRIC_AFFINITIES)


def shared(one: Shared | None, other: Shared | None) -> Shared | None:
    """The affinity of a column that has two, or of which only one is known."""
    if one is None or other is None or one == other:
        return one or other
    if {one, other} <= METRIC_AFFINITIES:
        return Affinity.NUMERIC
    return Mixed.MIXED if {one, other} & _NOT_JUST_TEXT else Affinity.TEXT


def shared_by(schemas: Iterable[Mapping[str, Affinity]]) -> dict[str, Shared]:
    """The affinity of each column of several schemas, wide enough for all of them."""
    affinities: dict[str, Shared] = {}
    for columns in schemas:
        for name, affinity in columns.items():
            affinities[name] = shared(affinities.get(name), affinity) or affinity
    return affinities
