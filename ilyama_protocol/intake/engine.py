"""The intake engine: the messages of one device, in arrival order, become decisions.

It is pure: (state before the drain, messages, looked-up history) → (outcomes, state after). Live
traffic, replays and tests all run this code; it knows no clock, no files and no Spark.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

import msgspec

from ilyama_protocol.intake.decisions import Decisions
from ilyama_protocol.intake.digests import Digests
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.outcomes import (
    Arrival,
    CurrentValues,
    DecidedRows,
    DecidedSamples,
    Message,
    Origin,
    Outcome,
    StagedMessage,
    join_current,
)
from ilyama_protocol.intake.row_intake import RowIntake
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.sequences import SequenceChange
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.intake.telemetry_intake import TelemetryIntake
from ilyama_protocol.limits import DEFAULT_LIMITS, Limits
from ilyama_protocol.messages import (
    Acknowledgement,
    IngestRequest,
    Observation,
    RowBatch,
    TelemetryBatch,
)
from ilyama_protocol.names import UNKNOWN_FIRMWARE, told_firmware
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_protocol.validation import Verdict, validate


class Device(msgspec.Struct, frozen=True):
    """What the registry says of the sender of a message; `device_id` None: not registered."""

    device_id: str | None
    firmware_version: str = UNKNOWN_FIRMWARE


class IntakeEngine:
    """Decides the messages of one device, one after another.

    Everything it decided is in `decisions`; every kind of batch has an intake of its own.
    """

    def __init__(
        self,
        device: Device,
        state: DeviceState,
        *,
        history: History | None = None,
        limits: Limits = DEFAULT_LIMITS,
        origin: Origin = Origin.LIVE,
        rulings: SchemaRulings | None = None,
        inspect: Callable[[Message], None] | None = None,
    ) -> None:
        self.decisions = Decisions(state, history, origin, rulings=rulings)
        self._device = device
        self._firmware = device.firmware_version
        self._limits = limits
        self._inspect = inspect
        self._rows = RowIntake(self.decisions, device.device_id)
        self._telemetry = TelemetryIntake(self.decisions, device.device_id, limits)
        self._digests = Digests()
        self.sequences: list[SequenceChange] = []

    def decide(self, message: Message) -> None:
        """Decide the next message of the device.

        When history is needed and was not given, only `decisions.needs` is of use afterwards.
        """
        arrival = self._arrive(message)
        try:
            self._decide(arrival)
        except Exception:
            self._stage(arrival, traceback.format_exc())

    def stage(self, message: Message, error: str) -> None:
        """Set the next message aside undecided: the way out for a device that breaks the engine."""
        self._stage(self._arrive(message), error)

    def release(self, decided: DecidedRows | DecidedSamples) -> None:
        """Materialize rows that were staged, as they were decided then."""
        try:
            if isinstance(decided, DecidedRows):
                self._rows.release(decided)
            else:
                self._telemetry.release(decided)
        except Exception:
            self.keep_staged(decided, traceback.format_exc())

    def keep_staged(self, decided: DecidedRows | DecidedSamples, error: str) -> None:
        """Set rows aside again that cannot be released."""
        if isinstance(decided, DecidedRows):
            self._rows.keep_staged(decided, error)
        else:
            self._telemetry.keep_staged(decided, error)

    def state_after(self, drain_id: int) -> DeviceState:
        """The state to begin the next drain with; with that, gaps are told too."""
        self.sequences = self.decisions.close_sequences()
        self.decisions.state.mark(drain_id, self.decisions.before)
        return self.decisions.state

    @property
    def current(self) -> CurrentValues:
        """The newest values among all that was decided."""
        current = self._rows.current
        join_current(current, self._telemetry.current)
        return current

    def _stage(self, arrival: Arrival, error: str) -> None:
        table, batch_id, rows = self._described(arrival)
        staged = StagedMessage(arrival, StagingReason.ENGINE_ERROR, error, table)
        self.decisions.stage_message(staged, rows=rows)
        self.decisions.account(
            arrival,
            Outcome.STAGED,
            source_table=table,
            batch_id=batch_id,
            rows_received=rows,
            rows_staged=rows,
        )

    @property
    def learnt_firmware(self) -> str | None:
        """What the device said of its firmware last, None when that was known already."""
        return None if self._firmware == self._device.firmware_version else self._firmware

    def _firmware_of(self, message: Message) -> str:
        """The firmware of a message's sender; what it says now counts for what comes after, too."""
        told = told_firmware(message.user_properties)
        if told is not None and self.decisions.origin is Origin.LIVE:
            self._firmware = told
        return self._firmware if told is None else told

    def _arrive(self, message: Message) -> Arrival:
        arrival = Arrival(
            message,
            parse_topic(message.topic),
            self._device.device_id,
            self._received_at(message),
            self._digests.of(message.payload),
            self._firmware_of(message),
        )
        self.decisions.outcomes.arrivals.append(arrival)
        return arrival

    def _received_at(self, message: Message) -> int:
        """The message's place on the device's clock; one that is replayed has its own already."""
        is_live = self.decisions.origin is Origin.LIVE
        if self._device.device_id is None or not (is_live or message.timed_anew):
            return message.landed_at
        return self.decisions.state.receive(message.landed_at, len(message.payload))

    def _decide(self, arrival: Arrival) -> None:
        if self._inspect is not None:
            self._inspect(arrival.message)
        kind = arrival.address.kind
        if kind is MessageKind.DEVICE:
            self.decisions.account(arrival, Outcome.KEPT)
        elif not self._repeats(arrival):
            self._follow(arrival, self._validated(arrival))

    def _repeats(self, arrival: Arrival) -> bool:
        """Whether the message is known byte for byte, and decided with that."""
        kind = arrival.address.kind
        if kind is MessageKind.ROWS:
            return self._rows.repeats(arrival)
        return kind is MessageKind.TELEMETRY and self._telemetry.repeats(arrival)

    def _validated(self, arrival: Arrival) -> Verdict:
        return validate(
            arrival.address.kind,
            arrival.message.payload,
            registered=arrival.device_id is not None,
            limits=self._limits,
            topic=arrival.message.topic,
        )

    def _described(self, arrival: Arrival) -> tuple[str | None, str | None, int]:
        """What can be said of a message that is set aside: its table, batch id and rows."""
        try:
            verdict = self._validated(arrival)
        except Exception:
            return None, None, 0
        match verdict:
            case Rejection():
                return verdict.source_table, verdict.batch_id, verdict.row_count
            case RowBatch():
                return verdict.source_table, verdict.batch_id, len(verdict.op)
            case TelemetryBatch():
                return verdict.source_table, verdict.batch_id, len(verdict.ts_us)
            case _:
                return None, None, 0

    def _follow(self, arrival: Arrival, verdict: Verdict) -> None:
        match verdict:
            case Rejection():
                self.decisions.reject(arrival, verdict)
            case RowBatch():
                self._rows.take(arrival, verdict)
            case TelemetryBatch():
                self._telemetry.take(arrival, verdict)
            case Observation():
                self.decisions.observe(arrival, verdict)
            case Acknowledgement():
                self.decisions.account(arrival, Outcome.HANDLED)
            case IngestRequest():
                table = verdict.source_table
                self.decisions.account(arrival, Outcome.HANDLED, source_table=table)
