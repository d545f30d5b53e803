"""What waits to be drained stays in sight; what is in the tables is put away and goes in time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.landing.directory import Landing
from ilyama_service.stack.status import status_of
from tests.platform import Platform
from tests.streams import generate, write_cloudevents

SMALL = {"ILYAMA_SEGMENT_MAX_BYTES": "20000"}


def files(platform: Platform, place: str) -> list[Path]:
    return sorted((platform.settings.landing / place).glob("*/*.parquet"))


def test_drained_segments_are_put_away_and_swept_an_hour_at_a_time(platform: Platform) -> None:
    platform.import_events(generate(21, batches=20), **SMALL)
    landed = len(files(platform, "segments"))
    platform.only_drain()
    assert files(platform, "segments") == []
    assert len(files(platform, "drained")) == landed
    landing, now = Landing(platform.settings.landing), datetime.now(UTC)
    assert landing.sweep(put_away_before=now) == 0
    assert landing.sweep(put_away_before=now + timedelta(hours=1)) == 1
    assert files(platform, "drained") == []


def test_an_import_resumed_after_a_drain_lands_nothing_twice(platform: Platform) -> None:
    events = generate(22, batches=40)
    file = platform.settings.home / "captured.jsonl"
    write_cloudevents(events, file)
    died = platform.try_ilyama(
        "import", str(file), CRASH_AT="segment_registration.after:2", **SMALL
    )
    assert died.returncode == CRASH_STATUS
    platform.only_drain()
    told = platform.ilyama("import", str(file), **SMALL)
    assert "by an interrupted import" in told
    platform.drain()
    platform.assert_equals_oracle(events)


def test_a_file_that_is_no_segment_is_set_aside_and_said_aloud(
    platform_without_spark: Platform,
) -> None:
    settings, gateway = platform_without_spark.settings, platform_without_spark.gateway
    landing = Landing(settings.landing)
    good = landing.write("b" * 26, [Message("", 0, "acme/d/sync/rows/batch", b"{}", 10**15)])
    bad = landing.path("a" * 26, good.day)
    bad.write_bytes(b"no Parquet")

    assert landing.register_found(gateway) == 1
    assert landing.register_found(gateway) == 0

    assert bad.with_suffix(".unreadable").read_bytes() == b"no Parquet"
    with gateway.transaction() as tx:
        assert [day.messages for day in tx.segments.pending()] == [1]
        (event,) = tx.events.newest(limit=10)
    assert (event.event_type, event.severity) == ("segment.unreadable", "ERROR")
    assert bad.name in event.message
    assert status_of(settings).unreadable_segments == 1
