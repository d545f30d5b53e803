"""Postgres serves what the Delta form of current values holds, whatever keys were chosen."""

from ilyama_protocol.governance.bindings import ColumnAction, Verb, mirrored
from tests.governed import SCHEMA, TABLE, act_on, asked, queue, register, reviewing, reviews
from tests.oracle import Event
from tests.platform import Platform
from tests.unit.intake.traffic import NOW, batch, change

KEY = "site.mode"


def test_a_table_that_is_not_served_may_be_mapped_to_any_key(platform: Platform) -> None:
    gateway = platform.gateway
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    with gateway.transaction() as tx:
        tx.registries.ensure_keys({KEY: "state"})
        tx.commit()
    names = [column.name for column in SCHEMA]
    actions = mirrored(names) | {"mode": ColumnAction(Verb.MAP, KEY)}
    reviewing(gateway).approve(act_on(reviews(gateway)[0]), actions)
    rows = [change(seq, seq, row={"id": seq, "mode": "on", "flow": 0.5}) for seq in (1, 2, 3)]
    sent = batch(*rows, table=TABLE, schema=SCHEMA)
    platform.import_events([Event("acme/dev-1/sync/rows/batch", sent, NOW)])

    platform.drain("--verify", ILYAMA_SERVED_INSTANCES="2")

    with gateway.transaction() as tx:
        assert tx.current_values.unserved_of(["dev-1"]) == {("dev-1", TABLE)}
        assert list(tx.current_values.of_owners(["dev-1"])) == []
    assert {row["key"] for row in platform.rows("state_datapoint")} == {KEY}
    assert {row["key"] for row in platform.rows("current_value")} >= {KEY, f"{TABLE}.flow"}
