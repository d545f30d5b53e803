"""What a person does through the API: once for each idempotency key, and refused with a reason."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from ilyama_service.api.errors import NotFound, StaleReview, UnfitAnswer
from ilyama_service.api.parts import Parts
from ilyama_service.api.tokens import Principal
from ilyama_service.reviewing import ReviewConflict, ReviewNotFound, UnfitActions


async def acted(
    parts: Parts,
    request: Request,
    principal: Principal,
    key: str | None,
    *,
    act: Callable[[], BaseModel],
) -> Response:
    """Act, or answer as the last time when the same request comes again under its key."""

    async def answer() -> str:
        return await run_in_threadpool(lambda: act().model_dump_json())

    if key is None:
        told = await answer()
    else:
        asked = f"{request.method} {request.url}\n".encode() + await request.body()
        told = await parts.repetitions.once(principal, key, asked, answer)
    return Response(told, media_type="application/json")


@contextmanager
def refusals() -> Iterator[None]:
    """What cannot be done, as the API says it."""
    try:
        yield
    except ReviewNotFound as error:
        raise NotFound(_sentence(error)) from error
    except ReviewConflict as error:
        raise StaleReview(_sentence(error)) from error
    except UnfitActions as error:
        faults = [fault._asdict() for fault in error.faults]
        raise UnfitAnswer(_sentence(error), details={"faults": faults}) from error


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}."
