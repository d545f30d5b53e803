"""Idempotency keys: a request that comes again gets the answer it got before."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from fastapi.concurrency import run_in_threadpool

from ilyama_resources.faults import crash_point
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.idempotent_answers import Asked
from ilyama_service.api.errors import KeyUsedForAnotherBody
from ilyama_service.api.tokens import Principal


def asked_under(principal: Principal, key: str, body: bytes) -> Asked:
    """What somebody asks for under a key."""
    return Asked(principal.token_hash, key, hashlib.sha256(body).hexdigest())


class Repetitions:
    """Answers of the last day, by token and key.

    Raises:
        KeyUsedForAnotherBody: The last time it was another body.
        GatewayUnavailable: Postgres is away, so that nothing can be promised.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._at_work: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def committed_once(self, asked: Asked, act: Callable[[Transaction], str]) -> str:
        """Act and remember the answer in one transaction, or repeat the answer of the last time."""
        async with self._alone(asked):
            return await run_in_threadpool(self._committed, asked, act)

    async def once(self, asked: Asked, act: Callable[[], Awaitable[str]]) -> str:
        """The same for an act outside of Postgres, whose answer is remembered after it."""
        async with self._alone(asked):
            before = await run_in_threadpool(self._find, asked)
            if before is not None:
                return before
            answer = await act()
            await run_in_threadpool(self._remember, asked, answer)
            return answer

    def _alone(self, asked: Asked) -> asyncio.Lock:
        """Requests under one key wait here, where they keep no thread and no connection busy."""
        return self._at_work.setdefault((asked.token_hash, asked.idempotency_key), asyncio.Lock())

    def _committed(self, asked: Asked, act: Callable[[Transaction], str]) -> str:
        with self._gateway.transaction() as tx:
            tx.idempotent_answers.alone(asked)
            if (before := _given_before(tx, asked)) is not None:
                return before
            answer = act(tx)
            tx.idempotent_answers.remember(asked, answer)
            crash_point("mutation.before")
            tx.commit()
            crash_point("mutation.after")
            return answer

    def _find(self, asked: Asked) -> str | None:
        with self._gateway.transaction() as tx:
            return _given_before(tx, asked)

    def _remember(self, asked: Asked, answer: str) -> None:
        with self._gateway.transaction() as tx:
            tx.idempotent_answers.remember(asked, answer)
            tx.commit()


def _given_before(tx: Transaction, asked: Asked) -> str | None:
    before = tx.idempotent_answers.find(asked)
    if before is None:
        return None
    if before.body_sha256 != asked.body_sha256:
        message = "This Idempotency-Key was used for another body within the last day."
        raise KeyUsedForAnotherBody(message)
    return before.answer
