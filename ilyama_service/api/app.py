"""The composition of the HTTP API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings
from ilyama_service.api import (
    audit,
    conflicts,
    current_values,
    devices,
    drains,
    gaps,
    health,
    ingest,
    ledger,
    lineages,
    policies,
    rejections,
    reviews,
)
from ilyama_service.api.errors import answer_errors
from ilyama_service.api.observing import Observer
from ilyama_service.api.parts import Parts, make_parts

# Not more than the gateway has connections: who waits for one should wait outside.
THREADS: Final = 12
GROUPS: Final = (
    health,
    ingest,
    current_values,
    ledger,
    drains,
    gaps,
    conflicts,
    devices,
    rejections,
    lineages,
    reviews,
    policies,
    audit,
)
_DESCRIPTION: Final = """
CloudEvents in; current values, ledger, drains, devices, rejections and reviews out. Send
`Authorization: Bearer TOKEN`. Every refusal is `{error_code, message, details}`; lists go on with
`next_cursor`.
"""


def create_app(settings: Settings, gateway: Gateway, landing: Landing) -> FastAPI:
    """Compose the API over the records and the landing directory of one platform."""
    parts = make_parts(settings, gateway, landing)
    # Its page of documentation needs nothing from the network.
    app = FastAPIOffline(
        title="Ilyama",
        version="1",
        description=_DESCRIPTION,
        lifespan=_lifespan,
        redirect_slashes=False,
        redoc_url=None,
    )
    app.state.parts = parts
    answer_errors(app)
    for group in GROUPS:
        app.include_router(group.router)
    app.add_middleware(Observer, metrics=parts.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    parts: Parts = app.state.parts
    current_default_thread_limiter().total_tokens = THREADS
    parts.group_commit.start()
    yield
    parts.group_commit.close()
