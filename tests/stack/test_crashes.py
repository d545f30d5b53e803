"""A process that dies at any step leaves nothing half-visible; the next one finishes its work."""

from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.postgres.rejections import RejectionFilter
from tests.oracle import Event
from tests.platform import Platform
from tests.streams import generate, write_cloudevents
from tests.unit.intake.traffic import NOW, TOPIC, batch, change

LANDING_POINTS = [
    "segment_rename.before",
    "segment_rename.after",
    "segment_registration.before",
    "segment_registration.after",
]
DRAIN_POINTS = [
    "open.before",
    "open.after",
    "decide.before",
    "decide.after",
    "seal.before",
    "seal.after",
    *(f"commit.{'before' if table % 2 else 'after'}:{table}" for table in range(1, 10)),
    "close.before",
    "close.after",
]
DERIVED_POINTS = ["derived_merge.before", "derived_merge.after", "derived_close.before"]


def test_landing_survives_a_crash_at_every_step(platform: Platform) -> None:
    events = generate(11, batches=60)
    file = platform.settings.home / "captured.jsonl"
    write_cloudevents(events, file)
    small = {"ILYAMA_SEGMENT_MAX_BYTES": "20000"}
    for point in LANDING_POINTS:
        died = platform.try_ilyama("import", str(file), CRASH_AT=point, **small)
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.ilyama("import", str(file), **small)
    platform.drain()
    platform.assert_equals_oracle(events)


def test_what_landed_after_a_crash_is_in_current_values_too(platform: Platform) -> None:
    events = generate(13, batches=30, day_crossings=False)
    platform.import_events(events[:15])
    died = platform.try_ilyama("drain", CRASH_AT="derived_merge.before")
    assert died.returncode == CRASH_STATUS, died.stderr
    platform.import_events(events[15:])
    platform.drain()
    platform.assert_equals_oracle(events)


def test_draining_survives_a_crash_at_every_step(platform: Platform) -> None:
    """Each process resumes what the one before left, and dies at the next point."""
    events = generate(12, batches=100)
    platform.import_events(events, ILYAMA_SEGMENT_MAX_BYTES="20000")
    for point in [*DRAIN_POINTS, *DERIVED_POINTS]:
        died = platform.try_ilyama("drain", CRASH_AT=point, ILYAMA_DRAIN_MAX_BYTES="20000")
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.drain()
    platform.assert_equals_oracle(events)


REPLAY_POINTS = [
    "replay_placing.after",
    "segment_rename.before",
    "segment_rename.after",
    "replay_registration.after",
    "seal.after",
    "close.before",
    "close.after",
]


def test_a_replay_survives_a_crash_at_every_step(platform: Platform) -> None:
    """Each rejection lands in a segment of its own; each process dies a step further."""
    good = [batch(change(seq), number=seq) for seq in range(1, 9)]
    events = [Event(TOPIC, payload, NOW + i * 1_000_000) for i, payload in enumerate(good)]
    unregistered = {"ILYAMA_AUTO_REGISTER": "false"}
    platform.import_events(events)
    platform.only_drain(**unregistered)
    platform.ilyama("rejections", "replay", "--code", "unregistered_device", "--yes")
    small = {"ILYAMA_SEGMENT_MAX_BYTES": "1", "ILYAMA_DRAIN_MAX_BYTES": "1"}
    for point in REPLAY_POINTS:
        died = platform.try_ilyama("drain", CRASH_AT=point, **small)
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.only_drain(**small)
    with platform.gateway.transaction() as tx:
        (group,) = tx.rejections.groups(RejectionFilter(), limit=10)
    assert group.states == {"accepted": len(good)}
    stored = sorted((row["commit_seq"], row["received_at"]) for row in platform.rows("row_changes"))
    assert stored == [(seq, NOW + (seq - 1) * 1_000_000) for seq in range(1, 9)]
    lines = [line for line in platform.rows("batch_ledger") if line["origin"] == "rejection"]
    assert [line["outcome"] for line in lines] == ["accepted"] * len(good)
