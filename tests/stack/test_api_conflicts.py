"""Key conflicts over HTTP, and what `ilyama status` says of them and of missing numbers."""

from datetime import UTC, date, datetime

import pytest

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.intake.conflicts import Conflict, ConflictKind
from ilyama_protocol.intake.sequences import SequenceChange, SequenceKind
from ilyama_protocol.moments import micros
from ilyama_service.stack.status import status_of
from tests.api_server import ApiServer
from tests.conflict_records import conflict, list_conflicts
from tests.platform import Platform

DAY = date(2026, 4, 28)
BATCH = ConflictKind.TELEMETRY_BATCH


@pytest.fixture(scope="module")
def reading(shared_platform: Platform, shared_api: ApiServer) -> ApiServer:
    """An API beside tables with five conflicts; one came in two drains."""
    warehouse = shared_platform.warehouse
    list_conflicts(warehouse, {conflict(n): 1 for n in range(4)}, drain_id=1, day=DAY)
    again = {conflict(2): 5, conflict(9, kind=BATCH): 1}
    list_conflicts(warehouse, again, drain_id=2, day=DAY)
    return shared_api


def test_conflicts_are_listed_page_by_page(reading: ApiServer) -> None:
    items = reading.pages("/v1/conflicts", limit=2)

    keys = [conflict(n).key for n in (0, 1, 2, 3, 9)]
    assert [item["key"] for item in items] == keys
    assert [item["arrivals"] for item in items] == [1, 1, 6, 1, 1]
    assert items[0] == {
        "day": "2026-04-28",
        "device_id": "acme/dev-1",
        "source_table": "pumps",
        "kind": "row",
        "key": keys[0],
        "first": "a",
        "other": "b",
        "arrivals": 1,
    }


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("device", "acme/dev-1", 5),
        ("device", "acme/dev-2", 0),
        ("table", "pumps", 5),
        ("table", "valves", 0),
        ("kind", "telemetry batch", 1),
        ("day", "2026-04-28", 5),
        ("day", "2026-04-29", 0),
    ],
)
def test_conflicts_are_narrowed_over_http(
    reading: ApiServer, name: str, value: str, count: int
) -> None:
    assert len(reading.get("/v1/conflicts", **{name: value})["items"]) == count


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"kind": "rows"}, 422, "invalid_request"),
        ({"day": "1"}, 422, "invalid_request"),
        ({"device_id": "acme/dev-1"}, 422, "invalid_request"),
        ({"cursor": "x"}, 404, "unknown_cursor"),
    ],
)
def test_what_cannot_be_asked_of_conflicts_is_refused(
    reading: ApiServer, query: dict[str, str], status: int, code: str
) -> None:
    with reading.client() as client:
        answer = client.get("/v1/conflicts", params=query)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_the_status_tells_missing_numbers_and_the_conflicts_of_today(
    platform_without_spark: Platform,
) -> None:
    now = datetime.now(UTC)
    before = status_of(platform_without_spark.settings)
    changes = [
        SequenceChange(kind, "t", 0, micros(now), [(3, last)], [], unlisted)
        for kind, last, unlisted in ((SequenceKind.TELEMETRY, 4, 0), (SequenceKind.ROWS, 7, 90))
    ]
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", change) for change in changes], drain_id=1)
        tx.commit()
    warehouse = platform_without_spark.warehouse
    for drain_id, day in ((1, DAY), (2, now.date())):
        list_conflicts(warehouse, {conflict(1): 7}, drain_id=drain_id, day=day)

    status = status_of(platform_without_spark.settings)

    told = [
        (s.telemetry_missing, s.journal_missing_hint, s.recent_key_conflicts)
        for s in (before, status)
    ]
    assert told == [(0, 0, 0), (2, 95, 7)]


def test_conflicts_of_keys_with_a_nul_are_listed_page_by_page(
    platform_without_spark: Platform, own_api: ApiServer
) -> None:
    keys = [canonical_json({name: 1}) for name in ("a\0b", r"a\u0000b", "b")]
    arrivals = {Conflict(ConflictKind.ROW, "pumps", key, "a", "b"): 1 for key in keys}
    list_conflicts(platform_without_spark.warehouse, arrivals, drain_id=1, day=DAY)

    items = own_api.pages("/v1/conflicts", limit=1)

    assert [item["key"] for item in items] == sorted(keys)


def test_a_torn_file_of_today_is_told_by_status_and_api(
    platform_without_spark: Platform, own_api: ApiServer
) -> None:
    warehouse, today = platform_without_spark.warehouse, datetime.now(UTC).date()
    for drain_id in (1, 2):
        list_conflicts(warehouse, {conflict(drain_id): 7}, drain_id=drain_id, day=today)
    torn, _ = sorted(warehouse.root.glob(f"key_conflicts/day={today}/*.parquet"))
    torn.write_bytes(b"PAR1 and nothing more")

    status, told = status_of(platform_without_spark.settings), own_api.get("/v1/conflicts")

    name = str(torn.relative_to(warehouse.root))
    assert (status.recent_key_conflicts, status.unreadable_conflicts) == (7, [name])
    assert ([item["arrivals"] for item in told["items"]], told["unreadable"]) == ([7], [name])
