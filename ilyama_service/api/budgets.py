"""Bounded memory: bodies that are being read or landed share one budget."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from ilyama_service.api.errors import BodyTooLarge, Unavailable


class Budget:
    """How many bytes of bodies may be held at once."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """A share of the budget that is given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            self._left += share.taken

    def take(self, size: int) -> None:
        """Take bytes out.

        Raises:
            Unavailable: There are not so many left.
        """
        if size > self._left:
            message = "Too much is on its way already; try again in a moment."
            raise Unavailable(message, error_code="overloaded")
        self._left -= size


class Share:
    """The bytes that one request holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.taken = 0

    async def read(
        self, chunks: AsyncIterator[bytes], *, most: int, announced: str | None
    ) -> bytes:
        """Read a body.

        Raises:
            BodyTooLarge: It is larger than allowed; told before it is read, when it says so.
            Unavailable: The budget is used up.
        """
        if announced is not None and announced.isdecimal() and int(announced) > most:
            raise _too_large(most)
        body = bytearray()
        async for chunk in chunks:
            if len(body) + len(chunk) > most:
                raise _too_large(most)
            self._budget.take(len(chunk))
            self.taken += len(chunk)
            body += chunk
        return bytes(body)


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"A body may have {most} bytes at most.", details={"max_bytes": most})
