"""Current values in Postgres: whatever drains bring, the newest of every key is served."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.event import listen

from ilyama_assets.drains.projection import projected, without
from ilyama_protocol.intake.datapoints import DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue, CurrentValues
from ilyama_protocol.moments import micros
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.current_instances import CurrentInstances
from ilyama_resources.postgres.current_values import CurrentValueFilter, CurrentValueRecord
from tests.databases import migrate
from tests.platform import Platform

KEYS = ("t.a", "t.b", "t.%2E", "t.__deleted", "plant.flow", "plant.mode", "single")
TABLES = {"t": "t", "plant": "u", "single": "v"}
INSTANCES = ("", "1", "2", "a/b", 'odd "\\.\n\t\\N', "{x,y}", "é\N{SNOWMAN}", "NULL")
DEVICES = ("acme/one", "acme/two")

Named = tuple[str, str, str]
"""Device, key and instance."""


class Model:
    """What is to be served, told value by value."""

    def __init__(self) -> None:
        self.values: dict[Named, tuple[CurrentValue, int]] = {}
        self.stopped: set[tuple[str, str]] = set()

    def take(self, devices: list[tuple[str, CurrentValues]], drain_id: int) -> None:
        """Keep what outdoes the value that stands."""
        for device_id, current in devices:
            for key, of_key in current.items():
                for instance, value in of_key.items():
                    name = (device_id, key, instance)
                    if (device_id, value.source_table) in self.stopped:
                        continue
                    if name not in self.values or value.outdoes(self.values[name][0]):
                        self.values[name] = (value, drain_id)

    def stop(self, device_id: str, source_table: str) -> None:
        """Forget a lineage for good."""
        self.stopped.add((device_id, source_table))
        self.values = {
            name: told
            for name, told in self.values.items()
            if (name[0], told[0].source_table) != (device_id, source_table)
        }


def _random_values(random: Random) -> CurrentValues:
    """Values of some keys at some instances; moments rise or fall, sources and kinds vary."""
    values: CurrentValues = {}
    for key in random.sample(KEYS, random.randint(1, len(KEYS))):
        chosen = random.sample(INSTANCES, random.randint(1, len(INSTANCES)))
        values[key] = {instance: _random_value(random, key) for instance in chosen}
    return values


def _random_value(random: Random, key: str) -> CurrentValue:
    kind = random.choice((DatapointKind.METRIC, DatapointKind.STATE))
    number = random.choice((None, random.random() * 10 ** random.randint(-300, 300)))
    word = random.choice((None, "", "idle", "NULL", '{"a":"\\\\b"}', "x" * 3_000))
    own = TABLES[key.partition(".")[0]]
    return CurrentValue(
        kind,
        number if kind is DatapointKind.METRIC else word,
        random.randint(-5, 40) * 1_000_003,
        random.getrandbits(62),
        random.choice((own, own, "w")),
        random.choice(("edge.rows", "edge.telemetry")),
    )


def _told(record: CurrentValueRecord) -> tuple[object, ...]:
    value = record.value_double if record.kind == "metric" else record.value_text
    return (record.kind, value, micros(record.ts), record.source_table, record.source)


def _expected(value: CurrentValue) -> tuple[object, ...]:
    return (value.kind.value, value.value, value.ts, value.source_table, value.source)


@pytest.mark.parametrize("seed", range(6))
def test_the_newest_of_every_key_is_served(platform_without_spark: Platform, seed: int) -> None:
    random, model = Random(seed), Model()
    for drain_id in range(1, 13):
        devices = [(device_id, _random_values(random)) for device_id in DEVICES]
        with platform_without_spark.gateway.transaction() as tx:
            served = without(projected(devices), model.stopped)
            tx.current_instances.advance(served, drain_id=drain_id)
            if drain_id % 5 == 0:
                lineage = (random.choice(DEVICES), random.choice((*TABLES.values(), "w")))
                tx.current_instances.stop_serving([lineage])
            tx.commit()
        model.take(devices, drain_id)
        if drain_id % 5 == 0:
            model.stop(*lineage)
        with platform_without_spark.gateway.transaction() as tx:
            records = list(tx.current_values.of_owners(DEVICES))
        found = {(r.owner_id, r.key, r.instance): (_told(r), r.drain_id) for r in records}
        assert len(found) == len(records)
        assert found == {
            name: (_expected(value), since) for name, (value, since) in model.values.items()
        }


def test_every_way_of_reading_says_the_same(platform_without_spark: Platform) -> None:
    random = Random(7)
    devices = [(device_id, _random_values(random)) for device_id in DEVICES]
    with platform_without_spark.gateway.transaction() as tx:
        tx.current_instances.advance(projected(devices), drain_id=1)
        all_of_them = list(tx.current_values.of_owners(DEVICES))
        assert {r for d in DEVICES for r in tx.current_values.of_device(d)} == {*all_of_them}
        for record in all_of_them:
            named = CurrentValueFilter(record.owner_id, record.key, instance=record.instance)
            (found,) = tx.current_values.page(named, after=None, limit=5)
            assert found.record == record
        by_prefix = tx.current_values.page(
            CurrentValueFilter(key_prefix="t."), after=None, limit=99
        )
        assert {v.record for v in by_prefix} == {r for r in all_of_them if r.key.startswith("t.")}
        paged, place = [], None
        while page := tx.current_values.page(CurrentValueFilter(), after=place, limit=3):
            paged += [value.record for value in page]
            place = page[-1].place
    in_order = sorted(all_of_them, key=lambda r: (r.owner_id, r.key, r.instance))
    assert paged == in_order


def test_a_lineage_has_as_many_instances_as_it_tells_of(platform_without_spark: Platform) -> None:
    """Also those of a family that another lineage has told of before."""
    of_t = {"plant.a": {"1": _value(5, "t"), "2": _value(5, "t")}}
    of_u = {"plant.b": {i: _value(6, "u") for i in ("1", "2", "3")}}
    with platform_without_spark.gateway.transaction() as tx:
        first = tx.current_instances.advance(projected([("dev", of_t)]), drain_id=1)
        second = tx.current_instances.advance(projected([("dev", of_u)]), drain_id=2)
        again = tx.current_instances.advance(projected([("dev", of_u)]), drain_id=3)
        counted = tx.current_instances.recount([("dev", "u"), ("dev", "t")])
    assert (first, second, again) == ({("dev", "t"): 2}, {("dev", "u"): 3}, {})
    assert counted == {("dev", "u"): 3, ("dev", "t"): 2}


def test_a_lineage_whose_values_were_all_outdone_has_no_instances(
    platform_without_spark: Platform,
) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        for drain_id, table in enumerate(("t", "u"), 1):
            told = {"plant.a": {i: _value(drain_id, table) for i in ("1", "2")}}
            tx.current_instances.advance(projected([("dev", told)]), drain_id=drain_id)
        assert tx.current_instances.recount([("dev", "t"), ("dev", "u")]) == {("dev", "u"): 2}
        late = {"plant.a": {"1": _value(0, "t")}}
        again = tx.current_instances.advance(projected([("dev", late)]), drain_id=3)
    assert again == {("dev", "t"): 1}


def test_what_is_no_longer_served_is_found_by_its_owner(records: Connection) -> None:
    fleet = [(f"d{n}", {"t.a": {str(i): _value(1, "t") for i in range(40)}}) for n in range(500)]
    asked: list[tuple[str, Any]] = []

    def note(*told: Any) -> None:
        asked.append((told[2], told[3]))

    instances = CurrentInstances(records)
    instances.advance(projected(fleet), drain_id=1)
    records.execute(text("ANALYZE current_instance"))
    listen(records, "before_cursor_execute", note)
    instances.stop_serving([("d7", "t")])
    _, changed, removed = asked[:3]
    for statement, values in (changed, removed):
        plan = records.exec_driver_sql(f"EXPLAIN {statement}", values).scalars()
        assert "Seq Scan on current_instance" not in "\n".join(plan)


def _value(ts: int, table: str) -> CurrentValue:
    return CurrentValue(DatapointKind.METRIC, 1.5, ts, 7, table)


@pytest.fixture
def records(platform_without_spark: Platform) -> Iterator[Connection]:
    """A connection to the records, beside the gateway."""
    engine = create_engine(platform_without_spark.settings.postgres_url or "")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_values_of_older_builds_are_served_on(
    platform_without_spark: Platform, records: Connection
) -> None:
    random = Random(8)
    devices = [(device_id, _random_values(random)) for device_id in DEVICES]
    unknown = [("acme/one", {"t.a": {"a\0b": _value(1, "t")}})]
    with platform_without_spark.gateway.transaction() as tx:
        tx.warehouses.identity()
        tx.current_instances.advance(projected(devices), drain_id=1)
        before = {*tx.current_values.of_owners(DEVICES)}
        tx.current_instances.advance(projected(unknown), drain_id=2)
        tx.commit()
    view = text("SELECT * FROM current_value WHERE instance <> :odd ORDER BY 1, 2, 3, 4, 5")
    odd = {"odd": shown("a\0b")}
    as_it_is = records.execute(view, odd).all()
    assert len(as_it_is) == len(before)

    migrate(records, command.downgrade, "0018")
    assert records.execute(view, odd).all() == as_it_is
    (parted,) = records.scalars(text("SELECT count(*) FROM current_value_record"))
    assert parted == len(before)

    migrate(records, command.upgrade, "head")
    assert records.execute(view, odd).all() == as_it_is
    with platform_without_spark.gateway.transaction() as tx:
        assert {*tx.current_values.of_owners(DEVICES)} == before
