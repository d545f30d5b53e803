"""Reviews that wait for a decision: by their schemas, and as many that are closed together."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, cast, func, select

from ilyama_protocol.governance.reviews import OPEN, ReviewState
from ilyama_resources.postgres.governance.reviews import ReviewFilter, narrowed
from ilyama_resources.postgres.schema import SCHEMA_REVIEW, STAGED_TOTAL

_R = SCHEMA_REVIEW.c


class OpenSchema(NamedTuple):
    """A schema of a project that waits for a person, with all devices that send it."""

    source_table: str
    schema_hash: str
    project_id: str | None
    schema_class: str
    first_review: int
    devices: int
    since: datetime
    staged_rows: int
    """Rows of the schema itself, from these devices; others of their lineages may wait too."""


class OpenReview(NamedTuple):
    """A review as far as many of them are closed together."""

    review_id: int
    device_id: str
    source_table: str
    state: ReviewState
    action_version: int


class OpenReviews:
    """The reviews of one platform that wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count(self, wanted: ReviewFilter) -> int:
        """How many there are."""
        return int(self._connection.scalar(_chosen(wanted, func.count())) or 0)

    def oldest(self, wanted: ReviewFilter, *, limit: int) -> list[OpenReview]:
        """The oldest, the first first."""
        fields = [_R[name] for name in OpenReview._fields]
        query = _chosen(wanted, *fields).order_by(_R.review_id).limit(limit)
        found = (OpenReview(*row) for row in self._connection.execute(query))
        return [review._replace(state=ReviewState(review.state)) for review in found]

    def schemas(self, *, limit: int) -> list[OpenSchema]:
        """The schemas that wait, those of most devices first."""
        schema = (_R.source_table, _R.schema_hash, _R.project_id, _R.schema_class)
        staged = (
            select(func.coalesce(func.sum(STAGED_TOTAL.c.rows), 0))
            .where(
                STAGED_TOTAL.c.device_id == _R.device_id,
                STAGED_TOTAL.c.source_table == _R.source_table,
                STAGED_TOTAL.c.schema_hash == _R.schema_hash,
            )
            .correlate(SCHEMA_REVIEW)
            .scalar_subquery()
        )
        devices = func.count(_R.device_id.distinct())
        query = (
            select(
                *schema,
                func.min(_R.review_id),
                devices,
                func.min(_R.opened_at),
                cast(func.sum(staged), BigInteger),
            )
            .where(_R.state.in_(OPEN))
            .group_by(*schema)
            .order_by(devices.desc(), func.min(_R.review_id))
            .limit(limit)
        )
        return [OpenSchema(*row) for row in self._connection.execute(query)]


def _chosen(wanted: ReviewFilter, *what: Any) -> Select[Any]:
    return select(*what).where(_R.state.in_(OPEN), *narrowed(wanted))
