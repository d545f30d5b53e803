"""Is it alive, is it ready, and how much of everything: the routes without a token."""

from fastapi import APIRouter, Response
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel

from ilyama_resources.postgres import GatewayUnavailable
from ilyama_service.api.errors import Unavailable, documented
from ilyama_service.api.parts import Parts, PartsHere

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    """The process answers."""

    alive: bool


class Part(BaseModel):
    """How a part of the platform is."""

    ok: bool
    message: str


class Ready(BaseModel):
    """Everything that the API needs is there."""

    ready: bool
    parts: dict[str, Part]


@router.get("/healthz")
async def healthz() -> Alive:
    """Whether the process lives."""
    return Alive(alive=True)


@router.get("/readyz", responses=documented(503))
def readyz(parts: PartsHere) -> Ready:
    """Whether Postgres answers, its schema is the newest, and segments can land."""
    found = {
        "postgres": _postgres(parts),
        "migrations": _migrations(parts),
        "landing": _landing(parts),
    }
    bad = [name for name, part in found.items() if not part.ok]
    if bad:
        details = {"parts": {name: part.model_dump() for name, part in found.items()}}
        message = f"Not ready: {', '.join(bad)}."
        raise Unavailable(message, error_code="not_ready", details=details)
    return Ready(ready=True, parts=found)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(parts: PartsHere) -> Response:
    """Figures in the form that Prometheus reads."""
    text = generate_latest(parts.metrics.registry)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _postgres(parts: Parts) -> Part:
    try:
        parts.gateway.ping()
    except GatewayUnavailable:
        return Part(ok=False, message="Postgres does not answer.")
    return Part(ok=True, message="Postgres answers.")


def _migrations(parts: Parts) -> Part:
    try:
        newest = parts.gateway.is_migrated()
    except GatewayUnavailable:
        return Part(ok=False, message="Unknown, because Postgres does not answer.")
    if not newest:
        return Part(ok=False, message="The schema is of another version than this program.")
    return Part(ok=True, message="The schema is the newest.")


def _landing(parts: Parts) -> Part:
    try:
        parts.landing.probe()
    except OSError as error:
        return Part(ok=False, message=f"Nothing can land: {error.strerror}.")
    return Part(ok=True, message="Segments can land.")
