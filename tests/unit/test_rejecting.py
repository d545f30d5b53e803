"""What Postgres is told of rejections, and what people are shown."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.orders import Products, in_portions
from ilyama_assets.drains.planning import Plan
from ilyama_assets.drains.rejecting import (
    OUTCOMES_SCHEMA,
    PORTION_ROWS,
    REJECTIONS_SCHEMA,
    decoded,
    encoded_outcomes,
    encoded_rejections,
)
from ilyama_assets.drains.sealing import Seal, decode_seal, encode_seal, make_seal
from ilyama_assets.rejection_report import rejection_table
from ilyama_assets.tables import BATCH_LEDGER, REJECTED_BATCHES
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.intake.state import DeviceState
from ilyama_resources.postgres.rejections import RejectionGroup
from tests.unit.intake.traffic import NOW, TOPIC, batch, change

REJECTION = "0193a0e0-0000-8000-8000-000000000001"


def _encoded(*messages: Message, origin: Origin = Origin.LIVE) -> dict[str, Any]:
    engine = IntakeEngine(Device(None), DeviceState(), origin=origin)
    for message in messages:
        engine.decide(message)
    return Encoder(7, origin).encode(engine.decisions.release())


def test_unknown_words_are_empty_and_no_text_has_what_postgres_cannot_hold() -> None:
    odd = Message("s", 3, "a\0b", b"12345", NOW, user_properties={"firmware_version": "\0"})
    tables = _encoded(odd)
    (row,) = decoded(
        encoded_rejections([tables[REJECTED_BATCHES.name]]), REJECTIONS_SCHEMA
    ).to_pylist()
    assert (row["device_id"], row["source_table"], row["payload_bytes"]) == ("", "", 5)
    assert (row["topic"], row["firmware_version"]) == ("a\N{REPLACEMENT CHARACTER}b", "unknown")
    assert (row["code"], row["position"], row["drain_id"]) == ("unknown_topic", 3, 7)


def test_a_replay_that_is_rejected_again_keeps_the_name_of_its_rejection() -> None:
    again = Message("s", 0, TOPIC, batch(change(1)), NOW, rejection_id=REJECTION)
    tables = _encoded(again, origin=Origin.REJECTION)
    assert tables[REJECTED_BATCHES.name]["rejection_id"].to_pylist() == [REJECTION]
    ledger = [tables[BATCH_LEDGER.name]]
    assert decoded(encoded_outcomes(ledger, {"other"}), OUTCOMES_SCHEMA).num_rows == 0
    outcomes = decoded(encoded_outcomes(ledger, {"s"}), OUTCOMES_SCHEMA).to_pylist()
    assert outcomes == [
        {"segment_id": "s", "position": 0, "outcome": "rejected", "code": "unregistered_device"}
    ]


def test_very_many_rejections_travel_in_portions_and_are_all_in_the_seal() -> None:
    count = PORTION_ROWS + 5
    tables = _encoded(*(Message("s", i, "nowhere", b"", NOW) for i in range(count)))
    products = Products(rejections=encoded_rejections([tables[REJECTED_BATCHES.name]]))
    parts = list(in_portions(products))
    assert [len(part.rejections) for part in parts] == [1, 1]
    seal = decode_seal(encode_seal(make_seal(parts, Plan([], []))))
    assert decoded(seal.rejections, REJECTIONS_SCHEMA)["position"].to_pylist() == list(range(count))


def test_a_seal_of_an_older_build_tells_of_no_rejections() -> None:
    seal = msgspec.to_builtins(make_seal([], Plan([], [])))
    for name in ("rejections", "replayed"):
        del seal[name]
    told = msgspec.convert(seal, Seal)
    assert (told.rejections, told.replayed) == ([], [])


@pytest.mark.parametrize("words", ["a|b", "<b>", "`x`", "two\nlines"])
def test_the_words_of_a_device_stay_in_their_cell(words: str) -> None:
    moment = datetime(2026, 4, 28, 9, tzinfo=UTC)
    group = RejectionGroup(
        code="invalid_row",
        source_table=words,
        firmware_version="2.1",
        rejections=1200,
        devices=3,
        first_received_at=moment,
        last_received_at=moment,
        states={"rejected": 1199, "accepted": 1},
        sample_id="",
        sample_path="",
        sample_message="",
    )
    *_, line = rejection_table([group]).value.splitlines()
    assert line.replace("\\|", "").count("|") == 9
    assert "1,200" in line
    assert "1,199 rejected, 1 accepted" in line
