"""What a person may do with lineages; each deed leaves a line in the audit.

LineageRefused
├── NoSuchDevice      nobody is registered under this id
├── NoSuchTable       no table can have this name
└── WrongState        the lineage is not in the state for it
"""

from __future__ import annotations

from typing import Any

from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_protocol.intake.state import decode_state
from ilyama_protocol.validation.envelopes import is_table_name
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.lineages import LineageEntry, LineagePlace


class LineageRefused(PlatformError):
    """What was asked for cannot be done."""


class NoSuchDevice(LineageRefused):
    """There is no such device."""


class NoSuchTable(LineageRefused):
    """No table can have this name."""


class WrongState(LineageRefused):
    """The state of the lineage does not allow what was asked for."""


def pause(tx: Transaction, place: LineagePlace, *, note: str | None, actor: str) -> LineageEntry:
    """Stage what comes of a lineage from the next drain on."""
    before = known(tx, place)
    if PauseReason.OPERATOR in before.pauses:
        raise WrongState(f"{_told(place)} is paused by an operator already.")
    tx.pauses.add([place], PauseReason.OPERATOR, note=note)
    return _audited(tx, before, verb="pause", actor=actor, more={"note": note})


def resume(tx: Transaction, place: LineagePlace, *, actor: str) -> LineageEntry:
    """Take the operator's pause away; what was staged is released when nothing else holds it."""
    before = known(tx, place)
    if not tx.pauses.clear([place], PauseReason.OPERATOR):
        raise WrongState(f"{_told(place)} is not paused by an operator.")
    return _audited(tx, before, verb="resume", actor=actor)


def reset_materialization(tx: Transaction, place: LineagePlace, *, actor: str) -> LineageEntry:
    """Close an open circuit and try the rows again that could not be materialized."""
    before = known(tx, place)
    if tx.reviews.is_open(*place):
        raise WrongState(f"A schema of {_told(place)} is under review; decide that first.")
    if not tx.pauses.clear([place], PauseReason.CIRCUIT_OPEN):
        raise WrongState(f"The circuit of {_told(place)} is not open.")
    retried = sum(tx.backlog.retry(StagingReason.MATERIALIZATION_FAILED, place))
    return _audited(
        tx, before, verb="reset-materialization", actor=actor, more={"retried_rows": retried}
    )


def retry_errors(tx: Transaction, *, actor: str) -> int:
    """Try again what broke the engine or could not be materialized; say how many rows that is.

    For after an upgrade, or when a device was mended: rows of closed circuits are tried as well.
    """
    reasons = (StagingReason.ENGINE_ERROR, StagingReason.MATERIALIZATION_FAILED)
    sums = [rows for reason in reasons for rows in tx.backlog.retry(reason)]
    if not sums:
        raise WrongState("Nothing is staged that broke the engine or could not be materialized.")
    retried = sum(sums)
    tx.audit.record(
        actor=actor, verb="retry-errors", resource="lineages", new={"retried_rows": retried}
    )
    return retried


def reset_sequence(tx: Transaction, place: LineagePlace, *, actor: str) -> LineageEntry:
    """Let the numbers of telemetry batches begin anew with the next drain of the device."""
    before = known(tx, place)
    state = tx.device_states.of([place.device_id]).get(place.device_id)
    lineage = None if state is None else decode_state(state.encode()).lineages.get(place[1])
    if lineage is None or lineage.telemetry.batch_seq < 0:
        raise WrongState(f"{_told(place)} has sent no telemetry in this era of numbers.")
    if not tx.sequence_resets.request(*place):
        raise WrongState(f"A reset of {_told(place)} waits for the next drain already.")
    highest = {"batch_seq": lineage.telemetry.batch_seq}
    return _audited(tx, before, verb="reset-sequence", actor=actor, more=highest)


def known(tx: Transaction, place: LineagePlace) -> LineageEntry:
    """A table that a known device has, or could have."""
    if not is_table_name(place.source_table):
        raise NoSuchTable("No table of a device can have this name.")
    if not tx.devices.named([place.device_id]):
        raise NoSuchDevice(f"There is no device {place.device_id}.")
    return tx.lineages.find(*place)


def _audited(
    tx: Transaction,
    before: LineageEntry,
    *,
    verb: str,
    actor: str,
    more: dict[str, Any] | None = None,
) -> LineageEntry:
    after = tx.lineages.find(*before.place)
    tx.audit.record(
        actor=actor,
        verb=verb,
        resource=f"lineage/{before.device_id}/{before.source_table}",
        old={"pauses": before.pauses},
        new={"pauses": after.pauses} | (more or {}),
    )
    return after


def _told(place: LineagePlace) -> str:
    return f"{place.source_table} of {place.device_id}"
