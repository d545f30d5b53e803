"""Bearer tokens: made here, kept as hashes, asked for by every route but the health of it all."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from time import monotonic
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ilyama_resources.durability import force_to_disk
from ilyama_resources.postgres import Gateway, GatewayRefused, GatewayUnavailable
from ilyama_resources.settings import Settings, private_directory
from ilyama_service.api.errors import TooManyRequests, Unauthorized
from ilyama_service.api.rate_limits import RateLimit

ADMIN: Final = "admin"
TRUSTED_FOR_S: Final = 10
"""A revoked token is refused at the latest after this long."""

_TOKEN_BYTES: Final = 32
_bearer = HTTPBearer(auto_error=False, description="A token of the platform.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class Principal(NamedTuple):
    """Whose token a request carries."""

    token_hash: str
    name: str


def admin_token_file(settings: Settings) -> Path:
    """Where the admin's token lies, for its owner's eyes alone."""
    return settings.api_dir / "admin-token"


def ensure_admin_token(settings: Settings, gateway: Gateway) -> str:
    """The admin's token, made when there is none; it lies in a file that only its owner reads.

    Where the file is gone, a new one takes the place of all before it.
    """
    private_directory(settings.api_dir)
    file = admin_token_file(settings)
    with gateway.lock("admin token"), gateway.transaction() as tx:
        token = file.read_text().strip() if file.exists() else ""
        known = tx.api_tokens.find(hash_of(token))
        if not token or (known is not None and known.revoked_at is not None):
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            _write_secret(file, token)
            tx.api_tokens.revoke_others(hash_of(token), ADMIN)
        tx.api_tokens.add(hash_of(token), ADMIN)
        tx.commit()
    return token


def hash_of(token: str) -> str:
    """What is stored of a token: tokens are long and random, so a plain hash hides them."""
    return hashlib.sha256(token.encode()).hexdigest()


def _write_secret(file: Path, secret: str) -> None:
    aside = file.with_suffix(".new")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(f"{secret}\n")
        opened.flush()
        os.fsync(opened.fileno())
    aside.rename(file)
    force_to_disk(file.parent)


class Guard:
    """Lets a request in when it carries a valid token and its sender is not too fast.

    Tokens that were valid when last looked up go on being so while Postgres is away: devices can
    still deliver.
    """

    def __init__(self, gateway: Gateway, limit: RateLimit) -> None:
        self._gateway = gateway
        self._limit = limit
        self._known: dict[str, tuple[Principal, float]] = {}

    async def admit(self, request: Request, credentials: Credentials) -> Principal:
        """The principal of a request.

        Raises:
            Unauthorized: It has no valid token.
            TooManyRequests: Its sender is too fast.
        """
        token_hash = "" if credentials is None else hash_of(credentials.credentials)
        host = request.client.host if request.client else "unknown"
        self._slow_down(token_hash if token_hash in self._known else f"address {host}")
        if credentials is None:
            raise Unauthorized("Send the header `Authorization: Bearer TOKEN`.")
        principal = await self._principal(token_hash)
        request.state.principal = principal.name
        return principal

    def _slow_down(self, sender: str) -> None:
        wait_s = self._limit.wait_s(sender)
        if wait_s > 0:
            headers = {"Retry-After": str(int(wait_s) + 1)}
            raise TooManyRequests("Too many requests; slow down.", headers=headers)

    async def _principal(self, token_hash: str) -> Principal:
        principal, looked_up_at = self._known.get(token_hash, (None, 0.0))
        if principal is not None and monotonic() - looked_up_at < TRUSTED_FOR_S:
            return principal
        try:
            found = await run_in_threadpool(self._look_up, token_hash)
        except (GatewayUnavailable, GatewayRefused):
            if principal is not None:
                return principal
            raise
        if found is None:
            self._known.pop(token_hash, None)
            raise Unauthorized("This token is not known, or was revoked.")
        self._known[token_hash] = (found, monotonic())
        return found

    def _look_up(self, token_hash: str) -> Principal | None:
        with self._gateway.transaction() as tx:
            token = tx.api_tokens.find(token_hash)
        if token is None or token.revoked_at is not None:
            return None
        same = hmac.compare_digest(token.token_hash, token_hash)
        return Principal(token.token_hash, token.name) if same else None
