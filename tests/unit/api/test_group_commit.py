"""Requests that arrive together land together; each is told what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import MICROSECONDS_PER_DAY
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_files import Segment, read_messages
from ilyama_resources.postgres import Gateway, GatewayUnavailable
from ilyama_service.api.group_commit import GroupCommit, LandingFailed
from ilyama_service.api.metrics import IngestMetrics

MIDNIGHT = 20_000 * MICROSECONDS_PER_DAY


class _Records:
    """A registry of segments in memory that can be away."""

    def __init__(self) -> None:
        self.segments: list[str] = []
        self.away = False

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        if self.away:
            raise GatewayUnavailable("Postgres does not answer")
        yield SimpleNamespace(segments=self, commit=lambda: None)

    def register(self, segments: list[Segment]) -> None:
        self.segments += [segment.segment_id for segment in segments]


@pytest.fixture
def records() -> _Records:
    return _Records()


@pytest.fixture
def commit(tmp_path: Path, records: _Records) -> GroupCommit:
    return GroupCommit(
        Landing(tmp_path),
        cast(Gateway, records),
        segment_max_bytes=100,
        metrics=IngestMetrics(CollectorRegistry()),
    )


def _message(payload: bytes, at: int = MIDNIGHT) -> Message:
    return Message("", 0, "a/b/sync/rows/batch", payload, at)


def _landed(directory: Path) -> list[list[bytes]]:
    files = sorted(directory.glob("segments/*/*.parquet"), key=lambda path: path.stem)
    return [[message.payload for message in read_messages(file)] for file in files]


def test_requests_that_wait_together_share_a_segment(
    commit: GroupCommit, records: _Records, tmp_path: Path
) -> None:
    futures = [commit.submit([_message(b"%d" % number)]) for number in range(5)]
    commit.start()
    commit.close()
    assert [future.exception() for future in futures] == [None] * 5
    assert _landed(tmp_path) == [[b"0", b"1", b"2", b"3", b"4"]]
    assert len(records.segments) == 1


def test_a_group_is_cut_at_midnight_and_at_the_size_of_a_segment(
    commit: GroupCommit, tmp_path: Path
) -> None:
    commit.submit([_message(b"before", MIDNIGHT - 1), _message(b"after")])
    commit.submit([_message(b"x" * 90), _message(b"y" * 90)])
    commit.start()
    commit.close()
    assert _landed(tmp_path) == [[b"before"], [b"after", b"x" * 90], [b"y" * 90]]


def test_without_postgres_the_file_is_enough_and_is_registered_later(
    commit: GroupCommit, records: _Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ilyama_service.api.group_commit.REGISTER_AGAIN_AFTER_S", 0)
    records.away = True
    commit.start()
    commit.submit([_message(b"1")]).result(60)
    assert (_landed(tmp_path), records.segments) == ([[b"1"]], [])
    records.away = False
    commit.submit([_message(b"2")]).result(60)
    commit.close()
    assert len(records.segments) == 2


def test_a_landing_directory_that_fails_is_told_and_the_next_request_may_succeed(
    commit: GroupCommit, tmp_path: Path
) -> None:
    (tmp_path / "segments").write_text("in the way")
    commit.start()
    with pytest.raises(LandingFailed):
        commit.submit([_message(b"1")]).result(60)
    (tmp_path / "segments").unlink()
    commit.submit([_message(b"2")]).result(60)
    commit.close()
    assert _landed(tmp_path) == [[b"2"]]


def test_a_message_that_cannot_be_written_does_not_stop_the_next(
    commit: GroupCommit, tmp_path: Path
) -> None:
    commit.start()
    with pytest.raises(LandingFailed):
        commit.submit([structs.replace(_message(b"1"), topic="\ud800")]).result(60)
    commit.submit([_message(b"2")]).result(60)
    commit.close()
    assert _landed(tmp_path) == [[b"2"]]
