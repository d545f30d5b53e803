"""What is remembered of devices comes back as it was, and columns are kept once for a fleet."""

import pytest
from msgspec.structs import fields
from sqlalchemy import create_engine, text

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.governance.bindings import Binding, ColumnAction, Verb
from ilyama_protocol.intake.state import (
    BatchMark,
    BoundSchema,
    DeviceState,
    LineageState,
    Mark,
    TelemetryState,
    decode_state,
    encode_state,
)
from ilyama_resources.postgres import device_states
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from tests.governed import (
    HASH,
    OTHER,
    SCHEMA,
    TABLE,
    act_on,
    asked,
    queue,
    register,
    reviewing,
    reviews,
)
from tests.platform import Platform

COLUMNS = (
    SchemaColumn("a\0b", Affinity.REAL, 0, False),
    SchemaColumn("id", Affinity.TEXT, 1, True),
)


def test_a_state_comes_back_whole_and_its_columns_lie_elsewhere(platform: Platform) -> None:
    schemas = {"5c" * 32: BoundSchema(7, COLUMNS)}
    accepted = {"5c" * 32: Binding(7, {"id": ColumnAction(Verb.IGNORE)}), "6d" * 32: Binding(8)}
    marks = {"epoch": [Mark(-1, 4)]}
    telemetry = TelemetryState(5, 2, 5, 77, 1, 3, [7], [Mark(-1, 4)])
    lineage = LineageState(
        {"epoch": 3}, {"epoch": 1}, schemas, marks, telemetry, 2, accepted, first_schema="5c" * 32
    )
    batches = [BatchMark("a", 3)]
    spans = {"epoch": (1, 3)}
    device = DeviceState(9, {"epoch": 0}, {"readings": lineage}, "b", batches, spans)
    for part in (device, lineage, telemetry):
        told = {field.name: getattr(part, field.name) for field in fields(part)}
        assert all(told.values()), f"give every field a value, lest it is forgotten: {told}"
    state = encode_state(device).decode()
    fleet = {f"acme/{number}": state for number in range(3)}
    with platform.gateway.transaction() as tx:
        tx.device_states.advance(fleet.items(), drain_id=1)
        tx.commit()
    with platform.gateway.transaction() as tx:
        assert tx.device_states.of([*fleet, "acme/unknown"]) == fleet
    assert _kept(platform) == (1, 0)


def _kept(platform: Platform) -> tuple[int, int]:
    """How many schemas there are, and how many states that spell their columns out."""
    engine = create_engine(platform.gateway.url)
    with engine.connect() as connection:
        schemas = connection.scalar(text("SELECT count(*) FROM table_schema"))
        spelt = connection.scalar(
            text("SELECT count(*) FROM device_state WHERE state LIKE '%REAL%'")
        )
    engine.dispose()
    return schemas or 0, spelt or 0


def test_columns_hold_from_their_first_announcement_on(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = platform_without_spark.gateway
    monkeypatch.setattr(device_states, "STATES_AT_ONCE", 3)
    lineage = LineageState(accepted={}, schemas={HASH: BoundSchema(9, SCHEMA)})
    state = encode_state(DeviceState(lineages={TABLE: lineage})).decode()
    none = encode_state(DeviceState()).decode()
    devices = [("dev-1", state), ("dev-2", state), ("dev-3", none), ("dev-4", none)]
    on_the_shelf = [("dev-2", HASH, 4), ("dev-3", HASH, 5), ("dev-4", OTHER, 6)]
    with gateway.transaction() as tx:
        tx.device_states.advance(devices, drain_id=1)
        tx.shelved_schemas.add(
            ShelvedSchema(device, TABLE, schema_hash, BoundSchema(since, SCHEMA))
            for device, schema_hash, since in on_the_shelf
        )
        found = tx.device_states.bound_since(TABLE, HASH, device_ids=dict(devices))
    assert found == {"dev-1": 9, "dev-2": 4, "dev-3": 5}


def test_of_what_lies_on_the_shelf_a_state_has_only_what_was_accepted_since(
    platform_without_spark: Platform,
) -> None:
    gateway = platform_without_spark.gateway
    register(gateway, "dev-1", "dev-2")
    lineage = LineageState(accepted={}, schemas={HASH: BoundSchema(9, SCHEMA)})
    state = encode_state(DeviceState(lineages={TABLE: lineage})).decode()
    shelved = [
        ShelvedSchema(device, TABLE, schema_hash, BoundSchema(since, SCHEMA))
        for device, schema_hash, since in [
            ("dev-1", HASH, 4),
            ("dev-1", OTHER, 5),
            ("dev-2", HASH, 6),
        ]
    ]
    with gateway.transaction() as tx:
        tx.device_states.advance([("dev-1", state), ("dev-2", state)], drain_id=1)
        tx.shelved_schemas.add(shelved)
        tx.shelved_schemas.add([ShelvedSchema("dev-1", TABLE, HASH, BoundSchema(8, SCHEMA))])
        assert tx.device_states.of(["dev-1", "dev-2"]) == {"dev-1": state, "dev-2": state}
        tx.commit()
    queue(gateway, asked("dev-1"))
    reviewing(gateway).approve(act_on(reviews(gateway)[0]))

    with gateway.transaction() as tx:
        found = tx.device_states.of(["dev-1", "dev-2"])
    whole = decode_state(found["dev-1"].encode()).lineages[TABLE]
    assert whole.schemas == {HASH: BoundSchema(4, SCHEMA)}
    assert found["dev-2"] == state
