"""Answers that are given again when a request comes again under the same idempotency key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.schema import IDEMPOTENT_ANSWER

REMEMBERED_FOR: Final = timedelta(days=1)


class IdempotentAnswer(NamedTuple):
    """What was answered to a request, and to which body."""

    token_hash: str
    idempotency_key: str
    body_sha256: str
    answer: str


_FIELDS = [IDEMPOTENT_ANSWER.c[name] for name in IdempotentAnswer._fields]


class IdempotentAnswers:
    """The answers of the last day, by token and key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, token_hash: str, idempotency_key: str) -> IdempotentAnswer | None:
        """What was answered under a key within the last day."""
        query = select(*_FIELDS).where(
            IDEMPOTENT_ANSWER.c.token_hash == token_hash,
            IDEMPOTENT_ANSWER.c.idempotency_key == idempotency_key,
            IDEMPOTENT_ANSWER.c.answered_at >= datetime.now(UTC) - REMEMBERED_FOR,
        )
        row = self._connection.execute(query).first()
        return None if row is None else IdempotentAnswer(*row)

    def remember(self, answer: IdempotentAnswer) -> None:
        """Keep an answer for a day, and forget those that are older."""
        now = datetime.now(UTC)
        too_old = IDEMPOTENT_ANSWER.c.answered_at < now - REMEMBERED_FOR
        self._connection.execute(delete(IDEMPOTENT_ANSWER).where(too_old))
        values = answer._asdict() | {"answered_at": now}
        statement = insert(IDEMPOTENT_ANSWER).values(**values)
        self._connection.execute(statement.on_conflict_do_nothing())
