"""It makes no difference when a schema is approved: rows come as if nothing had been staged."""

import random
from collections.abc import Callable, Sequence

import pytest

from ilyama_protocol.governance.policies import FirstSchema, Policy
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.streams import generate, generate_changes
from tests.tables import Row, assert_equals_oracle, summed_conflicts
from tests.unit.intake.traffic import NOW, TELEMETRY_TOPIC, columns, sample, telemetry
from tests.unit.test_intake_engine import in_drains

REVIEWING = Policy(first_schema=FirstSchema.REVIEW)
UNSEEN = b"never declared"
"""A column that no schema names: who approves after the columns were announced leaves it out."""
SHOWN = (
    "row_changes",
    "telemetry_samples",
    "metric_datapoint",
    "state_datapoint",
    "quarantined_datapoints",
    "current_value",
    "key_conflicts",
)
OF_DRAINS = ("drain_id", "segment_id", "position")

Place = tuple[str, str, str]
"""A device, a table and a schema."""


def meeting(seed: int, *, batches: int) -> list[Event]:
    """Telemetry of few moments, so that the first value of each is told from the others."""
    chance = random.Random(seed)
    schemas = [columns(celsius="REAL", **{f"n{n}": "TEXT"}) for n in range(4)]
    events = []
    for seq in range(batches):
        samples = [sample(chance.randrange(8), celsius=seq + n / 10) for n in range(3)]
        table, schema = chance.choice(("pumps", "tanks")), chance.choice(schemas)
        payload = telemetry(*samples, seq=seq, table=table, schema=schema)
        events.append(Event(TELEMETRY_TOPIC, payload, NOW + seq * 1_000_000))
    return events


@pytest.mark.parametrize("stream", [generate, generate_changes, meeting])
@pytest.mark.parametrize("seed", range(3), ids="seed {}".format)
def test_schemas_that_are_approved_at_any_moment_bring_the_same_tables(
    stream: Callable[..., list[Event]], seed: int
) -> None:
    events = [event for event in stream(seed, batches=40) if UNSEEN not in event.payload]
    parts = in_drains(events, 12, seed)
    reviewed = _reviewed(parts, random.Random(seed))
    expected = _shown(_approved_beforehand(parts, reviewed))

    assert len(reviewed.tables["staged_rows"]) > 0
    expected["key_conflicts"] = summed_conflicts(expected["key_conflicts"])
    assert_equals_oracle(_shown(reviewed), expected)


def _reviewed(parts: Sequence[list[Event]], chance: random.Random) -> MemoryPlatform:
    """Every schema is reviewed, and approved when chance has it, at the latest in the end."""
    platform = MemoryPlatform(policy=REVIEWING)
    for part in parts:
        platform.drain(part)
        asked = sorted(_asked(platform))
        _approve(platform, chance.sample(asked, chance.randint(0, len(asked))))
        if chance.random() < 0.7:
            platform.release()
    _approve(platform, _asked(platform))
    platform.release()
    return platform


def _asked(platform: MemoryPlatform) -> list[Place]:
    """The questions that nobody has answered; an approval holds for all who send the schema."""
    approved = platform.approved
    return [place for place in platform.reviews if place[2] not in approved.get(place[1], {})]


def _approve(platform: MemoryPlatform, places: Sequence[Place]) -> None:
    for _, table, schema_hash in places:
        platform.approved.setdefault(table, {})[schema_hash] = None
    held = {place[:2] for place in _asked(platform)}
    for device_id, table, _ in platform.reviews:
        if (device_id, table) not in held:
            platform.resume((device_id, table), "schema_review")


def _approved_beforehand(parts: Sequence[list[Event]], reviewed: MemoryPlatform) -> MemoryPlatform:
    """The same with all approvals from the beginning; only circuits open, and are closed."""
    platform = MemoryPlatform(policy=REVIEWING)
    platform.approved = reviewed.approved
    for part in parts:
        platform.drain(part)
    assert platform.reviews == {}
    for device_id, tables in platform.pauses.items():
        for table in tables:
            platform.resume((device_id, table), "circuit_open")
    platform.release()
    return platform


def _shown(platform: MemoryPlatform) -> dict[str, list[Row]]:
    tables = platform.tables | {"current_value": platform.current_values()}
    return {name: [_without_drain(row) for row in tables[name]] for name in SHOWN}


def _without_drain(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in OF_DRAINS}
