"""Nothing is timed before it is right: what was stored, against the oracle's answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ilyama_protocol.moments import micros
from ilyama_resources.postgres import Gateway
from tests.oracle import Event, Oracle
from tests.platform import Platform
from tests.tables import Row, assert_equals_oracle, plain_rows

DRAINED = (
    "raw_batches",
    "rejected_batches",
    "row_changes",
    "telemetry_samples",
    "key_conflicts",
    "batch_ledger",
    "metric_datapoint",
    "state_datapoint",
    "quarantined_datapoints",
)
_OF_THE_DRAIN = ("updated_at", "drain_id")


def told_by_oracle(events: Iterable[Event]) -> Oracle:
    """The oracle after it has heard everything."""
    oracle = Oracle()
    for event in events:
        oracle.feed(event)
    return oracle


def assert_platform_is_right(
    platform: Platform, events: Sequence[Event], *, devices: Collection[str] | None = None
) -> None:
    """Fail when the tables or the served values of a platform are not the oracle's.

    The oracle is slow and devices have nothing to do with one another: of a large stream, all
    that some of the devices sent is compared.
    """
    assert_platforms_are_right([platform], events, devices=devices)


def assert_platforms_are_right(
    platforms: Iterable[Platform],
    events: Sequence[Event],
    *,
    devices: Collection[str] | None = None,
) -> None:
    """Fail when one of the platforms that got the same messages is not right."""
    chosen = devices or {device_of(event) for event in events}
    oracle = told_by_oracle(event for event in events if device_of(event) in chosen)
    expected = oracle.tables() | {"served": oracle.served_current_values()}
    for platform in platforms:
        stored = {table: _stored(platform, table, chosen) for table in DRAINED}
        stored["served"] = served_values(platform.gateway, chosen)
        assert_equals_oracle(stored, expected)


def assert_news_are_right(platform: Platform, events: Sequence[Event], *, since: Event) -> None:
    """Fail when what one device said since a message is not stored as the oracle says.

    Of what came before, `events` need only have what matters: schemas, and rows that come again.
    """
    device, moment = device_of(since), since.received_at_us
    oracle = told_by_oracle(event for event in events if device_of(event) == device)
    expected = oracle.tables() | {"served": oracle.served_current_values()}
    stored = {table: _stored(platform, table, {device}, since=moment) for table in DRAINED}
    stored["served"] = served_values(platform.gateway, {device})
    assert_equals_oracle(_news(stored, moment), _news(expected, moment))


def _news(tables: Mapping[str, list[Row]], since: int) -> dict[str, list[Row]]:
    return {table: [row for row in rows if _moment(row) >= since] for table, rows in tables.items()}


def _moment(row: Row) -> int:
    return int(row["ts"] if "ts" in row else row["received_at"])


def device_of(event: Event) -> str:
    """The id under which the platform registers the sender of a message by itself."""
    return event.topic.partition("/sync/")[0]


def served_values(gateway: Gateway, devices: Collection[str]) -> list[Row]:
    """The current values that Postgres serves, with moments as microseconds."""
    with gateway.transaction() as tx:
        records = list(tx.current_values.of_owners(devices))
    return [record._asdict() | {"ts": micros(record.ts)} for record in records]


def assert_served_alike(one: Platform, other: Platform, devices: Collection[str]) -> None:
    """Fail when two platforms serve other values; when and in which drain they came may differ."""
    found, expected = (
        [
            {name: told for name, told in value.items() if name not in _OF_THE_DRAIN}
            for value in served_values(platform.gateway, devices)
        ]
        for platform in (one, other)
    )
    assert_equals_oracle({"served": found}, {"served": expected})


def _stored(
    platform: Platform, table: str, devices: Collection[str], *, since: int = 0
) -> list[Row]:
    stored = DeltaTable(platform.settings.warehouse / table).to_pyarrow_dataset()
    names = stored.schema.names
    owner = "owner_id" if "owner_id" in names else "device_id"
    wanted = pc.field(owner).isin(list(devices))
    for moment in {"ts", "received_at"} & {*names}:
        wanted &= pc.field(moment) >= pa.scalar(since, pa.timestamp("us", tz="UTC"))
    return plain_rows(pa.table(stored.to_table(filter=wanted)))
