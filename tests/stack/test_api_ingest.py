"""Events that are posted to the API land, once, and reach the tables."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from ilyama_protocol.moments import micros
from ilyama_resources.postgres.copying import shown
from tests.api_server import BATCH, EVENT, ApiServer, api_server
from tests.platform import Platform
from tests.streams import generate
from tests.tables import Row


@pytest.mark.parametrize("content_type", [EVENT, "application/json; charset=utf-8"])
def test_an_event_lands_with_the_time_of_the_platform(api: ApiServer, content_type: str) -> None:
    before = micros(datetime.now(UTC))
    body = json.dumps(api.event(b"\x00\xff payload", time="2001-01-01T00:00:00Z"))
    with api.client() as client:
        answer = client.post("/v1/ingest", content=body, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1})
    (message,) = api.landed()
    assert (message.topic, message.payload) == (api.topic, b"\x00\xff payload")
    assert before <= message.landed_at <= micros(datetime.now(UTC))


def test_what_was_accepted_is_registered(api: ApiServer, shared_platform: Platform) -> None:
    assert api.post(b"one", b"two").json() == {"accepted": 2}
    assert api.post().json() == {"accepted": 0}
    landed = api.segments()
    with shared_platform.gateway.transaction() as tx:
        assert tx.segments.known(landed) == set(landed)
    assert len(landed) == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"specversion": "0.3"}, "0.3"),
        ({"data_base64": "no base64!"}, "base64"),
        ({"subject": 5}, "subject"),
    ],
)
def test_one_bad_event_refuses_the_whole_batch(
    api: ApiServer, bad: dict[str, Any], reason: str
) -> None:
    body = json.dumps([api.event(b"good"), api.event(b"bad") | bad, api.event(b"good")])
    with api.client() as client:
        answer = client.post("/v1/ingest", content=body, headers={"Content-Type": BATCH})
    assert answer.status_code == 422
    assert answer.json()["details"]["index"] == 1
    assert reason in answer.json()["details"]["reason"]
    assert api.landed() == []


def test_an_event_with_data_is_told_where_the_payload_goes(api: ApiServer) -> None:
    body = api.event(b"") | {"data": {"rows": []}}
    del body["data_base64"]
    with api.client() as client:
        answer = client.post(
            "/v1/ingest", content=json.dumps(body), headers={"Content-Type": EVENT}
        )
    assert answer.status_code == 422
    assert "data_base64 only" in answer.json()["message"]


def test_requests_at_the_same_time_land_once_each_in_few_segments(api: ApiServer) -> None:
    def post_some(worker: int) -> None:
        with api.client() as client:
            for turn in range(10):
                answer = api.send(
                    client, *(f"{worker}/{turn}/{part}".encode() for part in range(3))
                )
                assert answer.json() == {"accepted": 3}

    with ThreadPoolExecutor(16) as workers:
        list(workers.map(post_some, range(16)))
    expected = [f"{w}/{t}/{p}".encode() for w in range(16) for t in range(10) for p in range(3)]
    assert sorted(api.payloads()) == sorted(expected)
    assert len(api.segments()) < 160


def test_messages_of_one_sender_stay_in_order(api: ApiServer) -> None:
    sent = [str(number).encode() for number in range(30)]
    with api.client() as client:
        for payload in sent:
            assert api.send(client, payload).status_code == 202
    assert api.payloads() == sent


def test_a_repeated_request_gets_the_same_answer_and_lands_once(api: ApiServer) -> None:
    with ThreadPoolExecutor(8) as workers:
        answers = list(workers.map(lambda _: api.post(b"x", Idempotency_Key="k-1"), range(8)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, '{"accepted":1}')}
    assert api.payloads() == [b"x"]
    other = api.post(b"y", Idempotency_Key="k-1")
    assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_key_reused")
    assert api.post(b"y", Idempotency_Key="k-2").status_code == 202
    assert api.payloads() == [b"x", b"y"]


def test_a_refused_request_may_be_mended_under_the_same_key(api: ApiServer) -> None:
    with api.client() as client:
        headers = {"Content-Type": EVENT, "Idempotency-Key": "mended"}
        assert client.post("/v1/ingest", content="{", headers=headers).status_code == 422
    assert api.post(b"x", Idempotency_Key="mended").status_code == 202


def test_a_key_is_forgotten_after_a_day(api: ApiServer) -> None:
    assert api.post(b"x", Idempotency_Key="aged").status_code == 202
    _age_answers(api.settings.postgres_url or "", timedelta(hours=25))
    assert api.post(b"y", Idempotency_Key="aged").status_code == 202
    assert api.payloads() == [b"x", b"y"]


def test_posted_events_reach_the_tables_and_are_read_back(platform: Platform) -> None:
    events = generate(51, batches=25, day_crossings=False)
    with api_server(platform.settings) as server, server.client() as client:
        for sent in events:
            body = json.dumps(server.event(sent.payload, subject=sent.topic))
            answer = client.post("/v1/ingest", content=body, headers={"Content-Type": EVENT})
            assert answer.status_code == 202
        platform.drain()
        balance = server.get("/v1/ledger")["balance"]
        assert balance["balanced"]
        assert balance["messages_received"] == balance["messages"] == len(events)
        served = server.pages("/v1/current-values", limit=50)
    assert served
    assert {_as_served(row) for row in platform.rows("current_value")} == {
        (item["owner"]["id"], item["key"], item["instance"], item["value"]) for item in served
    }


def _as_served(row: Row) -> tuple[Any, ...]:
    """A value as Postgres shows it: without U+0000."""
    value = row["value_double"] if row["kind"] == "metric" else row["value_text"]
    parts = (row["owner_id"], row["key"], row["instance"], value)
    return tuple(shown(part) if isinstance(part, str) else part for part in parts)


def _age_answers(url: str, age: timedelta) -> None:
    engine = create_engine(url)
    statement = text("UPDATE idempotent_answer SET answered_at = answered_at - :age")
    with engine.begin() as connection:
        connection.execute(statement, {"age": age})
    engine.dispose()
