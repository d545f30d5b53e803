"""Rejections in groups: a page is one query, and counts what a plain count does."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from sqlalchemy import Connection, create_engine, event

from ilyama_assets.drains.rejecting import REJECTIONS_SCHEMA
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.rejections import (
    Rejection,
    RejectionFilter,
    RejectionGroup,
    Rejections,
    RejectionState,
)
from tests.platform import Platform

BEGIN = datetime(2026, 4, 28, 9, tzinfo=UTC)
COUNT = 300
FILTERS = (
    RejectionFilter(),
    RejectionFilter(state="explained"),
    RejectionFilter(device_id="dev-1"),
    RejectionFilter(code="code-1", source_table="table-1", firmware_version="1.1"),
)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    """Rejections in some groups, of known and unknown devices, several at one moment."""
    gateway, chance = platform_without_spark.gateway, random.Random(1)
    rows = [_row(number, chance) for number in range(COUNT)]
    with gateway.transaction() as tx:
        tx.rejections.add(pa.Table.from_pylist(rows, REJECTIONS_SCHEMA))
        for row in rows[::3]:
            tx.rejections.move(row["rejection_id"], RejectionState.EXPLAINED, note=None)
        tx.commit()
    return gateway


def _row(number: int, chance: random.Random) -> dict[str, Any]:
    device = chance.choice(("dev-1", "dev-2", ""))
    return {
        "rejection_id": str(UUID(int=chance.getrandbits(128))),
        "code": f"code-{chance.randrange(3)}",
        "json_path": f"$.rows[{number}]",
        "message": f"sentence {number}",
        "action": "fix",
        "source_table": chance.choice(("", "table-1")),
        "device_id": device,
        "firmware_version": f"1.{chance.randrange(3)}",
        "topic": f"acme/{device or chance.randrange(9)}/sync/rows/batch",
        "segment_id": "segment",
        "position": number,
        "received_at": BEGIN + timedelta(seconds=chance.randrange(20)),
        "drain_id": 1,
        "day": BEGIN.date(),
        "payload_bytes": 10,
    }


def _expected(gateway: Gateway, wanted: RejectionFilter) -> list[RejectionGroup]:
    """The groups by plain counting, in the order of their places."""
    with gateway.transaction() as tx:
        newest_first = tx.rejections.newest(wanted, limit=COUNT)
    groups: dict[tuple[str, ...], list[Rejection]] = {}
    for found in newest_first:
        place = (found.code, found.source_table, found.firmware_version)
        groups.setdefault(place, []).append(found)
    return [_group(groups[place]) for place in sorted(groups)]


def _group(rejections: list[Rejection]) -> RejectionGroup:
    newest, states = rejections[0], [found.state.value for found in rejections]
    return RejectionGroup(
        newest.code,
        newest.source_table,
        newest.firmware_version,
        len(rejections),
        len({found.device_id or found.topic for found in rejections}),
        rejections[-1].received_at,
        newest.received_at,
        {state: states.count(state) for state in states},
        newest.rejection_id,
        newest.json_path,
        newest.message,
    )


@pytest.mark.parametrize("wanted", FILTERS, ids=repr)
def test_groups_are_counted_page_by_page(gateway: Gateway, wanted: RejectionFilter) -> None:
    expected = _expected(gateway, wanted)
    found: list[RejectionGroup] = []
    with gateway.transaction() as tx:
        while page := tx.rejections.groups(
            wanted, after=found[-1].place if found else None, limit=4
        ):
            found += page
        largest = tx.rejections.largest_groups(wanted, limit=5)

    assert found == expected
    assert largest == sorted(expected, key=lambda group: -group.rejections)[:5]


def test_a_page_of_groups_is_one_query(gateway: Gateway) -> None:
    engine, statements = create_engine(gateway.url), list[str]()

    def note(_: Connection, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    with engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", note)
        listing = Rejections(connection)
        assert len(listing.groups(RejectionFilter(), limit=100)) == 18
        assert len(listing.largest_groups(RejectionFilter(), limit=7)) == 7
    engine.dispose()

    assert len(statements) == 2
