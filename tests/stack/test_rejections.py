"""Rejections have a life: they are replayed, with their own bytes or others, and never doubled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from sqlalchemy import create_engine, text

from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import day_of
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.replays import ReplayLanding
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.lineages import LineagePlace
from ilyama_resources.postgres.rejections import Rejection, RejectionFilter, RejectionState
from ilyama_service import lineages, rejections
from ilyama_service.rejections import GroupDone, NoSuchRejection, WrongState
from tests.oracle import Event
from tests.platform import Platform
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    TOPIC,
    batch,
    change,
    sample,
    telemetry,
)

Done = TypeVar("Done")
ANN = "ann"
EVERYTHING = RejectionFilter()
UNREGISTERED = RejectionFilter(code="unregistered_device")


def _events(*payloads: bytes, apart: int = 1_000_000, topic: str = TOPIC) -> list[Event]:
    return [Event(topic, payload, NOW + i * apart) for i, payload in enumerate(payloads)]


def _bad(payload: bytes) -> bytes:
    """The same batch with a version that nobody speaks, as long as it was."""
    return payload.replace(b'"format_version":1', b'"format_version":9')


def _take_in(platform: Platform, intake: Intake) -> None:
    settings = platform.settings
    ReplayLanding(
        platform.gateway,
        Landing(settings.landing),
        settings.warehouse,
        segment_max_bytes=settings.segment_max_bytes,
    ).land()
    with intake.alone():
        while intake.drain() is not None:
            pass


def _known(platform: Platform) -> list[Rejection]:
    with platform.gateway.transaction() as tx:
        return tx.rejections.newest(EVERYTHING, limit=1000)


def _do(platform: Platform, act: Callable[[Transaction], Done]) -> Done:
    with platform.gateway.transaction() as tx:
        done = act(tx)
        tx.commit()
    return done


def _replay(platform: Platform, rejection_id: str, corrected: bytes | None = None) -> Rejection:
    return _do(
        platform,
        lambda tx: rejections.replay(tx, rejection_id, corrected=corrected, actor=ANN),
    )


def _stored(platform: Platform) -> list[tuple[int, int]]:
    """The (commit_seq, received_at) of all stored rows."""
    rows = platform.rows("row_changes")
    return sorted((row["commit_seq"], row["received_at"]) for row in rows)


def test_a_rejection_is_accepted_with_corrected_bytes_and_its_rows_are_there_once(
    platform: Platform,
) -> None:
    good = batch(change(2), number=2)
    platform.import_events(
        _events(batch(change(1), number=1), _bad(good), batch(change(3), number=3))
    )
    with platform.intake() as intake:
        _take_in(platform, intake)
        (rejected,) = _known(platform)
        assert (rejected.code, rejected.state) == ("unsupported_format_version", "rejected")
        assert rejected.payload_bytes == len(good)
        assert _replay(platform, rejected.rejection_id, good).state is RejectionState.REPLAYED
        with pytest.raises(WrongState, match="under way"):
            _replay(platform, rejected.rejection_id, good)
        _take_in(platform, intake)
        (accepted,) = _known(platform)
        assert (accepted.state, accepted.last_outcome) == (RejectionState.ACCEPTED, "accepted")
        with pytest.raises(WrongState, match="it was accepted"):
            _replay(platform, rejected.rejection_id)
    assert _stored(platform) == [(1, NOW), (2, NOW + 1_000_000), (3, NOW + 2_000_000)]
    lines = [line for line in platform.rows("batch_ledger") if line["origin"] == "rejection"]
    assert [(line["outcome"], line["rows_new"]) for line in lines] == [("accepted", 1)]
    shown = platform.ilyama("rejections", "show", rejected.rejection_id)
    assert f"original   segment {rejected.segment_id}, position {rejected.position}" in shown
    place = "drain {drain_id}, segment {segment_id}, position {position}".format(**lines[0])
    assert f"by {ANN}, corrected bytes: accepted\n           {place}\n" in shown
    points = platform.rows("state_datapoint")
    assert len({point["datapoint_id"] for point in points}) == len(points) == 3


def test_corrected_bytes_that_need_more_room_get_a_new_place_on_the_clock(
    platform: Platform,
) -> None:
    rows = [change(seq, seq) for seq in range(2, 30)]
    platform.import_events(_events(_bad(batch(change(2), number=2)), batch(change(90), number=3)))
    with platform.intake() as intake:
        _take_in(platform, intake)
        (rejected,) = _known(platform)
        _replay(platform, rejected.rejection_id, batch(*rows, number=2))
        _take_in(platform, intake)
    assert [rejection.state for rejection in _known(platform)] == [RejectionState.ACCEPTED]
    moments = {seq: at for seq, at in _stored(platform)}
    assert len(moments) == 29
    assert moments[2] > moments[90] + 1_000_000


def test_a_longer_correction_is_of_the_era_and_the_window_in_which_it_first_came(
    platform: Platform,
) -> None:
    """It came long ago, and the numbers of its table have begun anew since."""

    def land(*payloads: bytes, second: int) -> None:
        sent = [
            Message("", 0, TELEMETRY_TOPIC, payload, NOW + second * 1_000_000)
            for payload in payloads
        ]
        register(intake.gateway, [intake.landing.write(SegmentIds.fresh()[0], sent)])
        _take_in(platform, intake)

    def reset() -> None:
        place = LineagePlace(DEVICE_ID, TABLE)
        _do(platform, lambda tx: lineages.reset_sequence(tx, place, actor=ANN))

    mended = telemetry(sample(5, celsius=5.0), seq=500)
    with platform.intake() as intake:
        land(telemetry(sample(0), seq=499), _bad(mended), second=5)
        reset()
        land(telemetry(sample(100), seq=0), telemetry(sample(101), seq=1), second=101)
        (rejected,) = _known(platform)
        longer = telemetry(sample(5, celsius=5.0, bar=1.0), seq=500)
        assert len(longer) > len(mended)
        _replay(platform, rejected.rejection_id, longer)
        _take_in(platform, intake)
        land(telemetry(sample(200), seq=2), second=200)

    assert [found.state for found in _known(platform)] == [RejectionState.ACCEPTED]
    points = platform.rows("metric_datapoint")
    assert [p["value"] for p in points if p["ts"] == NOW + 5_000_000] == [5.0, 1.0]
    assert NOW + 200_000_000 in {p["ts"] for p in points}


def test_a_group_is_replayed_after_its_devices_are_registered(platform: Platform) -> None:
    sent = _events(*(batch(change(seq), number=seq) for seq in range(1, 6)))
    at_once = Event(TOPIC, batch(change(6), number=6), NOW)
    platform.import_events([at_once, *sent])
    with platform.intake(auto_register=False) as intake:
        _take_in(platform, intake)
        assert {rejection.code for rejection in _known(platform)} == {"unregistered_device"}
        device = RegisteredDevice("pump-7", "acme", "dev-1", "2.1")
        _do(platform, lambda tx: tx.devices.register([device], auto=False))
        group = RejectionFilter(code="unregistered_device", firmware_version="unknown")
        replayed = _do(platform, lambda tx: rejections.replay_group(tx, group, actor=ANN))
        assert replayed == GroupDone(6, 0)
        _take_in(platform, intake)
        with pytest.raises(WrongState, match="is open"):
            _do(platform, lambda tx: rejections.replay_group(tx, group, actor=ANN))
        nobody = RejectionFilter(code="empty_batch")
        with pytest.raises(NoSuchRejection, match="with code empty_batch"):
            _do(platform, lambda tx: rejections.replay_group(tx, nobody, actor=ANN))
    assert {rejection.state for rejection in _known(platform)} == {RejectionState.ACCEPTED}
    points = platform.rows("state_datapoint")
    assert len({point["datapoint_id"] for point in points}) == len(points) == 6
    assert {point["owner_id"] for point in points} == {"pump-7"}
    moments = dict(_stored(platform))
    assert [moments[seq] for seq in range(2, 6)] == [event.received_at_us for event in sent[1:]]
    # On a clock, two messages cannot be at the same moment.
    room = 1 + len(at_once.payload) // 40
    assert sorted((moments[1], moments[6])) == [NOW, NOW + room]


def test_what_is_still_bad_is_rejected_again_and_is_one_rejection_still(
    platform: Platform,
) -> None:
    payload = _bad(batch(change(2), number=2))
    platform.import_events(_events(payload))
    with platform.intake() as intake:
        _take_in(platform, intake)
        (rejected,) = _known(platform)
        _replay(platform, rejected.rejection_id)
        _take_in(platform, intake)
        (again,) = _known(platform)
        assert (rejections.told_state(again), again.replays) == ("rejected again", 1)
        _replay(platform, again.rejection_id, payload[:-1])
        _take_in(platform, intake)
    (again,) = _known(platform)
    assert (again.code, again.first_code, again.replays) == (
        "invalid_json",
        "unsupported_format_version",
        2,
    )
    with platform.gateway.transaction() as tx:
        (group,) = tx.rejections.groups(EVERYTHING, limit=10)
        past = tx.rejection_replays.of(again.rejection_id)
    assert (group.rejections, group.devices, group.states) == (1, 1, {"rejected": 1})
    assert [(replay.corrected, replay.code) for replay in past] == [
        (False, "unsupported_format_version"),
        (True, "invalid_json"),
    ]
    kept = platform.rows("rejected_batches")
    assert len(kept) == 3
    assert {row["rejection_id"] for row in kept} == {again.rejection_id}


def test_a_replay_that_breaks_the_engine_is_settled_when_its_message_is_decided(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, worse = batch(change(2), number=2), _bad(batch(change(3), number=3))
    platform.import_events(_events(_bad(good), worse))
    with platform.intake() as intake:
        _take_in(platform, intake)
        second, first = _known(platform)
        _replay(platform, first.rejection_id, good)
        _replay(platform, second.rejection_id)
        monkeypatch.setenv("POISON", "error:format_version")
        _take_in(platform, intake)
        states = [(rejection.state, rejection.last_outcome) for rejection in _known(platform)]
        assert states == [(RejectionState.REPLAYED, "staged")] * 2

        monkeypatch.delenv("POISON")
        _do(platform, lambda tx: tx.backlog.retry(StagingReason.ENGINE_ERROR))
        with intake.alone():
            assert intake.release(day_of(NOW)) is not None
    assert [(r.rejection_id, r.state, r.last_outcome) for r in _known(platform)] == [
        (second.rejection_id, RejectionState.REJECTED, "rejected"),
        (first.rejection_id, RejectionState.ACCEPTED, "accepted"),
    ]
    assert _stored(platform) == [(2, NOW)]


def test_a_replay_of_nobody_known_that_breaks_the_engine_is_rejected_again_when_it_is_retried(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another device is in the same drain, so that the staged file tells of both."""
    others = _events(batch(change(1), number=1), topic="acme/dev-2/sync/rows/batch")
    platform.import_events([*_events(batch(change(2), number=2)), *others])
    with platform.intake(auto_register=False) as intake:
        _take_in(platform, intake)
        known = RegisteredDevice("pump-2", "acme", "dev-2", "2.1")
        _do(platform, lambda tx: tx.devices.register([known], auto=False))
        _do(platform, lambda tx: rejections.replay_group(tx, UNREGISTERED, actor=ANN))
        monkeypatch.setenv("POISON", "error:format_version")
        _take_in(platform, intake)
        assert {rejection.state for rejection in _known(platform)} == {RejectionState.REPLAYED}

        monkeypatch.delenv("POISON")
        _do(platform, lambda tx: tx.backlog.retry(StagingReason.ENGINE_ERROR))
        with intake.alone():
            assert intake.release(day_of(NOW)) is not None
        states = {found.topic.split("/")[1]: found.state for found in _known(platform)}
        assert states == {"dev-1": RejectionState.REJECTED, "dev-2": RejectionState.ACCEPTED}

        late = RegisteredDevice("pump-1", "acme", "dev-1", "2.1")
        _do(platform, lambda tx: tx.devices.register([late], auto=False))
        _do(platform, lambda tx: rejections.replay_group(tx, UNREGISTERED, actor=ANN))
        _take_in(platform, intake)
    assert {rejection.state for rejection in _known(platform)} == {RejectionState.ACCEPTED}
    assert sorted(row["device_id"] for row in platform.rows("row_changes")) == ["pump-1", "pump-2"]
    with platform.gateway.transaction() as tx:
        assert tx.backlog.releasable(at_most_bytes=1) == []


