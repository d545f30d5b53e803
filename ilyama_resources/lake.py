"""The warehouse and the landing directory as Dagster resources."""

from dagster import ConfigurableResource, ResourceDependency

from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import load_settings


class DeltaLake(ConfigurableResource):  # type: ignore[type-arg]
    """Where segments land and tables lie."""

    records: ResourceDependency[Records]

    @property
    def warehouse(self) -> Warehouse:
        """The tables that belong to the records."""
        settings = load_settings()
        settings.make_directories()
        with self.records.gateway.transaction() as tx:
            identity = tx.warehouses.identity()
            tx.commit()
        return Warehouse(settings.warehouse, identity)

    @property
    def landing(self) -> Landing:
        """The segments that wait to be drained."""
        return Landing(load_settings().landing)
