"""Telemetry batches: taken once, in the order of their numbers, and dated by their devices."""

import json

import pytest
from msgspec.structs import replace

from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.history import (
    History,
    KnownBatch,
    PointKey,
    StoredPoint,
    TelemetryNeed,
)
from ilyama_protocol.intake.outcomes import CurrentValue, LedgerLine, Origin
from ilyama_protocol.intake.sequences import Numbering, SequenceKind
from ilyama_protocol.intake.state import DeviceState, decode_state, encode_state
from ilyama_protocol.moments import MICROSECONDS_PER_DAY
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    batch,
    change,
    columns,
    counts,
    decided,
    engine,
    last_line,
    message,
    sample,
    sampled,
    telemetry,
)

DAY = 86_400
LATER = NOW + 60_000_000
THIS_ERA = Numbering(SequenceKind.TELEMETRY, TABLE, 1)
ID = "019693e0-7c1a-7b3e-9f00-{:012x}"


def _outcomes(*payloads: bytes) -> list[str]:
    lines = sampled(*payloads).decisions.outcomes.ledger
    return [line.code or line.outcome for line in lines]


def _state_after(*payloads: bytes, drain: int = 5) -> DeviceState:
    return decode_state(encode_state(sampled(*payloads).state_after(drain)))


def _known(payload: bytes, *, drain: int = 5, at: int = NOW, kept: bool = True) -> KnownBatch:
    document = json.loads(payload)
    return KnownBatch(
        document["batch_id"],
        document["source_table"],
        document["batch_seq"],
        "hash of the first",
        document["row_count"],
        drain,
        "segment",
        0,
        at,
        payload if kept else None,
    )


def test_a_new_batch_is_accepted_with_all_its_rows() -> None:
    line = last_line(sampled(telemetry(sample(0), sample(1), seq=7)))

    assert (line.outcome, line.batch_seq, line.batch_id) == ("accepted", 7, ID.format(7))
    assert counts(line) == {"received": 2, "new": 2}


@pytest.mark.parametrize("batch_id", [ID.format(0), ID.format(0).upper()], ids=["bytes", "id"])
def test_a_batch_that_comes_again_adds_nothing(batch_id: str) -> None:
    met = sampled(telemetry(sample(0)), telemetry(sample(0), batch_id=batch_id))

    assert (last_line(met).outcome, counts(last_line(met))) == (
        "duplicate",
        {"received": 1, "duplicate": 1},
    )
    assert len(met.decisions.outcomes.samples) == 1
    assert not met.decisions.conflicts


def test_other_content_under_a_batch_id_is_a_conflict_and_the_first_stays() -> None:
    other = telemetry(sample(5), sample(6), number=0, seq=9)
    met = sampled(telemetry(sample(0)), other, other)

    assert counts(last_line(met)) == {"received": 2, "duplicate": 2, "conflict": 2}
    ((conflict, arrivals),) = met.decisions.conflicts.items()
    assert (conflict.kind, conflict.source_table, arrivals) == ("telemetry batch", TABLE, 2)
    assert json.loads(conflict.key) == {"batch_id": ID.format(0)}
    assert "batch_id" not in json.loads(conflict.first)
    assert (json.loads(conflict.first)["batch_seq"], json.loads(conflict.other)["batch_seq"]) == (
        0,
        9,
    )


def test_numbers_must_rise_in_order_of_arrival() -> None:
    assert _outcomes(
        telemetry(sample(0), seq=5),
        telemetry(sample(1), seq=5, number=10),
        telemetry(sample(2), seq=4, number=11),
        telemetry(sample(3), seq=8, number=12),
        telemetry(sample(4), seq=7, number=13),
        telemetry(sample(5), seq=7, number=14, table="another"),
    ) == [
        "accepted",
        "duplicate_batch_seq",
        "stale_batch_seq",
        "accepted",
        "stale_batch_seq",
        "accepted",
    ]


def test_a_rejected_number_is_kept_with_its_line_and_tells_no_schema() -> None:
    schema = columns(celsius="TEXT")
    met = sampled(telemetry(sample(0), seq=5), telemetry(sample(1), seq=3, schema=schema))

    line: LedgerLine = last_line(met)
    assert (line.code, line.batch_seq, line.rows_rejected) == ("stale_batch_seq", 3, 1)
    assert not met.decisions.state.lineages[TABLE].schemas


