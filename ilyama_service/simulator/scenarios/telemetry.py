"""Telemetry whose numbers or clocks are not what they should be."""

from itertools import pairwise

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.scenarios.contents import ODD_COLUMNS, ODD_TABLES
from ilyama_service.simulator.scenarios.expected import accepted, duplicate, rejected
from ilyama_service.simulator.scenarios.script import TELEMETRY, Script
from ilyama_service.simulator.spelling import respelled

_ROW_ID = "00000000-0000-4000-8000-000000000001"
_STALE = rejected(RejectionCode.STALE_BATCH_SEQ)


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
    device.sends(batch | {"rows": samples}, duplicate(3, conflicts=3), on=TELEMETRY)


def telemetry_gaps(device: Script) -> None:
    """Numbers are left out, a few and very many: each range is listed as a gap."""
    numbers = (0, 3, 2**40, 2**63 - 1)
    for before, number in pairwise(numbers):
        device.leaves_out(before + 1, number - 1, of=SequenceKind.TELEMETRY)
    for number in numbers:
        device.sends(device.samples(batch_seq=number), accepted(3), on=TELEMETRY)


def telemetry_clock_jumps(device: Script) -> None:
    """Samples are of 1970, of the year 9999 and of before, in no order."""
    times = ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-04-28T09:00:00Z")
    for order in (times, times[::-1], times[1:]):
        device.sends(device.samples(rows=_at(*order)), accepted(len(order)), on=TELEMETRY)


def telemetry_of_a_wrong_clock(device: Script) -> None:
    """Whole batches are of 1970, then of 2100, until the clock is set: arrival counts."""
    days = ("1970-01-01", "2100-02-28", "2026-04-28")
    for day in days:
        times = [f"{day}T00:00:0{second}Z" for second in range(3)]
        device.sends(device.samples(rows=_at(*times)), accepted(3), on=TELEMETRY)


def telemetry_counter_restarts(device: Script) -> None:
    """The counter begins at 0 and no operator reset it: refused until it has caught up."""
    ends = {5: accepted(3), 0: _STALE, 1: _STALE, 4: _STALE, 6: accepted(3)}
    device.sends(device.samples(batch_seq=4), accepted(3), on=TELEMETRY)
    for number, expected in ends.items():
        device.sends(device.samples(batch_seq=number), expected, on=TELEMETRY)


def telemetry_batch_id_never_changes(device: Script) -> None:
    """Every batch has one id: the first counts, whatever the others hold and are numbered."""
    first = device.samples()
    device.sends(first, accepted(3), on=TELEMETRY)
    for _ in range(2):
        again = device.samples(batch_id=first["batch_id"], rows=device.measured(2))
        device.sends(again, duplicate(2, conflicts=2), on=TELEMETRY)


def telemetry_of_one_moment(device: Script) -> None:
    """Several samples have one time and one row id, within a batch and across two."""
    for _ in range(2):
        samples = [row | {"row_id": _ROW_ID} for row in _at(*["2026-04-28T09:00:00Z"] * 3)]
        device.sends(device.samples(rows=samples), accepted(3), on=TELEMETRY)


def telemetry_spelt_otherwise(device: Script) -> None:
    """A batch comes again with its id in upper case, then in other white space and key order."""
    batch = device.samples()
    device.sends(batch, accepted(3), on=TELEMETRY)
    upper = batch | {"batch_id": batch["batch_id"].upper()}
    device.sends(upper, duplicate(3), on=TELEMETRY)
    device.sends(respelled(batch, device.chance).encode(), duplicate(3), on=TELEMETRY)


def telemetry_odd_times(device: Script) -> None:
    """Times have offsets, small letters and nine digits; cursors spell them in another way."""
    times = ("2026-04-28t11:00:00.000000001+02:00", "2026-04-28T09:00:00.5-00:00")
    batch = device.samples(
        rows=_at(*times),
        cursor_start_ts="2026-04-28T09:00:00.000000001z",
        cursor_end_ts="2026-04-28T10:30:00.500+01:30",
    )
    device.sends(batch, accepted(2), on=TELEMETRY)


def telemetry_values_of_another_kind(device: Script) -> None:
    """Samples do not fit their columns, or miss one that must not be null: kept, or set aside."""
    for value in ("hot", None, True):
        rows = device.measured(2, celsius=value)
        device.sends(device.samples(rows=rows, announced=True), accepted(2), on=TELEMETRY)


def telemetry_odd_fields(device: Script) -> None:
    """Fields have odd names and values, five hundred of them in one sample."""
    for value in (0, -1, 2**63 - 1, 5e-324, "", "zażółć", "\0", None, True):
        rows = device.measured(1, **dict.fromkeys(ODD_COLUMNS, value))
        device.sends(device.samples(rows=rows), accepted(1), on=TELEMETRY)
    many: Document = {f"c{number}": number / 2 for number in range(499)}
    device.sends(device.samples(rows=device.measured(1, **many)), accepted(1), on=TELEMETRY)


def telemetry_of_odd_tables(device: Script) -> None:
    """Sampled tables are named ../x and worse: names are data, never places."""
    for name in ODD_TABLES:
        device.sends(device.samples(table=name), accepted(3), on=TELEMETRY)


def telemetry_most_rows(device: Script) -> None:
    """A batch has exactly as many samples as it may, then all of them again."""
    most = device.limits.batch_max_rows
    batch = device.samples(rows=device.measured(most))
    for expected in (accepted(most), duplicate(most)):
        device.sends(batch, expected, on=TELEMETRY)


def _at(*times: str) -> list[Document]:
    return [{"ts": ts, "fields": {"celsius": 1.5}} for ts in times]


TELEMETRY_SCENARIOS = (
    telemetry_redelivery,
    telemetry_duplicate_batch_seq,
    telemetry_stale_batch_seq,
    telemetry_of_a_clone,
    telemetry_gaps,
    telemetry_clock_jumps,
    telemetry_of_a_wrong_clock,
    telemetry_counter_restarts,
    telemetry_batch_id_never_changes,
    telemetry_of_one_moment,
    telemetry_spelt_otherwise,
    telemetry_odd_times,
    telemetry_values_of_another_kind,
    telemetry_odd_fields,
    telemetry_of_odd_tables,
    telemetry_most_rows,
)
