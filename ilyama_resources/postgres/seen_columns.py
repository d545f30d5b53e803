"""Columns that rows have of schemas which were never announced, as further batches show more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, select, update

from ilyama_protocol.governance.reviews import OPEN
from ilyama_resources.postgres.schema import SCHEMA_QUESTION, SCHEMA_REVIEW

_R, _Q = SCHEMA_REVIEW.c, SCHEMA_QUESTION.c
_SCHEMA = ("device_id", "source_table", "schema_hash")
_names = msgspec.json.Decoder(set[str])


class _Place(NamedTuple):
    """The schema of a lineage."""

    device_id: str
    source_table: str
    schema_hash: str


class SeenColumns:
    """The columns that open reviews, and questions that wait, have seen in rows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def widen(self, asked: Any) -> None:
        """Add what is asked again; who has looked at a review before must look again."""
        for place, seen in self._grown(SCHEMA_REVIEW, asked, _R.state.in_(OPEN)):
            version = _R.action_version + 1
            is_open = and_(*_at(_R, place), _R.state.in_(OPEN))
            statement = update(SCHEMA_REVIEW).where(is_open)
            self._connection.execute(statement.values(seen_columns=seen, action_version=version))
        for place, seen in self._grown(SCHEMA_QUESTION, asked):
            statement = update(SCHEMA_QUESTION).where(*_at(_Q, place))
            self._connection.execute(statement.values(seen_columns=seen))

    def _grown(self, kept: Any, asked: Any, *wanted: Any) -> Iterator[tuple[_Place, str]]:
        """The schemas of which more is seen than is kept, with all that is."""
        same = and_(*(kept.c[name] == asked.c[name] for name in _SCHEMA))
        other = kept.c.seen_columns != asked.c.seen_columns
        unannounced = (kept.c.columns.is_(None), asked.c.columns.is_(None))
        key = [kept.c[name] for name in _SCHEMA]
        query = (
            select(*key, kept.c.seen_columns, asked.c.seen_columns)
            .select_from(kept.join(asked, same))
            .where(other, *unannounced, *wanted)
        )
        return _joined(self._connection.execute(query))


def _joined(rows: Any) -> Iterator[tuple[_Place, str]]:
    before: dict[_Place, set[str]] = {}
    after: dict[_Place, set[str]] = {}
    for *key, kept, asked in rows:
        place = _Place(*key)
        before[place] = _names.decode(kept)
        after.setdefault(place, set()).update(before[place], _names.decode(asked))
    return _told(before, after)


def _told(
    before: Mapping[_Place, set[str]], after: Mapping[_Place, set[str]]
) -> Iterator[tuple[_Place, str]]:
    for place, seen in after.items():
        if seen != before[place]:
            yield place, msgspec.json.encode(sorted(seen)).decode()


def _at(table: Any, place: _Place) -> list[Any]:
    return [table[name] == value for name, value in place._asdict().items()]
