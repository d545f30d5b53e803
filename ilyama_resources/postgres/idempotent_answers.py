"""Answers that are given again when a request comes again under the same idempotency key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.schema import IDEMPOTENT_ANSWER

REMEMBERED_FOR: Final = timedelta(days=1)
_A = IDEMPOTENT_ANSWER.c
_KEY: Final = (_A.token_hash, _A.idempotency_key)


class Asked(NamedTuple):
    """What is asked for, by whom and under which key."""

    token_hash: str
    idempotency_key: str
    body_sha256: str


class IdempotentAnswer(NamedTuple):
    """What was answered to a request, and to which body."""

    body_sha256: str
    answer: str


class IdempotentAnswers:
    """The answers of the last day, by token and key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alone(self, asked: Asked) -> None:
        """Let nobody else answer under this key until the transaction ends."""
        name = f"ilyama answer {asked.token_hash} {asked.idempotency_key}"
        self._connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))

    def find(self, asked: Asked) -> IdempotentAnswer | None:
        """What was answered under a key within the last day."""
        query = select(_A.body_sha256, _A.answer).where(
            _A.token_hash == asked.token_hash,
            _A.idempotency_key == asked.idempotency_key,
            _A.answered_at >= datetime.now(UTC) - REMEMBERED_FOR,
        )
        row = self._connection.execute(query).first()
        return None if row is None else IdempotentAnswer(*row)

    def remember(self, asked: Asked, answer: str) -> None:
        """Keep an answer for a day, and forget those that are older."""
        now = datetime.now(UTC)
        self._forget(answered_before=now - REMEMBERED_FOR)
        values = asked._asdict() | {"answer": answer, "answered_at": now}
        statement = insert(IDEMPOTENT_ANSWER).values(**values)
        self._connection.execute(statement.on_conflict_do_update(index_elements=_KEY, set_=values))

    def _forget(self, *, answered_before: datetime) -> None:
        # Those that somebody else forgets at this moment are left to them.
        old = select(*_KEY).where(_A.answered_at < answered_before)
        unheld = old.with_for_update(skip_locked=True)
        self._connection.execute(delete(IDEMPOTENT_ANSWER).where(tuple_(*_KEY).in_(unheld)))
