"""Idempotency keys: a request that comes again gets the answer it got before."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from fastapi.concurrency import run_in_threadpool

from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.idempotent_answers import IdempotentAnswer
from ilyama_service.api.errors import KeyUsedForAnotherBody
from ilyama_service.api.tokens import Principal


class Repetitions:
    """Answers of the last day, by token and key."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._at_work: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def once(
        self, principal: Principal, key: str, body: bytes, act: Callable[[], Awaitable[str]]
    ) -> str:
        """Act and remember the answer, or repeat the answer of the last time.

        Raises:
            KeyUsedForAnotherBody: The last time it was another body.
            GatewayUnavailable: Postgres is away, so that nothing can be promised.
        """
        body_sha256 = hashlib.sha256(body).hexdigest()
        lock = self._at_work.setdefault((principal.token_hash, key), asyncio.Lock())
        async with lock:
            before = await run_in_threadpool(self._find, principal.token_hash, key)
            if before is not None:
                return _repeated(before, body_sha256)
            answer = await act()
            given = IdempotentAnswer(principal.token_hash, key, body_sha256, answer)
            await run_in_threadpool(self._remember, given)
            return answer

    def _find(self, token_hash: str, key: str) -> IdempotentAnswer | None:
        with self._gateway.transaction() as tx:
            return tx.idempotent_answers.find(token_hash, key)

    def _remember(self, answer: IdempotentAnswer) -> None:
        with self._gateway.transaction() as tx:
            tx.idempotent_answers.remember(answer)
            tx.commit()


def _repeated(before: IdempotentAnswer, body_sha256: str) -> str:
    if before.body_sha256 != body_sha256:
        message = "This Idempotency-Key was used for another body within the last day."
        raise KeyUsedForAnotherBody(message)
    return before.answer