def test_a_replayed_rejection_fills_the_gap_that_it_left() -> None:
    state = _state_after(telemetry(sample(0), seq=5), telemetry(sample(1), seq=8))
    stored = History.of(batches=[_known(telemetry(sample(1), seq=8))])

    def replayed(seq: int) -> LedgerLine:
        taking = engine(state, history=stored, origin=Origin.REJECTION)
        return last_line(sampled(telemetry(sample(2), seq=seq, number=99), engine=taking))

    assert [replayed(6).outcome, replayed(8).code] == ["accepted", "duplicate_batch_seq"]


def test_a_replayed_rejection_asks_whether_its_number_was_taken_in_this_era() -> None:
    state = _state_after(telemetry(sample(0), seq=5))
    state.lineage(TABLE).telemetry.begin_era(6, since=NOW)
    state.lineage(TABLE).telemetry.batch_seq = 4
    taking = engine(state, origin=Origin.REJECTION)

    sampled(telemetry(sample(1), seq=3, number=99), engine=taking)

    (need,) = taking.decisions.needs
    assert isinstance(need, TelemetryNeed)
    assert (need.batch_id, need.batch_seq, need.after_drain) == (None, 3, 6)


def test_a_new_era_takes_numbers_anew_and_still_knows_the_ids() -> None:
    first = telemetry(sample(0), seq=5)
    state = _state_after(first)
    state.begin_era(TABLE, 5)
    stored = History.of(batches=[_known(first)])

    met = sampled(
        first, telemetry(sample(1), seq=0, number=99), engine=engine(state, history=stored)
    )

    assert [line.outcome for line in met.decisions.outcomes.ledger] == ["duplicate", "accepted"]


def _state_in_a_new_era() -> DeviceState:
    """After drain 5 the numbers began anew; what landed up to then is of the era before."""
    state = _state_after(telemetry(sample(0), seq=5000))
    state.begin_era(TABLE, 5)
    live = engine(state, history=History())
    live.decide(message(telemetry(sample(1), seq=10), at=LATER, topic=TELEMETRY_TOPIC))
    return live.state_after(6)


def _replayed(state: DeviceState, seq: int, *known: KnownBatch, at: int = NOW) -> IntakeEngine:
    taking = engine(state.copy(), history=History.of(batches=known), origin=Origin.REJECTION)
    payload = telemetry(sample(2), seq=seq, number=99)
    taking.decide(message(payload, at=at, topic=TELEMETRY_TOPIC))
    return taking


@pytest.mark.parametrize("origin", [Origin.REJECTION, Origin.STAGED], ids=str)
def test_what_is_replayed_of_an_earlier_era_leaves_the_numbers_of_this_one_alone(
    origin: Origin,
) -> None:
    taking = engine(_state_in_a_new_era(), history=History(), origin=origin)
    replayed = telemetry(sample(2), seq=5001, number=99)
    taking.decide(message(replayed, topic=TELEMETRY_TOPIC))

    after = decode_state(encode_state(taking.state_after(7)))
    told = after.telemetry(TABLE)
    assert last_line(taking).outcome == "accepted"
    assert (told.batch_seq, told.lowest_seq, told.highest_seq) == (10, 10, 10)
    assert [(c.era, c.opened, c.covered) for c in taking.sequences] == [(0, [], [(5001, 5001)])]
    live = engine(after, history=History())
    live.decide(message(telemetry(sample(3), seq=11), at=LATER, topic=TELEMETRY_TOPIC))
    assert (last_line(live).outcome, live.state_after(8).span(THIS_ERA)) == ("accepted", (10, 11))
    assert not live.sequences


def test_a_number_is_looked_up_in_the_era_in_which_its_batch_came() -> None:
    state = _state_in_a_new_era()
    then, now = _known(telemetry(sample(0), seq=7)), _known(telemetry(sample(0), seq=7), at=LATER)
    released = then._replace(drain_id=9)

    def ruling(known: KnownBatch, at: int) -> str:
        line = last_line(_replayed(state, 7, known, at=at))
        return line.code or line.outcome

    assert [ruling(known, NOW) for known in (then, released)] == ["duplicate_batch_seq"] * 2
    assert ruling(now._replace(drain_id=6), LATER) == "duplicate_batch_seq"
    assert [ruling(known, LATER) for known in (then, released)] == ["accepted"] * 2
    assert ruling(now._replace(drain_id=6), NOW) == "accepted"


