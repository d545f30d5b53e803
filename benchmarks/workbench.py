"""What benchmarks work with: real servers, each started when one first asks for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ilyama_assets.drains.protocol import DrainReport, Intake
from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.durability import make_directory
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import free_port
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_files import Segment, portions
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.settings import PREFIX, Settings
from tests.oracle import Event
from tests.platform import Platform, fresh_platform
from tests.running import processes_of
from tests.waiting import eventually

MILLION: int = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    replayed_batches: int = 8
    decoded_batches: int = 8
    decoded_rows: int = 4096
    pure_rounds: int = 9
    short_drain_rounds: int = 21
    """Drains of one batch: a fifth of a second each, of which chance is a fifth."""
    drain_rounds: int = 7
    short_history_rows: int = MILLION // 5
    long_history_rows: int = 8 * MILLION
    long_drain_rounds: int = 5
    query_rounds: int = 7
    process_rounds: int = 5
    landed_messages: int = 16_000
    landing_rounds: int = 9
    staged_batches: int = 64
    peer_batches: int = 256
    peer_rounds: int = 5
    stack_seconds: int = 25
    stack_bulk_messages: int = 300
    thorough: bool = False
    """Whether to measure also what stands beside the ratios and takes minutes."""


@dataclass
class Workbench:
    """A home, the servers in it, and how much is measured."""

    home: Path
    scale: Scale = field(default_factory=Scale)
    shared: dict[type, Any] = field(default_factory=dict)
    """What benchmarks of one run build once for all of them, by its type."""
    _borrowed: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def settings(self) -> Settings:
        """The settings of the servers."""
        return Settings(home=self.home / "servers", broker_port=free_port())

    @cached_property
    def one_core_settings(self) -> Settings:
        """The settings of a second Spark, for those who measure on one core."""
        return Settings(home=self.home / "one-core", spark_cores=1)

    @cached_property
    def postgres_url(self) -> str:
        """The embedded Postgres."""
        return self.borrow(EmbeddedPostgres(self.settings).in_use())

    @cached_property
    def spark_remote(self) -> str:
        """The embedded Spark Connect server, on all cores."""
        return self.borrow(EmbeddedSpark(self.settings).in_use())

    @cached_property
    def broker_url(self) -> str:
        """The embedded broker."""
        return self.borrow(EmbeddedBroker(self.settings).in_use())

    @contextmanager
    def platform(self, *, spark_remote: str | None = None) -> Iterator[Platform]:
        """A platform with nothing in it, on the shared servers; its files go when it is done."""
        home = self.home / f"platform-{uuid4().hex[:8]}"
        remote = spark_remote or self.spark_remote
        try:
            with fresh_platform(home, postgres_url=self.postgres_url, spark_remote=remote) as made:
                yield made
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def borrow(self, context: AbstractContextManager[T]) -> T:
        """Enter a context for as long as the servers run."""
        return self._borrowed.enter_context(context)

    def close(self) -> None:
        """Stop what was started; who asks again starts it anew."""
        self.shared.clear()
        self._borrowed.close()
        # Servers end a moment after their last user, and until then write into their homes.
        homes = (self.settings.home, self.one_core_settings.home)
        eventually(lambda: not any(map(processes_of, homes)))
        for name in ("postgres_url", "spark_remote", "broker_url"):
            self.__dict__.pop(name, None)


def forget_settings_of_the_developer() -> None:
    """Measure the defaults, whatever the shell or a `.env` file say."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    Settings.model_config["env_file"] = None


def land(intake: Intake, events: Sequence[Event]) -> None:
    """Land messages as segments of the usual size."""
    register(intake.gateway, written_segments(intake, events))


def land_again(intake: Intake, segments: Sequence[Segment], landing: Landing) -> None:
    """Land the segments of another landing directory, without writing them once more."""
    for segment in segments:
        path = intake.landing.path(segment.segment_id, segment.day)
        make_directory(path.parent)
        os.link(landing.path(segment.segment_id, segment.day), path)
    register(intake.gateway, segments)


def written_segments(intake: Intake, events: Sequence[Event]) -> list[Segment]:
    """Write messages as segments of the usual size; nobody knows of them yet."""
    ids = SegmentIds.fresh()
    messages = [Message("", 0, e.topic, e.payload, e.received_at_us) for e in events]
    cut = portions(messages, max_bytes=intake.settings.segment_max_bytes)
    return [intake.landing.write(ids[number], portion) for number, portion in enumerate(cut)]


def drain_all(intake: Intake) -> list[DrainReport]:
    """Drain everything that waits, as a run does."""
    reports = []
    with intake.alone():
        while (report := intake.drain()) is not None:
            reports.append(report)
    return reports
