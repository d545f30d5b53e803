"""Telemetry batches: known ones are told from new ones, and rows become datapoints."""

from __future__ import annotations

from ilyama_protocol.intake.conflicts import Conflict, batch_conflict
from ilyama_protocol.intake.decisions import REPLAYS, Decisions
from ilyama_protocol.intake.field_series import FieldSeries
from ilyama_protocol.intake.history import KnownBatch, TelemetryNeed
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.newest_samples import NewestSamples
from ilyama_protocol.intake.outcomes import (
    AcceptedSamples,
    Arrival,
    CurrentValues,
    DecidedSamples,
    Outcome,
    StagedSamples,
)
from ilyama_protocol.intake.sampled_points import NewPoints, SampledPoints
from ilyama_protocol.intake.schema_intake import Judged
from ilyama_protocol.intake.sequences import Numbering, SequenceKind
from ilyama_protocol.intake.shared_keys import SharedKeys
from ilyama_protocol.intake.state import NO_TS, TelemetryState
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import TelemetryBatch, telemetry_content
from ilyama_protocol.rejections import Rejection, RejectionCode


class TelemetryIntake:
    """Decides the telemetry batches of one device, one after another."""

    def __init__(self, decisions: Decisions, device_id: str | None, limits: Limits) -> None:
        self._decisions = decisions
        self._points = SampledPoints(limits, decisions.history.points)
        self._series = FieldSeries(device_id or "")
        self._newest = NewestSamples(self._series)
        self._batches: dict[str, KnownBatch] = {}
        self._payloads: dict[str, KnownBatch] = {}
        self._numbers: set[tuple[str, int, int]] = set()
        self._shared: dict[str, list[TelemetryState]] = {}
        self._shared_keys: SharedKeys | None = None
        for known in decisions.history.batches:
            self._know(known)

    @property
    def current(self) -> CurrentValues:
        """The newest values among all rows that were accepted."""
        return self._newest.values()

    def repeats(self, arrival: Arrival) -> bool:
        """Whether these very bytes were taken before; then the message is decided with that."""
        known = self._payloads.get(arrival.payload_sha256)
        if known is not None:
            self._account_duplicate(arrival, known)
        return known is not None

    def take(self, arrival: Arrival, batch: TelemetryBatch) -> None:
        """Decide a valid batch, or say what must be looked up before that."""
        decisions = self._decisions
        need = None if decisions.is_told else self._need(arrival, batch)
        if need is not None:
            decisions.needs.append(need)
        if decisions.needs:
            return
        first = self._batches.get(batch.batch_id)
        if first is not None:
            self._take_again(arrival, batch, first)
            return
        rejection = self._out_of_sequence(arrival, batch)
        if rejection is not None:
            decisions.reject(arrival, rejection)
            return
        judged = decisions.schemas.judge_telemetry(arrival, batch)
        if (reason := judged.ruled.staged_for) is not None:
            self._remember(arrival, batch, judged)
            self._set_aside(arrival, batch, reason)
            return
        found = self._accepted(arrival, batch, judged)
        self._remember(arrival, batch, judged)
        self._settle(*found)

    def release(self, decided: DecidedSamples) -> None:
        """Materialize a batch that was staged, or say what must be looked up before that.

        Its values meet those of earlier batches only now; batches do not overtake each other.
        """
        arrival, batch, decisions = decided.arrival, decided.batch, self._decisions
        moments = [] if decisions.is_told else self._known_moments(arrival, batch)
        if moments:
            decisions.needs.append(self._moments_need(batch, moments))
        if decisions.needs:
            return
        judged = decisions.schemas.judge_released(batch, received_at=arrival.received_at)
        self._settle(*self._accepted(arrival, batch, judged))

    def keep_staged(self, decided: DecidedSamples, error: str) -> None:
        """Set a batch aside again that could not be released."""
        reason = StagingReason.MATERIALIZATION_FAILED
        self._set_aside(decided.arrival, decided.batch, reason, error)

    def _need(self, arrival: Arrival, batch: TelemetryBatch) -> TelemetryNeed | None:
        """What earlier drains may hold of the batch, None when they can hold nothing."""
        before = self._decisions.before
        lineage = before.telemetry(batch.source_table)
        replayed = self._decisions.origin in REPLAYS
        is_older = self._era(arrival, batch) < lineage.era
        continues = batch.batch_seq > lineage.batch_seq and not is_older
        after: list[int] = []
        if asks_id := batch.batch_id <= before.batch_id:
            after.append(before.batches_after(batch.batch_id))
        if asks_number := replayed and not continues:
            after.append(0 if is_older else lineage.era_after)
        goes_on = not self._decisions.rulings.holds_telemetry(batch.source_table)
        taken = goes_on and (continues or replayed)
        moments = self._known_moments(arrival, batch) if taken else []
        if not after and not moments:
            return None
        return TelemetryNeed(
            arrival.payload_sha256,
            batch.source_table,
            batch.batch_id if asks_id else None,
            batch.batch_seq if asks_number else None,
            min(after, default=0),
            moments,
            self._stored_after(batch.source_table, moments[0]) if moments else 0,
        )

    def _moments_need(self, batch: TelemetryBatch, moments: list[int]) -> TelemetryNeed:
        stored_after = self._stored_after(batch.source_table, moments[0])
        return TelemetryNeed("", batch.source_table, None, None, 0, moments, stored_after)

    def _known_moments(self, arrival: Arrival, batch: TelemetryBatch) -> list[int]:
        """The moments of which earlier drains may have stored datapoints, in order."""
        latest = self._latest_before(batch.source_table)
        if batch.cursor_start_us > latest:
            return []
        first = self._points.earliest(arrival.came_at)
        return sorted({ts for ts in batch.ts_us if first <= ts <= latest})

    def _latest_before(self, source_table: str) -> int:
        """The latest moment of which earlier drains may hold datapoints under a table's keys."""
        return max(sampled.max_ts for sampled in self._sharers(source_table))

    def _stored_after(self, source_table: str, ts: int) -> int:
        """The last drain of those that surely stored nothing of a moment under a table's keys."""
        return min(sampled.stored_after(ts) for sampled in self._sharers(source_table))

    def _sharers(self, source_table: str) -> list[TelemetryState]:
        """A table as it was before the drain, and those that may give datapoints of its keys."""
        found = self._shared.get(source_table)
        if found is None:
            before = self._decisions.before
            others = self._tables_with_datapoints().sharers(source_table)
            tables = (source_table, *others)
            found = self._shared[source_table] = [*map(before.telemetry, tables)]
        return found

    def _tables_with_datapoints(self) -> SharedKeys:
        """The tables that may have given datapoints before the drain, by the keys they name."""
        if self._shared_keys is None:
            lineages, named = self._decisions.before.lineages, self._decisions.rulings.named_keys
            given = [t for t, lineage in lineages.items() if lineage.telemetry.max_ts > NO_TS]
            self._shared_keys = SharedKeys(given, lambda t: named(t, lineages.get(t)))
        return self._shared_keys

    def _era(self, arrival: Arrival, batch: TelemetryBatch) -> int:
        return self._decisions.era_of(arrival, batch.source_table)

    def _out_of_sequence(self, arrival: Arrival, batch: TelemetryBatch) -> Rejection | None:
        """Why the number of a batch cannot follow, None when it can.

        A replayed rejection may fill a gap that it left itself.
        """
        lineage = self._decisions.state.telemetry(batch.source_table)
        highest, era = lineage.batch_seq, self._era(arrival, batch)
        if batch.batch_seq > highest and era == lineage.era:
            return None
        if self._decisions.origin in REPLAYS:
            taken = (batch.source_table, batch.batch_seq, era) in self._numbers
            return _refused(batch, RejectionCode.DUPLICATE_BATCH_SEQ) if taken else None
        equal = batch.batch_seq == highest
        code = RejectionCode.DUPLICATE_BATCH_SEQ if equal else RejectionCode.STALE_BATCH_SEQ
        return _refused(batch, code, highest=highest)

    def _accepted(
        self, arrival: Arrival, batch: TelemetryBatch, judged: Judged
    ) -> tuple[AcceptedSamples, NewPoints]:
        new = self._points.new(
            batch,
            came_at=arrival.came_at,
            affinities=judged.affinities,
            binding=judged.ruled.binding,
            latest=max(
                self._decisions.state.telemetry(batch.source_table).max_ts,
                self._latest_before(batch.source_table),
            ),
        )
        kept = batch.without_contents()
        return AcceptedSamples(arrival, kept, self._series, new.points), new

    def _remember(self, arrival: Arrival, batch: TelemetryBatch, judged: Judged) -> None:
        """Make the decision part of the state; from here on nothing can fail."""
        state = self._decisions.state
        self._decisions.schemas.settle(arrival, batch, judged)
        lineage = state.lineage(batch.source_table).telemetry
        era = self._era(arrival, batch)
        if era == lineage.era:
            lineage.batch_seq = max(lineage.batch_seq, batch.batch_seq)
        numbering = Numbering(SequenceKind.TELEMETRY, batch.source_table, era)
        self._decisions.number(arrival, numbering, [(batch.batch_seq, batch.batch_seq)])
        state.batch_id = max(state.batch_id, batch.batch_id)
        self._know(_known(arrival, batch))

    def _set_aside(
        self,
        arrival: Arrival,
        batch: TelemetryBatch,
        reason: StagingReason,
        error: str | None = None,
    ) -> None:
        samples = AcceptedSamples(arrival, batch.without_contents(), self._series, [])
        self._decisions.stage_samples(StagedSamples(samples, reason, error))
        rows = len(batch.ts_us)
        self._decisions.account(
            arrival,
            Outcome.STAGED,
            source_table=batch.source_table,
            batch_id=batch.batch_id,
            batch_seq=batch.batch_seq,
            code=reason.value,
            rows_received=rows,
            rows_staged=rows,
        )

    def _settle(self, accepted: AcceptedSamples, new: NewPoints) -> None:
        """Write down the rows of a batch and what they say."""
        arrival, batch, decisions = accepted.arrival, accepted.batch, self._decisions
        lineage = decisions.state.lineage(batch.source_table).telemetry
        lineage.max_ts = max(lineage.max_ts, self._points.latest(batch, arrival.came_at))
        self._points.note(batch, new.points)
        decisions.outcomes.accept_samples(accepted)
        decisions.name_keys(accepted.points)
        self._newest.advance(accepted)
        decisions.list_conflicts(arrival, new.conflicts)
        decisions.out_of_window += new.out_of_window
        rows = len(batch.ts_us)
        decisions.account(
            arrival,
            Outcome.ACCEPTED,
            source_table=batch.source_table,
            batch_id=batch.batch_id,
            batch_seq=batch.batch_seq,
            rows_received=rows,
            rows_new=rows,
        )

    def _take_again(self, arrival: Arrival, batch: TelemetryBatch, first: KnownBatch) -> None:
        """A batch under a known id adds nothing; other content under it is listed."""
        decisions = self._decisions
        decisions.schemas.learn(arrival, batch)
        known = _known(arrival, batch)
        conflict = _conflict(first, known)
        if conflict is None:
            self._payloads.setdefault(arrival.payload_sha256, known)
        else:
            decisions.list_conflicts(arrival, [conflict])
        self._account_duplicate(arrival, known, conflict=conflict)

    def _account_duplicate(
        self, arrival: Arrival, known: KnownBatch, *, conflict: Conflict | None = None
    ) -> None:
        self._decisions.account(
            arrival,
            Outcome.DUPLICATE,
            source_table=known.source_table,
            batch_id=known.batch_id,
            batch_seq=known.batch_seq,
            rows_received=known.rows,
            rows_duplicate=known.rows,
            rows_conflict=0 if conflict is None else known.rows,
        )

    def _know(self, known: KnownBatch) -> None:
        self._batches.setdefault(known.batch_id, known)
        self._payloads.setdefault(known.payload_sha256, known)
        lineage = self._decisions.state.telemetry(known.source_table)
        era = lineage.era_of(known.received_at)
        if known.drain_id <= lineage.era_after:
            era = min(era, lineage.era - 1)
        self._numbers.add((known.source_table, known.batch_seq, era))


