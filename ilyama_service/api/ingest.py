"""`POST /v1/ingest`: CloudEvents that carry MQTT messages, landed before they are acknowledged."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import micros
from ilyama_service.api.errors import NotAcceptable, Unavailable, UnsupportedMediaType, documented
from ilyama_service.api.group_commit import LandingFailed
from ilyama_service.api.idempotency import asked_under
from ilyama_service.api.mutations import IdempotencyKey
from ilyama_service.api.parts import Parts, PartsHere, PrincipalHere
from ilyama_service.cloudevents import NotACloudEvent, message_received, texts_of

ONE_EVENT: Final = ("application/cloudevents+json", "application/json")
BATCH: Final = "application/cloudevents-batch+json"

_NAME: Final = {"type": "string", "minLength": 1}
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "title": "CloudEvent",
    "description": "A CloudEvent v1.0 that carries one MQTT message. Other attributes are ignored.",
    "required": ["specversion", "id", "source", "type", "subject", "data_base64"],
    "properties": {
        "specversion": {"type": "string", "enum": ["1.0"]},
        "id": _NAME,
        "source": _NAME,
        "type": _NAME | {"description": "Usually MQTT.EventPublished."},
        "subject": {"type": "string", "description": "The MQTT topic."},
        "data_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            "description": "The payload. `data` is not read.",
        },
        "time": {
            "type": ["string", "null"],
            "description": "Not read: the platform's clock says when a message was received.",
        },
    },
}
_BODY: Final = {
    "required": True,
    "content": {
        **{name: {"schema": _EVENT} for name in ONE_EVENT},
        BATCH: {"schema": {"type": "array", "items": _EVENT}},
    },
}
router = APIRouter(tags=["ingest"])


class Accepted(BaseModel):
    """How many events are on disk now."""

    accepted: int = Field(ge=0)


@router.post(
    "/v1/ingest",
    status_code=202,
    response_model=Accepted,
    responses=documented(401, 409, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": _BODY},
)
async def ingest(
    request: Request,
    parts: PartsHere,
    principal: PrincipalHere,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Land one CloudEvent, or a batch of them: all or, when one is bad, none."""
    media_type = _media_type(request)
    with parts.budget.share() as share:
        body = await share.read(
            request.stream(),
            most=parts.settings.api_max_body_bytes,
            announced=request.headers.get("content-length"),
        )

        async def act() -> str:
            return await _land(parts, _messages(body, media_type))

        if idempotency_key is None:
            answer = await act()
        else:
            asked = asked_under(principal, idempotency_key, body)
            answer = await parts.repetitions.once(asked, act)
    return Response(answer, 202, media_type="application/json")


def _media_type(request: Request) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (*ONE_EVENT, BATCH):
        accepted = ", ".join((*ONE_EVENT, BATCH))
        raise UnsupportedMediaType(f"Content-Type must be one of {accepted}.")
    return media_type


def _messages(body: bytes, media_type: str) -> list[Message]:
    """The messages of a body; one bad event refuses them all."""
    now = micros(datetime.now(UTC))
    if media_type != BATCH:
        return [_message(body, now, index=0)]
    try:
        texts = texts_of(body)
    except NotACloudEvent as error:
        details = {"reason": str(error)}
        raise NotAcceptable(f"The body is no array of events: {error}", details=details) from error
    return [_message(text, now, index=index) for index, text in enumerate(texts)]


def _message(text: bytes | msgspec.Raw, now: int, *, index: int) -> Message:
    try:
        return message_received(text, now=now)
    except NotACloudEvent as error:
        details = {"index": index, "reason": str(error)}
        message = f"Event {index} is no CloudEvent with a message: {error}"
        raise NotAcceptable(message, details=details) from error


async def _land(parts: Parts, messages: list[Message]) -> str:
    if messages:
        try:
            await asyncio.wrap_future(parts.group_commit.submit(messages))
        except LandingFailed as error:
            raise Unavailable(str(error), error_code="landing_unavailable") from error
    return Accepted(accepted=len(messages)).model_dump_json()