def test_what_is_replayed_of_an_earlier_era_asks_whether_its_number_was_ever_taken() -> None:
    taking = engine(_state_in_a_new_era(), origin=Origin.REJECTION)

    sampled(telemetry(sample(9), seq=5001, number=9999), engine=taking)

    (need,) = taking.decisions.needs
    assert isinstance(need, TelemetryNeed)
    assert (need.batch_id, need.batch_seq, need.after_drain) == (None, 5001, 0)


def test_what_is_timed_anew_is_of_the_era_and_the_window_in_which_it_came() -> None:
    """Older builds timed telemetry anew when its corrected bytes were longer."""
    taking = engine(_state_in_a_new_era(), history=History(), origin=Origin.REJECTION)
    anew = message(
        telemetry(sample(2), seq=5001, number=99),
        at=LATER + 35 * MICROSECONDS_PER_DAY,
        topic=TELEMETRY_TOPIC,
    )
    taking.decide(replace(anew, timed_anew=True, arrived_at=NOW))

    (accepted,) = taking.decisions.outcomes.samples
    assert [points.values for points in accepted.points] == [[21.5]]
    assert taking.decisions.out_of_window == 0
    assert [change.era for change in taking.decisions.close_sequences()] == [0]
    assert taking.decisions.state.telemetry(TABLE).batch_seq == 10


def test_each_of_several_eras_has_its_own_numbers() -> None:
    state = _state_in_a_new_era()
    state.begin_era(TABLE, 6)
    first = _known(telemetry(sample(0), seq=7))

    assert last_line(_replayed(state, 7, first)).code == "duplicate_batch_seq"
    assert last_line(_replayed(state, 7, first, at=LATER)).outcome == "accepted"


def test_what_continues_its_lineage_needs_no_history() -> None:
    state = _state_after(telemetry(sample(0), seq=5))

    met = sampled(telemetry(sample(1), seq=6), telemetry(sample(2), seq=7), engine=engine(state))

    assert not met.decisions.needs
    assert state.lineages[TABLE].telemetry.batch_seq == 7


def test_an_id_below_the_highest_is_looked_up_where_it_may_lie() -> None:
    met = sampled(telemetry(sample(0), seq=1))
    later = sampled(telemetry(sample(1), seq=5), engine=engine(met.state_after(3)))
    state = later.state_after(9)

    taking = sampled(telemetry(sample(2), seq=6, number=4), engine=engine(state))

    (need,) = taking.decisions.needs
    assert isinstance(need, TelemetryNeed)
    assert (need.batch_id, need.batch_seq, need.after_drain, need.moments) == (
        ID.format(4),
        None,
        8,
        [],
    )


def test_moments_up_to_the_latest_are_looked_up_and_those_of_no_window_are_not() -> None:
    state = _state_after(telemetry(sample(0), seq=1))

    rows = sample(-5), sample(0), sample(5), sample(-400 * DAY)
    taking = sampled(telemetry(*rows, seq=2), engine=engine(state))

    (need,) = taking.decisions.needs
    assert isinstance(need, TelemetryNeed)
    assert (need.batch_id, need.moments) == (None, [NOW - 5_000_000, NOW])


def test_a_batch_out_of_turn_asks_for_no_moments() -> None:
    state = _state_after(telemetry(sample(0), seq=5))

    taking = sampled(telemetry(sample(0), seq=3, number=99), engine=engine(state))

    assert not taking.decisions.needs
    assert last_line(taking).code == "stale_batch_seq"


def test_a_first_batch_whose_bytes_are_gone_is_told_by_their_hash() -> None:
    first = telemetry(sample(0))
    history = History.of(batches=[_known(first, kept=False)])

    met = sampled(
        telemetry(sample(9), number=0), engine=engine(_state_after(first), history=history)
    )

    (conflict,) = met.decisions.conflicts
    assert conflict.first == "payload sha256:hash of the first"


