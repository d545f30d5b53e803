"""Ratios 3 and 14: what a byte-identical batch costs the engine, against its first ingestion."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.correctness import device_of, told_by_oracle
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench
from benchmarks.workloads import Fleet, SampledFleet
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import History, KnownBatch, KnownPayload
from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.intake.state import DeviceState
from tests.oracle import Event

ASKED = 2
"""So many batches are put to the oracle, which is slow; the others are like them."""


def measure(bench: Workbench) -> Measured:
    """Time the second arrival of row batches against their first, in one drain."""
    scale = bench.scale
    events = Fleet(3, devices=1).batches(scale.replayed_batches, rows=scale.decoded_rows)
    return _measured(events, bench)


def measure_telemetry(bench: Workbench) -> Measured:
    """Time the second arrival of telemetry batches against their first."""
    scale = bench.scale
    events = SampledFleet(14, devices=1).batches(scale.replayed_batches, rows=scale.decoded_rows)
    return _measured(events, bench)


def _measured(events: Sequence[Event], bench: Workbench) -> Measured:
    scale = bench.scale
    _assert_right(events)
    first, again = _first(events), _again(events)
    measured = interleaved(again, first, rounds=scale.pure_rounds, clock=time.process_time)
    later = interleaved(_later(events), first, rounds=3, clock=time.process_time)
    return measured.with_figures(
        Figure("in a later drain, both passes of the engine ÷ first ingestion", later.ratio, "")
    )


def _first(events: Sequence[Event]) -> Preparation:
    def prepare(_: int) -> Work:
        messages = _messages(events)
        return lambda: _decided(_engine(events), messages)

    return prepare


def _again(events: Sequence[Event]) -> Preparation:
    def prepare(_: int) -> Work:
        engine, messages = _decided(_engine(events), _messages(events)), _messages(events)
        return lambda: _decided(engine, messages)

    return prepare


def _later(events: Sequence[Event]) -> Preparation:
    """The next drain: it first finds out what it must know, and is then told."""
    before = _decided(_engine(events), _messages(events))
    told = History.of(payloads=_known(before), batches=_known_batches(before))

    def prepare(_: int) -> Work:
        messages = _messages(events)

        def both_passes() -> None:
            asking = _decided(_engine(events, before.decisions.state.copy()), messages)
            assert asking.decisions.needs
            _decided(_engine(events, before.decisions.state.copy(), told), messages)

        return both_passes

    return prepare


def _engine(
    events: Sequence[Event], state: DeviceState | None = None, history: History | None = None
) -> IntakeEngine:
    return IntakeEngine(Device(device_of(events[0])), state or DeviceState(), history=history)


def _messages(events: Sequence[Event]) -> list[Message]:
    """The messages as a task reads them: equal bytes lie at another address."""
    return [
        Message("segment", place, e.topic, bytes(memoryview(e.payload)), e.received_at_us)
        for place, e in enumerate(events)
    ]


def _decided(engine: IntakeEngine, messages: Sequence[Message]) -> IntakeEngine:
    for message in messages:
        engine.decide(message)
    return engine


def _known(engine: IntakeEngine) -> list[KnownPayload]:
    return [
        KnownPayload(
            line.arrival.payload_sha256,
            line.source_table or "",
            line.batch_id or "",
            line.rows_received,
        )
        for line in engine.decisions.outcomes.ledger
    ]


def _known_batches(engine: IntakeEngine) -> list[KnownBatch]:
    return [
        KnownBatch(
            line.batch_id or "",
            line.source_table or "",
            line.batch_seq,
            line.arrival.payload_sha256,
            line.rows_received,
            1,
            line.arrival.message.segment_id,
            line.arrival.message.position,
            line.arrival.received_at,
        )
        for line in engine.decisions.outcomes.ledger
        if line.batch_seq is not None
    ]


def _assert_right(events: Sequence[Event]) -> None:
    engine = _decided(_decided(_engine(events), _messages(events)), _messages(events))
    found = [
        (line.outcome, line.rows_new, line.rows_duplicate)
        for line in engine.decisions.outcomes.ledger
    ]
    lines = told_by_oracle([*events[:ASKED], *events[:ASKED]]).tables()["batch_ledger"]
    told = [(line["outcome"], line["rows_new"], line["rows_duplicate"]) for line in lines]
    for arrivals, asked in (
        (found[: len(events)], told[:ASKED]),
        (found[len(events) :], told[ASKED:]),
    ):
        assert arrivals[:ASKED] == asked
        assert {*arrivals} == {*asked}
