"""Before a stack stops: nobody starts another run, and Dagster learns why those at work end.

Without that word, a run that is interrupted counts as failed.
"""

from contextlib import closing

from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.postgres import Gateway, GatewayUnavailable
from ilyama_resources.settings import Settings
from ilyama_service.dagster_home import DagsterHome
from ilyama_service.stack.supervision import Supervisor


def announce_stop(settings: Settings, supervisor: Supervisor) -> None:
    """Tell Dagster that the runs at work are canceled; a stack that never came up has none."""
    home, url = DagsterHome(settings), _postgres_url(settings)
    if url is None or home.code_port() is None:
        return
    supervisor.stop_part("daemon")
    try:
        with closing(Gateway(url)) as gateway:
            gateway.ping()
    except GatewayUnavailable:
        return
    from ilyama_service.dagster_instances import request_ends_of_runs

    home.point_here(url)
    request_ends_of_runs(home)


def _postgres_url(settings: Settings) -> str | None:
    if settings.postgres_url is not None:
        return settings.postgres_url
    endpoint = EmbeddedPostgres(settings).endpoint()
    return None if endpoint is None else endpoint.url
