"""A platform for one test: fresh records and tables on the servers that all tests share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.governance.policies import FirstSchema
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.gaps import GapFilter
from ilyama_resources.settings import PREFIX, Settings
from ilyama_resources.spark.sessions import spark_session
from tests.command_line import run_ilyama
from tests.databases import fresh_database
from tests.oracle import Event
from tests.streams import write_cloudevents
from tests.tables import (
    Row,
    assert_equals_oracle,
    assert_warehouse_equals_oracle,
    expected_tables,
    stored_rows,
)

COMMAND_WITHIN_S = 400
NO_SPARK = "sc://127.0.0.1:1"
"""For platforms that do not drain: nobody listens there."""


@dataclass(frozen=True)
class Platform:
    """The parts of a platform, and the ways a person uses it."""

    settings: Settings
    gateway: Gateway

    def import_events(self, events: Sequence[Event], **variables: str) -> None:
        """Land a stream by `ilyama import`."""
        file = self.settings.home / f"{uuid4()}.jsonl"
        write_cloudevents(events, file)
        self.ilyama("import", str(file), **variables)

    def drain(self, *words: str, **variables: str) -> None:
        """Drain everything by `ilyama drain`; device tables take long, and few tests ask them."""
        self.ilyama("drain", "--skip", "device_tables", *words, **variables)

    def only_drain(self, **variables: str) -> None:
        """Drain everything by `ilyama drain`, and leave all derived tables behind."""
        self.drain("--skip", "current_value", **variables)

    def drain_and_mirror(self) -> None:
        """Drain everything by `ilyama drain`, and have the device tables follow."""
        self.ilyama("drain")

    def ilyama(self, *words: str, **variables: str) -> str:
        """Run the command line and return what it prints; a failure fails the test."""
        done = self.try_ilyama(*words, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_ilyama(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line, whatever comes of it."""
        environment = self.environment(**variables)
        return run_ilyama(*words, environment=environment, within_s=COMMAND_WITHIN_S)

    @contextmanager
    def intake(self, **changes: Any) -> Iterator[Intake]:
        """The parts of a drain, prepared, in this process."""
        with spark_session(self.settings.spark_remote or "", "tests") as session:
            parts = Intake(
                settings=self.settings.model_copy(update=changes),
                gateway=self.gateway,
                landing=Landing(self.settings.landing),
                warehouse=self.warehouse,
                session=lambda: session,
            )
            parts.prepare()
            yield parts

    @property
    def warehouse(self) -> Warehouse:
        """The Delta tables."""
        with self.gateway.transaction() as tx:
            identity = tx.warehouses.identity()
            tx.commit()
        return Warehouse(self.settings.warehouse, identity)

    def rows(self, table: str) -> list[Row]:
        """The rows of a Delta table."""
        return stored_rows(self.settings.warehouse, table)

    def assert_equals_oracle(self, events: Sequence[Event], **policies: Any) -> None:
        """Compare every table with what the oracle says of a stream."""
        expected = expected_tables(events, **policies)
        assert_warehouse_equals_oracle(self.settings.warehouse, expected)
        assert_equals_oracle({"gaps": self._gaps()}, expected)

    def _gaps(self) -> list[Row]:
        with self.gateway.transaction() as tx:
            gaps = tx.gaps.page(GapFilter(), after=None, limit=None)
        return [told.gap._asdict() | {"rejections": told.rejections} for told in gaps]

    def environment(self, **variables: str) -> dict[str, str]:
        """The variables of a process that works on this platform."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return own | self.settings.environment() | variables


@contextmanager
def fresh_platform(home: Path, *, postgres_url: str, spark_remote: str) -> Iterator[Platform]:
    """A platform with nothing in it."""
    url = fresh_database(postgres_url)
    settings = Settings(
        home=home,
        postgres_url=url,
        spark_remote=spark_remote,
        auto_register=True,
        first_schema=FirstSchema.ACCEPT,
    )
    settings.make_directories()
    gateway = Gateway(url)
    yield Platform(settings, gateway)
    gateway.close()