def test_a_moment_has_one_value_and_another_one_is_a_conflict() -> None:
    met = sampled(
        telemetry(sample(0, celsius=1), sample(0, celsius=1.0), sample(0, celsius=2)),
        telemetry(sample(0, celsius=1, mode="on"), sample(0, celsius=3), seq=1),
    )

    told = [p for s in met.decisions.outcomes.samples for p in s.points]
    assert [(points.key, [*points.rows], points.values) for points in told] == [
        (f"{TABLE}.celsius", [0], [1.0]),
        (f"{TABLE}.mode", [0], ["on"]),
    ]
    assert [(c.kind, c.first, c.other) for c in met.decisions.conflicts] == [
        ("datapoint", "1.0", "2.0"),
        ("datapoint", "1.0", "3.0"),
    ]
    assert counts(last_line(met)) == {"received": 2, "new": 2}


def test_a_stored_moment_keeps_its_value() -> None:
    key = PointKey("metric_datapoint", f"{TABLE}.celsius", NOW)
    history = History.of(points=[StoredPoint(key, None)])
    state = _state_after(telemetry(sample(0), seq=1))

    met = sampled(telemetry(sample(0, celsius=1), seq=2), engine=engine(state, history=history))

    assert not met.decisions.outcomes.samples[-1].points
    assert [(c.first, c.other) for c in met.decisions.conflicts] == [("null", "1.0")]


@pytest.mark.parametrize(
    ("seconds", "metrics", "states"),
    [
        (0, 1, 1),
        (DAY, 1, 1),
        (DAY + 0.000001, 0, 0),
        (-30 * DAY, 1, 1),
        (-30 * DAY - 0.000001, 0, 1),
        (-365 * DAY, 0, 1),
        (-365 * DAY - 0.000001, 0, 0),
    ],
)
def test_a_moment_out_of_its_window_gives_no_datapoint(
    seconds: float, metrics: int, states: int
) -> None:
    met = sampled(telemetry(sample(seconds, celsius=1, mode="on")))

    (samples,) = met.decisions.outcomes.samples
    assert [points.kind for points in samples.points] == ["metric"] * metrics + ["state"] * states
    assert met.decisions.out_of_window == 2 - metrics - states


def test_a_clock_ahead_does_not_make_later_moments_known_ones() -> None:
    state = _state_after(telemetry(sample(40 * 365 * DAY), seq=1))

    met = sampled(telemetry(sample(0), seq=2), engine=engine(state))

    assert not met.decisions.needs
    assert met.decisions.outcomes.samples


def test_affinities_decide_the_kind_and_misfits_are_set_apart() -> None:
    schema = columns(celsius="REAL")
    met = sampled(telemetry(sample(0, celsius="hot", other=1), sample(1, celsius=2), schema=schema))

    (samples,) = met.decisions.outcomes.samples
    assert [(p.table, p.values) for p in samples.points] == [
        ("metric_datapoint", [2.0]),
        ("quarantined_datapoints", ['"hot"']),
    ]


def test_the_highest_moment_is_current_whatever_came_last() -> None:
    met = sampled(
        telemetry(sample(5, celsius=5), sample(9, celsius=9), sample(7, celsius=7)),
        telemetry(sample(8, celsius=8), seq=1),
    )

    value = met.current[f"{TABLE}.celsius"][""]
    assert (value.value, value.ts, value.source) == (9.0, NOW + 9_000_000, "edge.telemetry")


def test_a_row_and_telemetry_of_one_key_compete_by_moment() -> None:
    row = batch(change(1, pk=None, row={"celsius": 1.0}))

    def current(second: float) -> CurrentValue:
        met = decided([row], engine())
        return sampled(telemetry(sample(second)), engine=met).current[f"{TABLE}.celsius"][""]

    assert [current(s).source for s in (-1, 1)] == ["edge.rows", "edge.telemetry"]


def test_at_one_moment_a_number_is_current_before_a_text() -> None:
    met = sampled(telemetry(sample(0, v="a"), sample(0, v=1)), telemetry(sample(0, v="b"), seq=1))

    assert met.current[f"{TABLE}.v"][""].value == 1.0
