"""Key conflicts in the tables, as a drain leaves them, but without Spark."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, time

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.task import write_tables
from ilyama_assets.tables import KEY_CONFLICTS
from ilyama_protocol.intake.conflicts import Conflict, ConflictKind
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.moments import micros
from ilyama_resources.delta.warehouse import Warehouse


def conflict(number: int, other: str = "b", kind: ConflictKind = ConflictKind.ROW) -> Conflict:
    """A conflict of the key with this number."""
    return Conflict(kind, "pumps", f'{{"commit_seq":{number}}}', "a", other)


def list_conflicts(
    warehouse: Warehouse,
    arrivals: Mapping[Conflict, int],
    *,
    drain_id: int,
    day: date,
    device_id: str = "acme/dev-1",
) -> None:
    """Let a drain list the conflicts of a device, each with how often it came."""
    warehouse.ensure(KEY_CONFLICTS)
    at = micros(datetime.combine(day, time(9), UTC))
    encoder = Encoder(drain_id, Origin.LIVE)
    rows = encoder.conflicts(
        Counter(arrivals), device_id=device_id, since=dict.fromkeys(arrivals, at)
    )
    stem = f"drain-{drain_id}"
    files = list(write_tables(warehouse.root, {KEY_CONFLICTS.name: [rows]}, stem=stem))
    warehouse.add(KEY_CONFLICTS.name, drain_id, files)