def _known(arrival: Arrival, batch: TelemetryBatch) -> KnownBatch:
    message = arrival.message
    return KnownBatch(
        batch.batch_id,
        batch.source_table,
        batch.batch_seq,
        arrival.payload_sha256,
        len(batch.ts_us),
        _THIS_DRAIN,
        message.segment_id,
        message.position,
        arrival.came_at,
        message.payload,
    )


_THIS_DRAIN = 2**63 - 1
"""Stands for the drain that is being decided: it comes after all others."""


def _conflict(first: KnownBatch, other: KnownBatch) -> Conflict | None:
    """The conflict between two batches under one id, None when they only are spelled differently.

    Of a first one whose bytes are no longer kept, only the hash of its bytes can be told.
    """
    theirs = telemetry_content(other.payload or b"")
    if first.payload is None:
        ours = f"payload sha256:{first.payload_sha256}"
    else:
        ours = telemetry_content(first.payload)
    if ours == theirs:
        return None
    return batch_conflict(first.source_table, first.batch_id, first=ours, other=theirs)


def _refused(
    batch: TelemetryBatch, code: RejectionCode, *, highest: int | None = None
) -> Rejection:
    known = "was accepted before" if highest is None else f"does not follow {highest}"
    return Rejection(
        code,
        "$.batch_seq",
        f"batch_seq {batch.batch_seq} {known}, and batch_id is a new one; drop the batch",
        source_table=batch.source_table,
        row_count=len(batch.ts_us),
        batch_id=batch.batch_id,
        batch_seq=batch.batch_seq,
        numbers=(batch.batch_seq, batch.batch_seq),
    )
