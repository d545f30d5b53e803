"""Tables that may give datapoints under one key are found without comparing each with each."""

import random

import pytest

from ilyama_protocol.governance.bindings import Binding, ColumnAction, Verb
from ilyama_protocol.identifiers import key_of
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.shared_keys import SharedKeys
from ilyama_protocol.intake.state import DeviceState, LineageState, TelemetryState
from tests.unit.intake.traffic import NOW, UNNAMED_SCHEMA, engine, sample, sampled, telemetry

TABLES = ("pumps", "valves", "a.b", "a%2Eb", "a", "", ".")
KEYS = (
    *("site.flow", "site.level", "lonely", "", ".x", "..", "a.b", "a%2Eb.c", "a%252Eb.c"),
    *(key_of(table, "v") for table in TABLES),
)


def may_share(one: str, other: str, named: dict[str, frozenset[str]]) -> bool:
    """The same for one pair, as it is meant."""
    prefixes = {table: key_of(table, "") for table in (one, other)}
    return (
        any(key.startswith(prefixes[one]) for key in named[other])
        or any(key.startswith(prefixes[other]) for key in named[one])
        or bool(named[one] & named[other])
    )


@pytest.mark.parametrize("seed", range(60))
def test_sharers_equal_those_of_every_pair(seed: int) -> None:
    chance = random.Random(seed)
    named = {table: frozenset(chance.sample(KEYS, chance.choice((0, 0, 1, 3)))) for table in TABLES}
    known = chance.sample(TABLES, 5)
    shared = SharedKeys(known, named.__getitem__)
    for table in TABLES:
        expected = {other for other in known if other != table and may_share(table, other, named)}
        assert shared.sharers(table) == expected


class Counting(SchemaRulings):
    """Rulings that count how often they are asked for the named keys of a table."""

    asked = 0

    def named_keys(self, source_table: str, lineage: LineageState | None) -> frozenset[str]:
        self.asked += 1
        return super().named_keys(source_table, lineage)


@pytest.mark.parametrize("chosen", [None, "site.flow"])
def test_the_keys_of_each_table_are_asked_for_once_however_many_batches_come(
    chosen: str | None,
) -> None:
    tables = [f"table_{number}" for number in range(60)]
    actions = None if chosen is None else {"celsius": ColumnAction(Verb.MAP, chosen)}
    state = DeviceState(
        lineages={
            table: LineageState(
                telemetry=TelemetryState(max_ts=NOW - 1_000_000),
                accepted={UNNAMED_SCHEMA: Binding(0, actions)},
            )
            for table in tables
        }
    )
    rulings = Counting()
    batches = [
        telemetry(sample(number), seq=seq, number=60 * seq + number, table=table)
        for seq in (0, 1)
        for number, table in enumerate(tables)
    ]
    met = sampled(*batches, engine=engine(state, rulings=rulings))

    assert len(met.decisions.outcomes.ledger) == len(batches)
    assert rulings.asked == len(tables)
