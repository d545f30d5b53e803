"""`python -m ilyama_service.api` serves the HTTP API until it is told to stop."""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Final

import uvicorn

from ilyama_resources.embedded.ports import PortTaken, accepts
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres, postgres_in_use
from ilyama_resources.errors import PlatformError
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, load_settings
from ilyama_service.api.app import create_app
from ilyama_service.api.logs import log_as_json
from ilyama_service.api.tokens import ensure_admin_token

log = logging.getLogger("ilyama.api")

_FAILED: Final = 1
_LOOK_AFTER_POSTGRES_S: Final = 2.0
_LAST_REQUESTS_S: Final = 20


def main() -> None:
    """Serve, or say in a sentence why not."""
    log_as_json()
    # uvicorn finishes its requests, then raises the signal again: everything unwinds.
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: sys.exit(0))
    try:
        serve(load_settings())
    except PlatformError as error:
        log.error("%s", error)
        sys.exit(_FAILED)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C; requests at work are finished first."""
    if accepts(settings.api_port):
        raise PortTaken(f"port {settings.api_port} is in use; choose another as ILYAMA_API_PORT")
    settings.make_directories()
    with (
        postgres_in_use(settings) as url,
        _postgres_kept_alive(settings),
        closing(Gateway(url)) as gateway,
    ):
        gateway.migrate()
        ensure_admin_token(settings, gateway)
        app = create_app(settings, gateway, Landing(settings.landing))
        log.info("listening on http://%s:%d", settings.api_host, settings.api_port)
        uvicorn.Server(_configuration(settings, app)).run()


def _configuration(settings: Settings, app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.api_trusted_proxies is not None,
        forwarded_allow_ips=settings.api_trusted_proxies or "",
        timeout_graceful_shutdown=_LAST_REQUESTS_S,
    )


@contextmanager
def _postgres_kept_alive(settings: Settings) -> Iterator[None]:
    """Start the embedded Postgres anew whenever it has died under us."""
    stopped = Event()
    keeper = Thread(target=_keep, args=(EmbeddedPostgres(settings), stopped), daemon=True)
    if settings.postgres_url is None:
        keeper.start()
    try:
        yield
    finally:
        stopped.set()
        if keeper.is_alive():
            keeper.join()


def _keep(postgres: EmbeddedPostgres, stopped: Event) -> None:
    while not stopped.wait(_LOOK_AFTER_POSTGRES_S):
        try:
            postgres.ensure_running()
        except PlatformError as error:
            log.error("%s", error)


if __name__ == "__main__":
    main()
