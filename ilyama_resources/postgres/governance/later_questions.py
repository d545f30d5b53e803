"""Schemas that are asked about again: what a first question lacked, and later batches have told.

A device may announce the columns of a schema only after it has sent rows of it, and until then each
batch may show more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Connection, MetaData, Table, Text, and_, or_, select, update

from ilyama_protocol.governance.reviews import OPEN
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.schema import SCHEMA_QUESTION, SCHEMA_REVIEW

_PLACE = ("device_id", "source_table", "schema_hash")
_TOLD = ("schema_class", "columns", "evidence")
_JOINED = Table(
    "joined_question",
    MetaData(),
    *(Column(name, Text) for name in (*_PLACE, "seen_columns", *_TOLD)),
)
_names = msgspec.json.Decoder(set[str])


class _Told(NamedTuple):
    """What a question says of a schema; the evidence is how it compares with others."""

    schema_class: str
    columns: str | None
    evidence: str


class _AskedAgain(NamedTuple):
    """A schema that was never announced, as it is kept, beside a later question."""

    place: tuple[str, str, str]
    kept_seen: str
    seen: str
    kept: _Told
    later: _Told


class LaterQuestions:
    """What open reviews, and questions that wait, learn from questions of the same schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def join(self, asked: Any) -> None:
        """Add what is told for the first time; who has looked at a review must look again."""
        is_open, version = SCHEMA_REVIEW.c.state.in_(OPEN), SCHEMA_REVIEW.c.action_version
        self._join(SCHEMA_REVIEW, asked, is_open, action_version=version + 1)
        self._join(SCHEMA_QUESTION, asked)

    def _join(self, kept: Any, asked: Any, *wanted: Any, **values: Any) -> None:
        """Write all that is new at once: a whole fleet may announce a schema in one drain."""
        rows = [*_joined(self._asked_again(kept, asked, *wanted))]
        if not rows:
            return
        joined = copied(self._connection, _JOINED, rows)
        same = and_(*(kept.c[name] == joined.c[name] for name in _PLACE))
        told = {name: joined.c[name] for name in ("seen_columns", *_TOLD)}
        self._connection.execute(update(kept).where(same, *wanted).values(told | values))

    def _asked_again(self, kept: Any, asked: Any, *wanted: Any) -> Iterator[_AskedAgain]:
        same = and_(*(kept.c[name] == asked.c[name] for name in _PLACE))
        other = kept.c.seen_columns != asked.c.seen_columns
        place = [kept.c[name] for name in _PLACE]
        told = [table.c[name] for table in (kept, asked) for name in _TOLD]
        query = (
            select(*place, kept.c.seen_columns, asked.c.seen_columns, *told)
            .select_from(kept.join(asked, same))
            .where(kept.c.columns.is_(None), or_(asked.c.columns.is_not(None), other), *wanted)
            .order_by(*place, asked.c.first_received_at)
        )
        for row in self._connection.execute(query):
            device_id, table, schema_hash, kept_seen, seen, *both = row
            told_of = _Told(*both[:3]), _Told(*both[3:])
            yield _AskedAgain((device_id, table, schema_hash), kept_seen, seen, *told_of)


def _joined(asked_again: Iterable[_AskedAgain]) -> Iterator[tuple[str | None, ...]]:
    """The schemas of which more is known than is kept, each with all that is."""
    for place, questions in groupby(asked_again, lambda again: again.place):
        first, *others = questions
        known = [first.kept_seen, first.seen, *(other.seen for other in others)]
        seen = set[str]().union(*map(_names.decode, known))
        later = (again.later for again in (first, *others) if again.later.columns is not None)
        told = next(later, first.kept)
        if told is not first.kept or seen != _names.decode(first.kept_seen):
            yield (*place, msgspec.json.encode(sorted(seen)).decode(), *told)
