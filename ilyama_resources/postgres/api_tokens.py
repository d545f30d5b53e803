"""Bearer tokens of the HTTP API: the hash of each, never the token."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select, update
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.schema import API_TOKEN


class ApiToken(NamedTuple):
    """A token as the records know it."""

    token_hash: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


_FIELDS = [API_TOKEN.c[name] for name in ApiToken._fields]


class ApiTokens:
    """Who may use the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, token_hash: str, name: str) -> None:
        """Let a token in; one that is known already stays as it is, revoked or not."""
        values = {"token_hash": token_hash, "name": name, "created_at": datetime.now(UTC)}
        self._connection.execute(insert(API_TOKEN).values(**values).on_conflict_do_nothing())

    def find(self, token_hash: str) -> ApiToken | None:
        """A token by its hash, revoked or not."""
        query = select(*_FIELDS).where(API_TOKEN.c.token_hash == token_hash)
        row = self._connection.execute(query).first()
        return None if row is None else ApiToken(*row)

    def revoke(self, token_hash: str) -> bool:
        """Let a token in no longer; tell whether it was valid until now."""
        return self._revoke(API_TOKEN.c.token_hash == token_hash) == 1

    def revoke_others(self, token_hash: str, name: str) -> None:
        """Of all tokens of a name let in no other than this."""
        self._revoke(API_TOKEN.c.token_hash != token_hash, API_TOKEN.c.name == name)

    def _revoke(self, *which: ColumnElement[bool]) -> int:
        valid = update(API_TOKEN).where(API_TOKEN.c.revoked_at.is_(None), *which)
        return self._connection.execute(valid.values(revoked_at=datetime.now(UTC))).rowcount
