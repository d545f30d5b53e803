"""What a drain is planned with: decisions in their order, and columns of the right tables."""

import pytest

from ilyama_assets.drains.governing import pin_rules
from ilyama_assets.drains.orders import DeviceOrder
from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import (
    MIRRORED,
    Actions,
    Binding,
    ColumnAction,
    Verb,
    mirrored,
)
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.rules import DeviceRules, TableRules
from ilyama_protocol.intake.state import BoundSchema
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from tests.governed import HASH, SCHEMA, TABLE, act_on, asked, queue, register, reviewing, reviews
from tests.platform import Platform
from tests.unit.governance.schemas import columns

IGNORE, DEFER = ColumnAction(Verb.IGNORE), ColumnAction(Verb.DEFER)
TEXTS = columns("id:INTEGER:pk1:nn", "mode:TEXT", "flow:TEXT")
TEXTS_HASH = schema_hash(TABLE, TEXTS)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def announced(gateway: Gateway, *schemas: tuple[SchemaColumn, ...]) -> None:
    """Some device of elsewhere has announced schemas of the table."""
    with gateway.transaction() as tx:
        tx.shelved_schemas.add(
            ShelvedSchema("other", TABLE, schema_hash(TABLE, schema), BoundSchema(1, schema))
            for schema in schemas
        )
        tx.commit()


def accepted(gateway: Gateway, schema: str) -> None:
    """A policy has accepted a schema in project a."""
    with gateway.transaction() as tx:
        tx.bindings.accept([PolicyAcceptance("a", TABLE, schema, Binding(1))])
        tx.commit()


def approved(gateway: Gateway, schema: str, actions: Actions) -> None:
    """A person approves an open review of a schema."""
    (review,) = (r for r in reviews(gateway) if r.schema_hash == schema and r.state == "queued")
    reviewing(gateway).approve(act_on(review), actions)


def pinned(gateway: Gateway, table: str = TABLE) -> TableRules:
    """What is pinned of a table for a device of project a."""
    with gateway.transaction() as tx:
        device = DeviceOrder("a-1", [], "1.0")
        return pin_rules(tx, [device], Policy())["a"].of(table)


def rules_of(gateway: Gateway, device_id: str) -> DeviceRules:
    with gateway.transaction() as tx:
        device = DeviceOrder(device_id, [], "1.0")
        pin_rules(tx, [device], Policy())
    return device.rules


def test_what_was_decided_last_of_a_column_stands(gateway: Gateway) -> None:
    """An approval that replaces what a policy bound first is as young as any other."""
    register(gateway, "a-1", "a-2", project="a")
    announced(gateway, SCHEMA, TEXTS)
    accepted(gateway, HASH)
    queue(gateway, asked("a-1", TEXTS_HASH, columns=TEXTS), asked("a-2"))
    names = [column.name for column in SCHEMA]
    approved(gateway, TEXTS_HASH, mirrored(names) | {"mode": IGNORE})
    approved(gateway, HASH, mirrored(names) | {"flow": IGNORE})

    rules = pinned(gateway)

    assert rules.bound["mode"] == MIRRORED
    assert rules.bound["flow"] == IGNORE


def test_the_affinities_that_were_bound_first_stay_whoever_approves_them_later(
    gateway: Gateway,
) -> None:
    register(gateway, "a-1", "a-2", project="a")
    announced(gateway, SCHEMA, TEXTS)
    accepted(gateway, HASH)
    queue(gateway, asked("a-1", TEXTS_HASH, columns=TEXTS), asked("a-2"))
    names = [column.name for column in SCHEMA]
    approved(gateway, TEXTS_HASH, mirrored(names))
    approved(gateway, HASH, mirrored(names))

    assert pinned(gateway).device_table["flow"] == "REAL"


def test_a_held_approval_gives_no_affinities_before_all_of_it_is_decided(gateway: Gateway) -> None:
    register(gateway, "a-1", project="a")
    announced(gateway, SCHEMA, TEXTS)
    queue(gateway, asked("a-1", TEXTS_HASH, columns=TEXTS))
    names = [column.name for column in TEXTS]
    approved(gateway, TEXTS_HASH, mirrored(names) | {"id": DEFER})
    accepted(gateway, HASH)
    assert pinned(gateway).device_table["flow"] == "REAL"

    (held,) = reviews(gateway)
    reviewing(gateway).reopen(act_on(held))
    approved(gateway, TEXTS_HASH, mirrored(names))

    assert pinned(gateway).device_table["flow"] == "REAL"


def test_a_rejected_schema_is_known_to_be_until_something_else_is_decided(gateway: Gateway) -> None:
    register(gateway, "a-1", "a-2", project="a")
    queue(gateway, asked("a-1"), asked("a-2"))
    first, second = reviews(gateway)
    reviewing(gateway).reject(act_on(first))
    reviewing(gateway).abandon(act_on(second))

    assert rules_of(gateway, "a-1").rejected == {TABLE: [HASH]}
    assert rules_of(gateway, "a-2").rejected == {}

    again = reviewing(gateway).reopen(act_on(reviews(gateway)[0]))
    assert rules_of(gateway, "a-1").rejected == {TABLE: [HASH]}

    reviewing(gateway).abandon(act_on(again))
    assert rules_of(gateway, "a-1").rejected == {}


def test_the_hash_of_another_table_brings_none_of_its_columns(gateway: Gateway) -> None:
    """A device sends for its valves the hash of the pumps, and announces nothing."""
    register(gateway, "a-1", project="a")
    announced(gateway, SCHEMA)
    foreign = {"source_table": "valves", "columns": None, "last_accepted": HASH}
    queue(gateway, asked("a-1", HASH, **foreign))
    (review,) = reviews(gateway)
    assert (review.source_table, review.columns) == ("valves", None)
    desk = reviewing(gateway)
    assert desk.reject(act_on(review)).columns is None

    desk.reopen(act_on(reviews(gateway)[0]))
    (_, again) = reviews(gateway)
    assert again.columns is None
    approval = desk.approve(act_on(again), mirrored(["id", "mode"]))

    assert approval.columns is None
    rules = pinned(gateway, "valves")
    assert (rules.device_table, [*rules.bound]) == ({}, ["id", "mode"])
    with gateway.transaction() as tx:
        assert tx.device_states.columns_of("valves", HASH) is None
        assert tx.device_states.columns_of(TABLE, HASH) == [*SCHEMA]