def test_a_rejection_is_explained_and_discarded_and_then_left_alone(platform: Platform) -> None:
    platform.import_events(_events(_bad(batch(change(2), number=2))))
    with platform.intake() as intake:
        _take_in(platform, intake)
    (rejected,) = _known(platform)
    name = rejected.rejection_id
    explained = _do(platform, lambda tx: rejections.explain(tx, name, note="old", actor=ANN))
    assert (explained.state, explained.note) == (RejectionState.EXPLAINED, "old")
    gone = _do(platform, lambda tx: rejections.discard(tx, name, note=None, actor=ANN))
    assert (gone.state, gone.note) == (RejectionState.DISCARDED, "old")
    with pytest.raises(WrongState, match="it was discarded"):
        _replay(platform, name)
    with platform.gateway.transaction() as tx:
        told = tx.audit.page(limit=10)
    assert [(entry.actor, entry.verb, entry.new["state"]) for entry in told] == [
        (ANN, "discard", "discarded"),
        (ANN, "explain", "explained"),
    ]


def test_rejections_from_before_the_record_are_found_in_the_table(platform: Platform) -> None:
    platform.import_events(_events(*(_bad(batch(change(i), number=i)) for i in range(1, 4))))
    with platform.intake() as intake:
        _take_in(platform, intake)
    known = {rejection.rejection_id: rejection for rejection in _known(platform)}
    _forget_rejections(platform)
    with platform.intake() as intake:
        recalled = {rejection.rejection_id: rejection for rejection in _known(platform)}
        assert len(recalled) == 3
        changed_at = next(iter(known.values())).changed_at
        assert {
            name: found._replace(changed_at=changed_at) for name, found in recalled.items()
        } == {name: found._replace(changed_at=changed_at) for name, found in known.items()}


def _forget_rejections(platform: Platform) -> None:
    engine = create_engine(platform.settings.postgres_url or "")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM rejection"))
        connection.execute(text("UPDATE warehouse SET rejections_known = false"))
    engine.dispose()


def test_the_firmware_that_a_device_tells_counts_for_what_it_sends_later(
    platform: Platform,
) -> None:
    def land(at: int, **properties: str) -> None:
        told = Message("", 0, TOPIC, b"{", NOW + at, user_properties=properties)
        register(intake.gateway, [intake.landing.write(SegmentIds.fresh()[0], [told])])

    def firmware() -> tuple[list[str], str | None]:
        _take_in(platform, intake)
        with platform.gateway.transaction() as tx:
            (entry,) = tx.devices.page(after=None, limit=2)
        versions = [rejected.firmware_version for rejected in _known(platform)]
        return sorted(versions), entry.firmware_version

    with platform.intake() as intake:
        land(0)
        assert firmware() == (["unknown"], None)
        land(1, firmware_version="2.1")
        assert firmware() == (["2.1", "unknown"], "2.1")
        land(2)
        assert firmware() == (["2.1", "2.1", "unknown"], "2.1")
