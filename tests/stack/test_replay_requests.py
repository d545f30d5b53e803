"""Replays as they are asked for and landed, without a drain."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, event, func, select, update

from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.orders import Products
from ilyama_assets.drains.planning import Plan
from ilyama_assets.drains.rejecting import OUTCOMES_SCHEMA, encoded_outcomes, encoded_rejections
from ilyama_assets.drains.sealing import encode_seal, make_seal
from ilyama_assets.tables import BATCH_LEDGER, REJECTED_BATCHES
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.moments import day_of, utc
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.replays import ReplayLanding, ReplaysCannotLand
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.postgres.rejection_replays import RejectionReplays
from ilyama_resources.postgres.rejections import Rejection, RejectionFilter, RejectionState
from ilyama_resources.postgres.schema import REJECTION_REPLAY
from ilyama_service import rejections
from ilyama_service.rejections import GroupDone, WrongState
from tests.damage import files_of, tear
from tests.platform import Platform
from tests.rejected_records import reject
from tests.unit.intake.traffic import (
    NOW,
    TELEMETRY_TOPIC,
    TOPIC,
    batch,
    change,
    sample,
    telemetry,
)
from tests.waiting import eventually, somebody_waits


def _rejected(platform: Platform, *, drain_id: int = 1) -> Rejection:
    message = Message(str(uuid4()), 0, TOPIC, b"no json", NOW, 1, {"correlation_id": "c-1"})
    (rejection,) = reject(platform, [message], drain_id=drain_id)
    return rejection


def _replay(platform: Platform, rejection_id: str, corrected: bytes | None = None) -> Rejection:
    with platform.gateway.transaction() as tx:
        done = rejections.replay(tx, rejection_id, corrected=corrected, actor="ann")
        tx.commit()
    return done


def _land(platform: Platform) -> None:
    settings = platform.settings
    landing = Landing(settings.landing)
    ReplayLanding(platform.gateway, landing, settings.warehouse, segment_max_bytes=1_000_000).land()


def test_who_waits_to_replay_one_holds_nothing_that_a_replay_of_its_group_needs(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _rejected(platform).rejection_id
    with ThreadPoolExecutor(1) as other:
        with platform.gateway.transaction() as tx:
            tx.rejection_replays.alone()
            replay = other.submit(_replay, platform, name)
            assert eventually(lambda: somebody_waits(platform.gateway))
            assert tx.rejections.find(name, locked=True) is not None
        assert replay.result(timeout=60).state is RejectionState.REPLAYED


def test_corrected_bytes_are_replayed_when_the_first_ones_are_gone(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    first, second = _rejected(platform), _rejected(platform, drain_id=2)
    shutil.rmtree(platform.settings.warehouse / "rejected_batches")
    _replay(platform, first.rejection_id, b"mended")
    _replay(platform, second.rejection_id)

    _land(platform)

    settings = platform.settings
    with platform.gateway.transaction() as tx:
        (sent,) = tx.rejection_replays.of(first.rejection_id)
        (given_up,) = tx.rejection_replays.of(second.rejection_id)
    assert (sent.outcome, given_up.outcome) == (None, "bytes_missing")
    (path,) = settings.landing.rglob(f"{sent.segment_id}*")
    (message,) = read_messages(path)
    assert (message.topic, message.payload) == (TOPIC, b"mended")
    assert message.rejection_id == first.rejection_id


@pytest.mark.parametrize("damage", [tear, Path.unlink], ids=["torn", "lost"])
def test_a_replay_whose_bytes_cannot_be_read_is_given_up_and_holds_up_no_other(
    platform_without_spark: Platform, damage: Callable[[Path], None]
) -> None:
    platform = platform_without_spark
    damaged, sound = _rejected(platform), _rejected(platform, drain_id=2)
    (file,) = files_of(platform.settings.warehouse, "rejected_batches", 1)
    damage(file)
    for rejection in (damaged, sound):
        _replay(platform, rejection.rejection_id)

    _land(platform)

    with platform.gateway.transaction() as tx:
        (given_up,) = tx.rejection_replays.of(damaged.rejection_id)
        (landed,) = tx.rejection_replays.of(sound.rejection_id)
        found = tx.rejections.find(damaged.rejection_id)
        (event,) = tx.events.newest(limit=9)
    assert (given_up.outcome, landed.outcome, landed.position) == ("bytes_missing", None, 0)
    assert found is not None
    assert (found.state, found.last_outcome) == (RejectionState.REJECTED, "bytes_missing")
    assert event.event_type == "rejection.bytes_unreadable"
    assert event.message.startswith("1 replays of rejections were given up, since rejected_batches")
    assert event.details["rejections"] == [damaged.rejection_id]
    shown = platform.try_ilyama("rejections", "show", damaged.rejection_id)
    assert "bytes      unreadable" in shown.stdout
    assert f"{file.relative_to(platform.settings.warehouse)} cannot be read." in shown.stderr

    _replay(platform, damaged.rejection_id, b"mended")
    _land(platform)
    assert [message.payload for message in _landed(platform, damaged)] == [b"mended"]


@pytest.mark.parametrize("damage", [tear, Path.unlink], ids=["torn", "lost"])
def test_properties_that_cannot_be_read_are_all_that_a_replay_is_without(
    platform_without_spark: Platform, damage: Callable[[Path], None]
) -> None:
    platform = platform_without_spark
    kept, mended, whole = (_rejected(platform, drain_id=number) for number in (1, 2, 3))
    for number in (1, 2):
        (file,) = files_of(platform.settings.warehouse, "raw_batches", number)
        damage(file)
    for rejection, corrected in ((kept, None), (mended, b"mended"), (whole, None)):
        _replay(platform, rejection.rejection_id, corrected)

    _land(platform)

    told = {m.rejection_id: (m.payload, m.user_properties) for m in _landed(platform, kept)}
    assert told == {
        kept.rejection_id: (b"no json", {}),
        mended.rejection_id: (b"mended", {}),
        whole.rejection_id: (b"no json", {"correlation_id": "c-1"}),
    }


def test_a_disk_that_fails_for_the_moment_costs_no_replay(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = platform_without_spark
    rejection = _rejected(platform)
    _replay(platform, rejection.rejection_id)

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failed:
        failed.setattr(pq, "ParquetFile", failing)
        with pytest.raises(ReplaysCannotLand, match="Input/output error"):
            _land(platform)
    _land(platform)
    assert [message.payload for message in _landed(platform, rejection)] == [b"no json"]


def test_of_replays_that_wait_only_those_of_the_next_segment_are_read_with_their_bytes(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    names = [_rejected(platform, drain_id=number).rejection_id for number in (1, 2, 3)]
    for name in names:
        _replay(platform, name, b"mended " * 10)
    reads: list[str] = []
    engine = create_engine(platform.gateway.url)

    @event.listens_for(engine, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        reads.append(statement)

    with engine.connect() as connection:
        replays = RejectionReplays(connection)
        assert replays.place("first", at_most_bytes=100)
        assert not any("corrected" in statement for statement in reads)
        assert [len(replay.corrected or b"") for replay in replays.of_segment("first")] == [70]
    engine.dispose()


def _landed(platform: Platform, rejection: Rejection) -> list[Message]:
    """The messages of the segment that the last replay of a rejection landed in."""
    with platform.gateway.transaction() as tx:
        *_, replay = tx.rejection_replays.of(rejection.rejection_id)
    (path,) = platform.settings.landing.rglob(f"{replay.segment_id}*")
    return [*read_messages(path)]


def _landed_replay(platform: Platform, rejection_id: str) -> Message:
    """The message with which a rejection of one message was replayed last."""
    _land(platform)
    with platform.gateway.transaction() as tx:
        *_, sent = tx.rejection_replays.of(rejection_id)
    (path,) = platform.settings.landing.rglob(f"{sent.segment_id}*")
    (message,) = read_messages(path)
    return message


def _refused(platform: Platform, topic: str, payload: bytes) -> str:
    """A rejection whose message had room for a few rows on the clock."""
    bad = payload.replace(b'"format_version":1', b'"format_version":9')
    (rejection,) = reject(platform, [Message(str(uuid4()), 0, topic, bad, NOW)], drain_id=1)
    return rejection.rejection_id


@pytest.mark.parametrize(
    ("topic", "first", "corrected"),
    [
        pytest.param(
            TELEMETRY_TOPIC,
            telemetry(sample(0)),
            telemetry(*(sample(n) for n in range(900))),
            id="telemetry",
        ),
        pytest.param(
            TOPIC,
            batch(change(1)),
            batch(
                *(change(n, row={"v": "x" * 900}) for n in range(1 + len(batch(change(1))) // 40))
            ),
            id="rows-that-fit",
        ),
    ],
)
def test_longer_bytes_keep_the_moment_of_the_original(
    platform_without_spark: Platform, topic: str, first: bytes, corrected: bytes
) -> None:
    name = _refused(platform_without_spark, topic, first)

    _replay(platform_without_spark, name, corrected)

    sent = _landed_replay(platform_without_spark, name)
    assert len(corrected) > 10 * len(first)
    assert (sent.landed_at, sent.timed_anew, sent.arrived_at) == (NOW, False, None)


def test_rows_that_do_not_fit_get_another_moment_and_tell_when_they_came(
    platform_without_spark: Platform,
) -> None:
    first, rows = batch(change(1)), 2 + len(batch(change(1))) // 40
    name = _refused(platform_without_spark, TOPIC, first)

    _replay(platform_without_spark, name, batch(*map(change, range(rows))))

    sent = _landed_replay(platform_without_spark, name)
    assert sent.landed_at > NOW
    assert (sent.timed_anew, sent.arrived_at) == (True, NOW)


def test_what_an_older_build_timed_anew_tells_when_it_came(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _refused(platform, TELEMETRY_TOPIC, telemetry(sample(0)))
    _replay(platform, name, telemetry(sample(0), sample(1)))
    noted = {"timed_anew": True, "received_at": utc(NOW + 9)}
    with create_engine(platform.gateway.url).begin() as connection:
        connection.execute(update(REJECTION_REPLAY).values(noted))

    sent = _landed_replay(platform, name)
    assert (sent.landed_at, sent.timed_anew, sent.arrived_at) == (NOW + 9, True, NOW)


def _settled(
    platform: Platform, name: str, outcome: str, code: str | None, *, drain_id: int
) -> Rejection:
    with platform.gateway.transaction() as tx:
        *_, replay = tx.rejection_replays.of(name)
        told = {"segment_id": replay.segment_id, "position": 0, "outcome": outcome, "code": code}
        outcomes = pa.Table.from_pylist([told], schema=OUTCOMES_SCHEMA)
        tx.rejection_replays.settle(outcomes, drain_id=drain_id)
        tx.commit()
        found = tx.rejections.find(name)
    assert found is not None
    return found


def test_a_rejection_whose_replay_breaks_the_engine_stays_replayed_until_that_is_decided(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _rejected(platform).rejection_id
    _replay(platform, name, b"mended")
    _land(platform)

    broken = _settled(platform, name, "staged", None, drain_id=2)
    assert (broken.state, broken.last_outcome) == (RejectionState.REPLAYED, "staged")
    assert _settled(platform, name, "staged", None, drain_id=3).state is RejectionState.REPLAYED
    again = _settled(platform, name, "rejected", "invalid_json", drain_id=4)
    assert (again.state, again.last_drain_id) == (RejectionState.REJECTED, 4)


def test_what_was_replayed_in_vain_is_explained_again_by_the_same_note(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    rejected = _rejected(platform)
    group = RejectionFilter(code=rejected.code)
    done = [_explained(platform, group)]
    _replay(platform, rejected.rejection_id)
    _land(platform)
    again = _settled(platform, rejected.rejection_id, "rejected", "invalid_json", drain_id=2)
    assert (again.state, again.note) == (RejectionState.REJECTED, "why")

    done.append(_explained(platform, group))

    assert done == [GroupDone(1, 0), GroupDone(1, 0)]
    with pytest.raises(WrongState, match="not explained by this note"):
        _explained(platform, group)


def _explained(platform: Platform, group: RejectionFilter) -> GroupDone:
    with platform.gateway.transaction() as tx:
        done = rejections.explain_group(tx, group, note="why", actor="ann")
        tx.commit()
    return done


def test_a_rejection_whose_rows_wait_for_their_lineage_is_accepted_once_and_for_all(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _rejected(platform).rejection_id
    _replay(platform, name)
    _land(platform)

    staged = _settled(platform, name, "staged", "lineage_paused", drain_id=2)
    assert staged.state is RejectionState.ACCEPTED
    assert _settled(platform, name, "accepted", None, drain_id=3) == staged


def test_corrected_bytes_are_let_go_of_when_their_replay_is_settled(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _rejected(platform).rejection_id
    _replay(platform, name, b"mended")
    _land(platform)
    kept = select(func.octet_length(REJECTION_REPLAY.c.corrected))
    with create_engine(platform.gateway.url).connect() as connection:
        assert connection.scalar(kept) == len(b"mended")

    _settled(platform, name, "accepted", None, drain_id=2)

    with create_engine(platform.gateway.url).connect() as connection:
        assert connection.scalar(kept) == 0
    with platform.gateway.transaction() as tx:
        (past,) = tx.rejection_replays.of(name)
    assert past.corrected


def test_a_release_that_refuses_a_replayed_message_opens_no_second_rejection(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    name = _rejected(platform).rejection_id
    _replay(platform, name, b"{}")
    _land(platform)
    _settled(platform, name, "staged", None, drain_id=2)
    with platform.gateway.transaction() as tx:
        (replay,) = tx.rejection_replays.of(name)
    message = Message(replay.segment_id or "", 0, TOPIC, b"{}", NOW, rejection_id=name)
    engine = IntakeEngine(Device("acme/dev-1"), DeviceState(), origin=Origin.STAGED)
    engine.decide(message)
    tables = Encoder(3, Origin.STAGED).encode(engine.decisions.release())
    products = Products(
        rejections=encoded_rejections([tables[REJECTED_BATCHES.name]]),
        replayed=encoded_outcomes([tables[BATCH_LEDGER.name]], {message.segment_id}),
    )
    seal = make_seal([products], Plan([], []))
    with platform.gateway.transaction() as tx:
        tx.drains.open(3, day_of(NOW), origin=Origin.STAGED)
        tx.drains.seal(3, encode_seal(seal))
        drain = tx.drains.find(3)
        assert drain is not None
        close_drain(tx, drain, seal, served_instances=10)
        tx.commit()
        (only,) = tx.rejections.newest(RejectionFilter(), limit=10)
    assert (only.rejection_id, only.state) == (name, RejectionState.REJECTED)
    assert (only.first_code, only.code) == ("invalid_json", "invalid_format_version")
