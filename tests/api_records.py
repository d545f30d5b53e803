"""Records for the API to read: devices, drains, ledger totals and current values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ilyama_assets.drains.projection import projected
from ilyama_protocol.intake.datapoints import DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue
from ilyama_protocol.intake.state import DeviceState, encode_state
from ilyama_protocol.moments import micros
from ilyama_resources.landing.segment_files import Segment
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.ledger import LedgerTotal

DAY = date(2026, 4, 28)
NINE = datetime(2026, 4, 28, 9, tzinfo=UTC)
DEVICES = ("acme/dev-1", "acme/dev-2", "acme/dev-3")
INSTANCES = ("", "1", "10", "a/b")


def fill(gateway: Gateway) -> None:
    """Three devices, three drains and a held one, and a segment that waits."""
    today = datetime.now(UTC).date()
    with gateway.transaction() as tx:
        tx.warehouses.identity()
        _devices(tx)
        add_drain(tx, 1, DAY, [total_of(DEVICES[0], "accepted", messages=5, rows=20)])
        add_drain(tx, 2, DAY, [total_of("", "rejected", messages=1, rows=0)])
        add_drain(tx, 3, today, [total_of(DEVICES[1], "accepted", messages=7, rows=7)])
        tx.drains.open(4, DAY + timedelta(days=1), origin="live")
        tx.drains.hold(4, "the books do not agree")
        tx.segments.register([_segment(9, DAY, 2)])
        _current_values(tx)
        tx.current_instances.stop_serving([(DEVICES[1], "journal")])
        tx.commit()


def unbalance(gateway: Gateway, fault: str, *, day: date) -> None:
    """One message that no segment has, or one row that the books do not account for."""
    line = total_of(DEVICES[2], "accepted", messages=int(fault == "messages"), rows=1)
    accounted = int(fault != "rows")
    with gateway.transaction() as tx:
        tx.ledger.add([line._replace(drain_id=3, source_table=fault, rows_new=accounted, day=day)])
        tx.commit()


def metric(ts: int) -> CurrentValue:
    """A current value of a number."""
    return CurrentValue(DatapointKind.METRIC, 1.5, ts, 7, "t")


def add_drain(tx: Transaction, drain_id: int, day: date, totals: list[LedgerTotal]) -> None:
    """A drain that is done, with its segment and its sums."""
    tx.drains.open(drain_id, day, origin="live")
    messages = sum(total.messages for total in totals)
    tx.segments.register([_segment(drain_id, day, messages)])
    tx.segments.take(day, drain_id, at_most_bytes=1000)
    tx.drains.measure(drain_id, segments=1, messages=messages, size=10)
    tx.drains.seal(drain_id, b"")
    tx.ledger.add(total._replace(drain_id=drain_id, day=day) for total in totals)
    tx.drains.close(drain_id)


def _devices(tx: Transaction) -> None:
    roots = [device_id.split("/") for device_id in DEVICES]
    tx.devices.register(
        [RegisteredDevice("/".join(root), root[0], root[1], None) for root in roots], auto=True
    )
    state = encode_state(DeviceState(next_received_at=micros(NINE) + 1)).decode()
    tx.device_states.advance([(DEVICES[0], state)], drain_id=1)


def _segment(ordinal: int, day: date, messages: int) -> Segment:
    return Segment(SegmentIds(0, 0)[ordinal], day, messages, 10, NINE, NINE)


def total_of(device_id: str, outcome: str, *, messages: int, rows: int) -> LedgerTotal:
    """A sum of messages whose rows, if any, are all new."""
    return LedgerTotal(
        drain_id=0,
        device_id=device_id,
        source_table="t",
        kind="rows",
        outcome=outcome,
        day=DAY,
        origin="live",
        messages=messages,
        rows_received=rows,
        rows_new=rows,
        rows_duplicate=0,
        rows_conflict=0,
        rows_below_floor=0,
        rows_rejected=0,
        rows_staged=0,
    )


def _current_values(tx: Transaction) -> None:
    now = micros(datetime.now(UTC))
    values = {
        "t.mode": {
            instance: CurrentValue(DatapointKind.STATE, "idle", now, number, "t")
            for number, instance in enumerate(INSTANCES)
        },
        "t.%": {instance: metric(micros(NINE)) for instance in INSTANCES},
    }
    tx.current_instances.advance(projected([(device, values) for device in DEVICES]), drain_id=3)
