"""What there is to know of a stack at a glance."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, Final

import msgspec

from ilyama_protocol.governance.reviews import OPEN
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.delta.key_conflicts import recent_arrivals
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.errors import PlatformError
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.settings import Ingest, Settings
from ilyama_service.stack.health import PROBES
from ilyama_service.stack.parts import Part, parts_of, servers_elsewhere
from ilyama_service.stack.storms import BusiestDevice, busiest_device
from ilyama_service.stack.supervision import Supervisor

_ALIVE: Final = ("RUNNING", "STARTING")


class PartHealth(msgspec.Struct):
    """One part: healthy, or what is wrong with it."""

    name: str
    healthy: bool
    detail: str = ""
    pid: int | None = None


class LastDrain(msgspec.Struct):
    """The newest drain that is done."""

    drain_id: int
    day: date
    closed_at: datetime
    age_s: float


class Status(msgspec.Struct):
    """The whole stack."""

    running: bool
    parts: list[PartHealth]
    pending_segments: int | None = None
    pending_messages: int | None = None
    unfinished_drain: str | None = None
    last_drain: LastDrain | None = None
    rows_today: int | None = None
    open_rejections: int = 0
    open_reviews: int = 0
    """Schemas that wait for a person, of all devices."""
    waiting_schemas: int = 0
    """Schemas that wait until there is room for a review of them."""
    busiest_device: BusiestDevice | None = None
    unreadable_segments: int = 0
    telemetry_missing: int | None = None
    """Telemetry batches that never came, by the gaps of their numbers."""
    journal_missing_hint: int | None = None
    """Numbers of journals that never came; a hint, as tables that are not replicated have some."""
    recent_key_conflicts: int | None = None
    """How often other content came in the last days under a key that was taken."""
    unreadable_conflicts: list[str] = []
    """Files of those conflicts that cannot be read, below the warehouse."""

    @property
    def healthy(self) -> bool:
        """Whether every part is."""
        return self.running and all(part.healthy for part in self.parts)


def status_of(settings: Settings) -> Status:
    """Look at every part and at the records; nothing is started for it."""
    supervisor = Supervisor(settings)
    running = supervisor.running
    status = Status(running, part_healths(settings, supervisor))
    status.unreadable_segments = Landing(settings.landing).unreadable()
    conflicts = recent_arrivals(settings.warehouse, today=datetime.now(UTC).date())
    status.recent_key_conflicts, status.unreadable_conflicts = conflicts
    url = settings.postgres_url
    if url is None and (endpoint := EmbeddedPostgres(settings).endpoint()) is not None:
        url = endpoint.url
    if url is not None:
        gateway = Gateway(url)
        with suppress(PlatformError):
            _add_records(status, gateway, Landing(settings.landing))
        gateway.close()
    return status


def part_healths(settings: Settings, supervisor: Supervisor) -> list[PartHealth]:
    """The health of every part that runs, or should, and of the servers it relies on."""
    states = supervisor.states() if supervisor.running else {}
    parts = parts_of(settings, simulator="simulator" in states)
    elsewhere = servers_elsewhere(settings)
    sensing = ["ingest"] if states and settings.ingest is Ingest.SENSOR else []
    with ThreadPoolExecutor(len(elsewhere) + len(parts) + len(sensing)) as threads:
        outer = threads.map(lambda name: _probed(settings, name), elsewhere)
        own = threads.map(lambda part: _health(settings, part, states), parts)
        inner = threads.map(lambda name: _probed(settings, name), sensing)
        return [*outer, *own, *inner]


def _health(settings: Settings, part: Part, states: dict[str, dict[str, Any]]) -> PartHealth:
    state = states.get(part.name)
    if state is None:
        return PartHealth(part.name, False, "is not running")
    if state["statename"] not in _ALIVE:
        told = state["spawnerr"] or state["statename"].lower()
        return PartHealth(part.name, False, f"is down ({told}); see `ilyama logs {part.name}`")
    return _probed(settings, part.name, pid=state["pid"])


def _probed(settings: Settings, name: str, *, pid: int | None = None) -> PartHealth:
    problem = PROBES[name](settings) if name in PROBES else None
    return PartHealth(name, problem is None, problem or "", pid)


def _add_records(status: Status, gateway: Gateway, landing: Landing) -> None:
    # Before the first start has made the tables there is nothing to tell.
    if not gateway.is_migrated():
        return
    now = datetime.now(UTC)
    with gateway.transaction() as tx:
        _add_intake(status, tx, now=now)
        status.busiest_device = busiest_device(tx, landing, now=now)


def _add_intake(status: Status, tx: Transaction, *, now: datetime) -> None:
    pending = tx.segments.pending()
    status.pending_segments = sum(day.segments for day in pending)
    status.pending_messages = sum(day.messages for day in pending)
    unfinished = tx.drains.unfinished()
    if unfinished is not None:
        note = f": {unfinished.note}" if unfinished.note else ""
        status.unfinished_drain = f"{unfinished.drain_id} is {unfinished.state}{note}"
    last = tx.drains.last_done()
    if last is not None and last.closed_at is not None:
        age = (now - last.closed_at).total_seconds()
        status.last_drain = LastDrain(last.drain_id, last.day, last.closed_at, round(age, 1))
    missing = {total.kind: total.missing + total.unlisted for total in tx.gaps.totals()}
    status.telemetry_missing = missing.get(SequenceKind.TELEMETRY, 0)
    status.journal_missing_hint = missing.get(SequenceKind.ROWS, 0)
    status.rows_today = tx.ledger.rows_new_on(now.date())
    status.open_rejections = tx.rejections.count_open()
    status.open_reviews = sum(tx.reviews.counts().get(state, 0) for state in OPEN)
    status.waiting_schemas = tx.review_queue.waiting()
