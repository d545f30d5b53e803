"""Every refusal as JSON: a code for programs, a sentence for people, details for both.

ApiError
├── Unauthorized           401 no valid token
├── NotFound               404 nothing there
├── UnknownCursor          404 no list has given out such a cursor
├── KeyUsedForAnotherBody  409 an idempotency key comes again with another body
├── Conflict               409 the state of a thing does not allow it
├── BodyTooLarge           413
├── UnsupportedMediaType   415
├── NotAcceptable          422 a body that is no CloudEvent
├── UnfitAnswer            422 actions that cannot be approved
├── TooManyRequests        429
└── Unavailable            503 Postgres, the landing directory or memory; try again
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from ilyama_resources.postgres import GatewayRefused, GatewayUnavailable

log = logging.getLogger(__name__)

_CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "too_many_requests",
    503: "unavailable",
}
_MEANINGS: Final = {
    401: "There is no valid token in the request.",
    404: "There is nothing under this name.",
    405: "The route does not know this method.",
    409: "The idempotency key was used for another body, or the state does not allow it.",
    413: "The body is larger than the setting allows.",
    415: "The body is of a type that is not accepted here.",
    422: "A parameter or the body is not as it should be.",
    429: "The token, or the address, has made too many requests.",
    503: "A part of the platform does not answer; try again.",
}
METHOD_NOT_ALLOWED: Final = 405
_AGAIN_SOON: Final = {"Retry-After": "1"}


class ErrorAnswer(BaseModel):
    """What every refusal looks like."""

    error_code: str = Field(description="For programs; it stays the same.")
    message: str = Field(description="For people; it may change.")
    details: dict[str, Any] = Field(description="What helps to mend it.")


class ApiError(Exception):
    """A request that is refused."""

    status: int = 500
    error_code: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = dict(details or {})
        self.headers = dict(headers or {})


class Unauthorized(ApiError):
    """There is no valid token."""

    status, error_code = 401, "unauthorized"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"WWW-Authenticate": "Bearer"})


class NotFound(ApiError):
    """There is nothing under this name."""

    status, error_code = 404, "not_found"


class UnknownCursor(ApiError):
    """No list has given out such a cursor."""

    status, error_code = 404, "unknown_cursor"


class KeyUsedForAnotherBody(ApiError):
    """An idempotency key comes again with another body."""

    status, error_code = 409, "idempotency_key_reused"


class Conflict(ApiError):
    """The state of a thing does not allow what was asked for."""

    status, error_code = 409, "conflict"


class UnfitAnswer(ApiError):
    """The actions cannot be approved."""

    status, error_code = 422, "unfit_actions"


class BodyTooLarge(ApiError):
    """The body is larger than the setting allows."""

    status, error_code = 413, "body_too_large"


class UnsupportedMediaType(ApiError):
    """The body is of a type that is not accepted."""

    status, error_code = 415, "unsupported_media_type"


class NotAcceptable(ApiError):
    """The body is not what the route takes."""

    status, error_code = 422, "invalid_cloudevent"


class TooManyRequests(ApiError):
    """The sender has made too many requests."""

    status, error_code = 429, "too_many_requests"


class Unavailable(ApiError):
    """A part of the platform does not answer."""

    status, error_code = 503, "unavailable"

    def __init__(
        self, message: str, *, error_code: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details, headers=_AGAIN_SOON)
        self.error_code = error_code


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its OpenAPI description."""
    return {status: {"model": ErrorAnswer, "description": _MEANINGS[status]} for status in statuses}


def answer_errors(app: FastAPI) -> None:
    """Let an app answer every error in this form."""
    app.add_exception_handler(ApiError, _refusal)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(GatewayUnavailable, _without_postgres)
    app.add_exception_handler(GatewayRefused, _refused_by_postgres)
    app.add_exception_handler(ClientDisconnect, _hung_up)
    app.add_exception_handler(Exception, _our_fault)


def _answer(
    status: int,
    error_code: str,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body = ErrorAnswer(error_code=error_code, message=message, details=dict(details or {}))
    return JSONResponse(body.model_dump(), status, headers=headers)


async def _refusal(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, ApiError)
    found = {"details": error.details, "headers": error.headers}
    return _answer(error.status, error.error_code, str(error), **found)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "http_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    headers = dict(error.headers or {})
    if error.status_code == METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return _answer(error.status_code, code, message, headers=headers)


def _methods(request: Request) -> set[str]:
    """The methods of a path; the framework tells those of its first route only."""
    routes = [r for r in request.app.routes if r.matches(request.scope)[0] is not Match.NONE]
    return {method for route in routes for method in getattr(route, "methods", None) or ()}


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, RequestValidationError)
    found = [
        {"where": ".".join(map(str, problem["loc"])), "message": problem["msg"]}
        for problem in error.errors()
    ]
    message = "; ".join(f"{problem['where']}: {problem['message']}" for problem in found)
    return _answer(422, _CODES[422], message, details={"errors": found})


async def _without_postgres(request: Request, error: Exception) -> JSONResponse:
    # The reason may name hosts and accounts: it is for the log, not for the client.
    log.warning("%s %s: %s", request.method, request.url.path, error)
    message = "Postgres does not answer; try again in a moment."
    return _answer(503, "postgres_unavailable", message, headers=_AGAIN_SOON)


async def _refused_by_postgres(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, GatewayRefused)
    if not error.may_pass:
        return await _our_fault(request, error)
    log.warning("%s %s: %s", request.method, request.url.path, error)
    message = "Postgres could not do it now; try again in a moment."
    return _answer(503, "postgres_refused", message, headers=_AGAIN_SOON)


async def _hung_up(request: Request, error: Exception) -> JSONResponse:
    """Nobody will read it, but the log shows what became of the request."""
    del request, error
    return _answer(400, "client_disconnected", "The client hung up in the middle of its body.")


async def _our_fault(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(500, "internal_error", "The platform made a mistake; its log has the reason.")
