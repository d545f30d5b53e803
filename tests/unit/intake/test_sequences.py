"""Sequences: gaps open where numbers are skipped, and close when these come after all."""

import json
import random
from typing import Any

import numpy as np
import pytest

from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.sequences import (
    MOST_OPENED,
    Island,
    Numbering,
    SequenceKind,
    changed,
    islands_of,
    size_of,
    without,
)
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    A,
    batch,
    change,
    decided,
    engine,
    message,
    sample,
    sampled,
    taken,
    telemetry,
)

JOURNAL = Numbering(SequenceKind.ROWS, A)


def taken_by(taking: IntakeEngine, *payloads: bytes) -> IntakeEngine:
    """The engine after it took payloads and closed its second drain."""
    decided(payloads, taking).state_after(2)
    return taking


def altered(payload: bytes, members: dict[str, Any]) -> bytes:
    """A payload with other members at the top."""
    return json.dumps(json.loads(payload) | members).encode()


@pytest.mark.parametrize("seed", range(20))
def test_gaps_equal_brute_force_however_numbers_come(seed: int) -> None:
    chance = random.Random(seed)
    numbers = chance.sample(range(100), 40)
    came = {*numbers}
    span: Island | None = None
    gaps: list[Island] = []
    while numbers:
        some, numbers = numbers[: (cut := chance.randint(1, 9))], numbers[cut:]
        span, told = changed(JOURNAL, islands_of(np.array(some)), span, at=0)
        if told is not None:
            left = [part for gap in gaps for part in without(gap, told.covered)]
            gaps = sorted([*left, *told.opened])
    missing = [n for n in range(min(came), max(came)) if n not in came]
    assert span == (min(came), max(came))
    assert [n for first, last in gaps for n in range(first, last + 1)] == missing
    assert all(gap[0] - 1 in came for gap in gaps)


def test_of_very_many_gaps_in_a_journal_the_widest_are_told() -> None:
    islands = [(n * 10, n * 10 + n % 3) for n in range(MOST_OPENED + 50)]

    _, told = changed(JOURNAL, islands, None, at=0)
    _, exact = changed(Numbering(SequenceKind.TELEMETRY, "t"), islands, None, at=0)

    assert told is not None
    assert exact is not None
    assert len(told.opened) == MOST_OPENED
    assert (len(exact.opened), exact.unlisted) == (MOST_OPENED + 49, 0)
    assert sum(map(size_of, told.opened)) + told.unlisted == sum(map(size_of, exact.opened))


def test_a_journal_is_one_sequence_over_all_tables() -> None:
    met = taken(batch(change(1), change(4)), batch(change(2), table="another"))

    met.state_after(1)

    (told,) = met.sequences
    assert (told.kind, told.name, told.opened, told.covered) == ("rows", A, [(3, 3)], [])


def test_numbers_that_come_after_all_close_gaps_of_earlier_drains() -> None:
    first = taken(batch(change(1), change(9)))
    later = engine(first.state_after(1))

    assert [told.opened for told in first.sequences] == [[(2, 8)]]
    later = taken_by(later, batch(change(3), table="another"))
    assert [(told.opened, told.covered) for told in later.sequences] == [([], [(3, 3)])]


def test_a_continued_sequence_has_nothing_to_tell() -> None:
    first = taken(batch(change(1), change(2)))
    later = engine(first.state_after(1))

    assert taken_by(later, batch(change(3), change(4))).sequences == []


def test_a_replayed_rejection_closes_the_gap_of_its_telemetry() -> None:
    first = sampled(telemetry(sample(0), seq=3), telemetry(sample(1), seq=5))
    later = engine(first.state_after(1), origin=Origin.REJECTION, history=first.decisions.history)

    sampled(telemetry(sample(2), seq=4, number=99), engine=later)
    later.state_after(2)

    assert [told.opened for told in first.sequences] == [[(4, 4)]]
    assert [told.covered for told in later.sequences] == [[(4, 4)]]


def test_a_rejected_batch_is_of_the_era_in_which_it_first_came() -> None:
    state = sampled(telemetry(sample(0), seq=3)).state_after(1)
    state.begin_era(TABLE, 1)
    wrong = telemetry(sample(1), seq=4, row_count=7)
    later = NOW + 60_000_000

    eras = []
    for origin, at in ((Origin.LIVE, later), (Origin.REJECTION, later), (Origin.REJECTION, NOW)):
        taking = engine(state.copy(), origin=origin)
        taking.decide(message(wrong, at=at, topic=TELEMETRY_TOPIC))
        eras += [era for _, era in taking.decisions.refused]

    assert eras == [1, 1, 0]


def test_a_rejected_batch_is_remembered_by_its_numbers() -> None:
    met = sampled(telemetry(sample(0), seq=4, row_count=7), telemetry(sample(1), seq=5))

    ((refused, _),) = met.decisions.refused
    assert (refused.rejection.code, refused.rejection.numbers) == ("row_count_mismatch", (4, 4))


@pytest.mark.parametrize(
    "fault",
    [
        {"org_id": 7},
        {"format_version": "1"},
        {"format_version": 2},
        {"capture_strategy": "none"},
        {"batch_id": "4"},
        {"schema_hash": "none"},
        {"rows": None},
    ],
    ids=str,
)
def test_numbers_are_remembered_whatever_else_is_wrong_with_a_batch(fault: dict[str, Any]) -> None:
    met = sampled(telemetry(sample(0), seq=4, **fault), telemetry(sample(1), seq=5))
    rows = taken_by(engine(), altered(batch(change(6), change(8)), fault))

    assert [refused.rejection.numbers for refused, _ in met.decisions.refused] == [(4, 4)]
    ((refused, _),) = rows.decisions.refused
    assert (refused.rejection.journal_epoch, refused.rejection.numbers) == (A, (6, 8))


@pytest.mark.parametrize(
    "fault",
    [
        {"source_table": "", "journal_epoch": None},
        {"batch_seq": -1, "journal_epoch": "none"},
        {"batch_seq": 4.0, "first_commit_seq": None},
        {"batch_seq": True, "last_commit_seq": "8"},
    ],
    ids=str,
)
def test_what_is_no_legal_number_explains_nothing(fault: dict[str, Any]) -> None:
    met = sampled(telemetry(sample(0), seq=4, **fault))
    rows = taken_by(engine(), altered(batch(change(6), change(8)), fault))

    assert met.decisions.refused == rows.decisions.refused == []
