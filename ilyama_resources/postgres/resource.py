"""The Storage Gateway as a Dagster resource."""

from collections.abc import Generator
from contextlib import closing, contextmanager

from dagster import ConfigurableResource, InitResourceContext
from pydantic import PrivateAttr

from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres.gateway import Gateway
from ilyama_resources.settings import load_settings


class Records(ConfigurableResource):  # type: ignore[type-arg]
    """The record database: the configured one, or the embedded one, started on demand."""

    _gateway: Gateway | None = PrivateAttr(default=None)

    @property
    def gateway(self) -> Gateway:
        """The door to the records."""
        if self._gateway is None:
            raise RuntimeError("the records can be used only inside a run")
        return self._gateway

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Generator["Records"]:
        """Borrow Postgres for the length of a run, or of a sensor's tick."""
        with postgres_in_use(load_settings()) as url, closing(Gateway(url)) as gateway:
            gateway.migrate()
            self._gateway = gateway
            with _alive(gateway, context.run_id):
                yield self


def run_lock(run_id: str) -> str:
    """The name of the lock that a run holds for as long as its process lives."""
    return f"run {run_id}"


@contextmanager
def _alive(gateway: Gateway, run_id: str | None) -> Generator[None]:
    if run_id is None:
        yield
    else:
        # Shared, because a run makes this resource once for each that depends on it.
        with gateway.lock(run_lock(run_id), shared=True):
            yield
