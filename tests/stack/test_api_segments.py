"""The ledger of one segment over HTTP."""

from datetime import date

import msgspec

from ilyama_protocol.moments import utc
from ilyama_resources.landing.segment_files import Segment
from ilyama_resources.landing.segment_ids import SegmentIds
from tests.api_server import ApiServer
from tests.damage import files_of, tear
from tests.ledger_records import keep_ledger
from tests.platform import Platform
from tests.unit.intake.traffic import DEVICE_ID, NOW, TABLE, batch, change, engine, message

DAY = date(2026, 4, 28)
SEGMENT, OTHER = (SegmentIds(0, 0)[n] for n in (7, 8))


def _land(platform: Platform) -> None:
    """A drained segment of three messages, and one that waits."""
    sent = [batch(change(1)), batch(change(1)), batch(change(2), table="valves", number=1)]
    messages = [
        msgspec.structs.replace(message(payload, position=n), segment_id=SEGMENT)
        for n, payload in enumerate(sent)
    ]
    keep_ledger(platform.warehouse, engine(), messages, drain_id=1)
    with platform.gateway.transaction() as tx:
        tx.segments.register([Segment(SEGMENT, DAY, 3, 10, utc(NOW), utc(NOW))])
        tx.drains.open(1, DAY, origin="live")
        tx.segments.take(DAY, 1, at_most_bytes=1000)
        tx.drains.seal(1, b"")
        tx.drains.close(1)
        tx.segments.register([Segment(OTHER, DAY, 2, 10, utc(NOW), utc(NOW))])
        tx.commit()


def test_the_ledger_of_a_segment_is_to_be_had(
    own_api: ApiServer, platform_without_spark: Platform
) -> None:
    _land(platform_without_spark)

    items = own_api.pages("/v1/ledger", limit=1, segment=SEGMENT)

    assert {(i["segment_id"], i["device_id"]) for i in items} == {(SEGMENT, DEVICE_ID)}
    assert [
        (i["source_table"], i["outcome"], i["messages"], i["rows_received"]) for i in items
    ] == [
        (TABLE, "accepted", 1, 1),
        (TABLE, "duplicate", 1, 1),
        ("valves", "accepted", 1, 1),
    ]
    balance = own_api.get("/v1/ledger", segment=SEGMENT)["balance"]
    assert (balance["balanced"], balance["messages_received"], balance["messages"]) == (True, 3, 3)
    waiting = own_api.get("/v1/ledger", segment=OTHER)
    assert (waiting["items"], waiting["balance"]["messages_received"]) == ([], 0)
    with own_api.client() as client:
        answer = client.get("/v1/ledger", params={"segment": "segment"})
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")


def test_a_torn_file_of_the_ledger_is_named(
    own_api: ApiServer, platform_without_spark: Platform
) -> None:
    _land(platform_without_spark)
    warehouse = platform_without_spark.settings.warehouse
    for torn in files_of(warehouse, "batch_ledger", 1):
        tear(torn)

    page = own_api.get("/v1/ledger", segment=SEGMENT)

    assert page["unreadable"] == [str(torn.relative_to(warehouse))]
    assert page["items"] == []
    assert (page["balance"]["balanced"], page["balance"]["messages_received"]) == (False, 3)
    assert own_api.get("/v1/ledger")["unreadable"] == []
