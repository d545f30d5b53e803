"""Telemetry whose numbers or clocks are not what they should be."""

from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.envelopes import Document, telemetry_batch
from ilyama_service.simulator.scenarios.script import (
    TELEMETRY,
    Script,
    accepted,
    duplicate,
    rejected,
)


def telemetry_redelivery(device: Script) -> None:
    """A telemetry batch is delivered three times; the later two change nothing."""
    batch = device.samples()
    for expected in (accepted(3), duplicate(3), duplicate(3)):
        device.sends(batch, expected, on=TELEMETRY)


def telemetry_duplicate_batch_seq(device: Script) -> None:
    """A new batch reuses the highest number of its table."""
    device.sends(device.samples(batch_seq=7), accepted(3), on=TELEMETRY)
    for _ in range(2):
        refused = rejected(RejectionCode.DUPLICATE_BATCH_SEQ)
        device.sends(device.samples(batch_seq=7), refused, on=TELEMETRY)


def telemetry_stale_batch_seq(device: Script) -> None:
    """A new batch has a lower number: the counter was lost, or batches overtook each other."""
    device.sends(device.samples(batch_seq=7), accepted(3), on=TELEMETRY)
    for number in (6, 0):
        refused = rejected(RejectionCode.STALE_BATCH_SEQ)
        device.sends(device.samples(batch_seq=number), refused, on=TELEMETRY)
    device.sends(device.samples(batch_seq=8), accepted(3), on=TELEMETRY)


def telemetry_of_a_clone(device: Script) -> None:
    """Other samples come under a batch id that is taken: a no-op, listed as a conflict."""
    batch = device.samples()
    device.sends(batch, accepted(3), on=TELEMETRY)
    samples = [sample | {"fields": {"celsius": -40.0}} for sample in batch["rows"]]
    device.sends(batch | {"rows": samples}, duplicate(3, conflicts=None), on=TELEMETRY)


def telemetry_gaps(device: Script) -> None:
    """Numbers are left out, a few and very many."""
    for number in (0, 3, 2**40, 2**63 - 1):
        device.sends(device.samples(batch_seq=number), accepted(3), on=TELEMETRY)


def telemetry_clock_jumps(device: Script) -> None:
    """Samples are of 1970, of the year 9999 and of before, in no order."""
    times = ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-04-28T09:00:00Z")
    for order in (times, times[::-1], times[1:]):
        batch = device.samples()
        samples: list[Document] = [{"ts": ts, "fields": {"celsius": 1.5}} for ts in order]
        names = ("batch_id", "batch_seq", "schema_hash")
        moved = telemetry_batch(
            samples, table=batch["source_table"], **{name: batch[name] for name in names}
        )
        device.sends(moved, accepted(len(order)), on=TELEMETRY)


TELEMETRY_SCENARIOS = (
    telemetry_redelivery,
    telemetry_duplicate_batch_seq,
    telemetry_stale_batch_seq,
    telemetry_of_a_clone,
    telemetry_gaps,
    telemetry_clock_jumps,
)
