"""The HTTP API, served by uvicorn over a real Postgres."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.event import listens_for

from ilyama_assets.drains.projection import projected
from ilyama_resources.postgres.current_instances import CurrentInstances
from ilyama_resources.postgres.current_values import CurrentValueFilter, CurrentValues
from ilyama_service.api.tokens import ensure_admin_token, hash_of
from tests.api_records import DAY, DEVICES, fill, metric, unbalance
from tests.api_server import BATCH, EVENT, ApiServer, api_server
from tests.platform import Platform
from tests.waiting import eventually


@pytest.fixture(scope="module")
def records(shared_platform: Platform) -> Platform:
    """Records that are only read."""
    fill(shared_platform.gateway)
    return shared_platform


@pytest.fixture(scope="module")
def reading(records: Platform, shared_api: ApiServer) -> ApiServer:
    """An API with something to read."""
    assert records.settings.home == shared_api.settings.home
    return shared_api


def test_health_needs_no_token(reading: ApiServer) -> None:
    assert httpx.get(f"{reading.url}/healthz").json() == {"alive": True}
    ready = httpx.get(f"{reading.url}/readyz").json()
    assert {name: part["ok"] for name, part in ready["parts"].items()} == {
        "postgres": True,
        "migrations": True,
        "landing": True,
    }


def test_metrics_tell_of_requests_and_of_the_platform(reading: ApiServer) -> None:
    reading.get("/v1/drains")
    text = httpx.get(f"{reading.url}/metrics").text
    assert 'ilyama_api_requests_total{method="GET",route="/v1/drains",status="200"}' in text
    assert "ilyama_postgres_up 1.0" in text
    assert "ilyama_last_drain_id 3.0" in text
    assert 'ilyama_drains{state="done"} 3.0' in text
    assert 'ilyama_drains{state="held"} 1.0' in text
    assert 'ilyama_ledger_messages_today{outcome="accepted"} 7.0' in text
    assert "ilyama_pending_segments" in text


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer wrong", "Basic YTpi"])
@pytest.mark.parametrize("path", ["/v1/current-values", "/v1/drains/1", "/v1/devices/acme/dev-1"])
def test_a_request_without_a_valid_token_is_refused(
    reading: ApiServer, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = httpx.get(f"{reading.url}{path}", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error_code"] == "unauthorized"


def test_a_revoked_token_is_refused(reading: ApiServer, records: Platform) -> None:
    with records.gateway.transaction() as tx:
        tx.api_tokens.add(hash_of("other token"), "other")
        tx.api_tokens.add(hash_of("gone token"), "gone")
        assert tx.api_tokens.revoke(hash_of("gone token"))
        tx.commit()
    statuses = [
        httpx.get(f"{reading.url}/v1/drains", headers={"Authorization": f"Bearer {token}"})
        for token in ("other token", "gone token")
    ]
    assert [answer.status_code for answer in statuses] == [200, 401]


def test_the_admin_token_is_private_and_stays_until_it_is_revoked(
    platform_without_spark: Platform,
) -> None:
    settings, gateway = platform_without_spark.settings, platform_without_spark.gateway
    token = ensure_admin_token(settings, gateway)
    file = settings.api_dir / "admin-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert ensure_admin_token(settings, gateway) == token == file.read_text().strip()
    with gateway.transaction() as tx:
        assert tx.api_tokens.revoke(hash_of(token))
        tx.commit()
    assert ensure_admin_token(settings, gateway) != token


def test_a_new_admin_token_takes_the_place_of_one_that_was_lost(
    platform_without_spark: Platform,
) -> None:
    settings, gateway = platform_without_spark.settings, platform_without_spark.gateway
    lost = ensure_admin_token(settings, gateway)
    (settings.api_dir / "admin-token").unlink()
    new = ensure_admin_token(settings, gateway)

    with gateway.transaction() as tx:
        tokens = [tx.api_tokens.find(hash_of(token)) for token in (lost, new)]
    assert [token is not None and token.revoked_at is None for token in tokens] == [False, True]


def test_no_secret_is_in_the_log(reading: ApiServer) -> None:
    reading.get("/v1/current-values", prefix="secret-word")
    line = '"path":"/v1/current-values","status":200'
    assert eventually(lambda: line in reading.log.read_text())
    lines = reading.log.read_text()
    assert reading.token not in lines
    assert "secret-word" not in lines


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "status", "code"),
    [
        pytest.param("GET", "/nowhere", "", "", 404, "not_found", id="route"),
        pytest.param("GET", "/v1/drains/99", "", "", 404, "not_found", id="drain"),
        pytest.param("GET", "/v1/devices/no/one", "", "", 404, "not_found", id="device"),
        pytest.param("GET", "/v1/devices?cursor=x", "", "", 404, "unknown_cursor", id="cursor"),
        pytest.param("DELETE", "/v1/drains", "", "", 405, "method_not_allowed", id="method"),
        pytest.param("GET", "/v1/drains?limit=0", "", "", 422, "invalid_request", id="limit"),
        pytest.param("GET", "/v1/drains?day=1", "", "", 422, "invalid_request", id="day"),
        pytest.param("GET", "/v1/drains?stat=a", "", "", 422, "invalid_request", id="filter"),
        pytest.param("GET", "/v1/drains/one", "", "", 422, "invalid_request", id="drain-id"),
        pytest.param(
            "POST", "/v1/ingest", EVENT, " " * 100_001, 413, "body_too_large", id="large-body"
        ),
        pytest.param(
            "POST", "/v1/ingest", "text/plain", "{}", 415, "unsupported_media_type", id="type"
        ),
        pytest.param("POST", "/v1/ingest", EVENT, "{}", 422, "invalid_cloudevent", id="event"),
        pytest.param("POST", "/v1/ingest", BATCH, "{}", 422, "invalid_cloudevent", id="batch"),
        pytest.param("POST", "/v1/ingest", EVENT, "", 422, "invalid_cloudevent", id="empty-body"),
    ],
)
def test_every_refusal_has_a_code_a_sentence_and_details(
    reading: ApiServer,
    *,
    method: str,
    path: str,
    content_type: str,
    body: str,
    status: int,
    code: str,
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    with reading.client() as client:
        answer = client.request(method, path, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert sorted(answer.json()) == ["details", "error_code", "message"]
    assert answer.json()["error_code"] == code
    assert answer.json()["message"]


def test_a_body_of_unknown_length_is_cut_off_too(reading: ApiServer) -> None:
    with reading.client() as client:
        chunks = (b" " * 25_000 for _ in range(5))
        answer = client.post("/v1/ingest", content=chunks, headers={"Content-Type": EVENT})
    assert answer.status_code == 413


def test_a_sender_that_is_too_fast_is_told_to_wait(platform_without_spark: Platform) -> None:
    slow = api_server(platform_without_spark.settings, api_rate_per_s=0.5)
    with slow as server, server.client() as client:
        answers = [client.get("/v1/drains") for _ in range(5)]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error_code"] == "too_many_requests"
    assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("trusted", "told"),
    [
        pytest.param(None, "127.0.0.1", id="nobody"),
        pytest.param("10.0.0.5", "127.0.0.1", id="another"),
        pytest.param("10.0.0.5,127.0.0.1", "203.0.113.7", id="this-one"),
    ],
)
def test_only_a_trusted_proxy_says_for_whom_it_asks(
    platform_without_spark: Platform, trusted: str | None, told: str
) -> None:
    with api_server(platform_without_spark.settings, api_trusted_proxies=trusted) as server:
        with server.client() as client:
            client.get("/nowhere", headers={"X-Forwarded-For": "203.0.113.7"})
        assert eventually(lambda: '"path":"/nowhere"' in server.log.read_text())
        (line,) = (line for line in server.log.read_text().splitlines() if "/nowhere" in line)
    assert f'"client":"{told}"' in line


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_pages_of_current_values_are_the_whole_list_in_order(
    reading: ApiServer, limit: int
) -> None:
    items = reading.pages("/v1/current-values", limit=limit)
    places = [(item["owner"]["id"], item["key"], item["instance"]) for item in items]
    assert places == sorted(places)
    assert len(set(places)) == len(places) == 3 * 2 * 4


def test_current_values_are_narrowed_by_device_key_prefix_and_instance(reading: ApiServer) -> None:
    def found(**query: str) -> list[tuple[str, str, str]]:
        items = reading.get("/v1/current-values", **query)["items"]
        return [(item["owner"]["id"], item["key"], item["instance"]) for item in items]

    assert len(found(device=DEVICES[0])) == 8
    assert found(device=DEVICES[0], key="t.mode", instance="") == [(DEVICES[0], "t.mode", "")]
    assert len(found(device=DEVICES[0], key="t.mode")) == 4
    assert len(found(prefix="t.m")) == 12
    assert found(prefix="t_m") == []
    assert len(found(key="t.%", instance="1")) == 3
    assert found(device="\0") == found(device="' OR 1=1 --") == []


def test_a_current_value_carries_what_it_rests_on(reading: ApiServer) -> None:
    page = reading.get("/v1/current-values", device=DEVICES[0], key="t.mode", instance="1")
    (item,) = page["items"]
    assert item["owner"] == {"kind": "component", "id": DEVICES[0]}
    assert (item["kind"], item["value"], item["provenance"]) == ("state", "idle", "observed")
    assert (item["source"], item["policy"], item["state"]) == ("edge.rows", "latest", "fresh")
    assert item["contributors"][0]["source"] == "edge.rows"
    old = reading.get("/v1/current-values", device=DEVICES[0], key="t.%", instance="1")
    assert [(item["kind"], item["value"], item["state"]) for item in old["items"]] == [
        ("metric", 1.5, "stale")
    ]


def test_a_lineage_that_is_not_served_is_named(reading: ApiServer) -> None:
    assert reading.get("/v1/current-values", device=DEVICES[0])["not_served"] == []
    (told,) = reading.get("/v1/current-values", device=DEVICES[1])["not_served"]
    assert (told["device_id"], told["source_table"]) == (DEVICES[1], "journal")
    assert "Delta" in told["reason"]


def test_the_ledger_sums_and_balances(reading: ApiServer) -> None:
    items = reading.pages("/v1/ledger", limit=1)
    assert [(i["day"], i["device_id"], i["outcome"], i["messages"]) for i in items] == [
        (DAY.isoformat(), "", "rejected", 1),
        (DAY.isoformat(), DEVICES[0], "accepted", 5),
        (str(datetime.now(UTC).date()), DEVICES[1], "accepted", 7),
    ]
    balance = reading.get("/v1/ledger")["balance"]
    assert (balance["balanced"], balance["messages_received"], balance["messages"]) == (
        True,
        13,
        13,
    )
    narrow = reading.get("/v1/ledger", device=DEVICES[0], outcome="accepted")
    assert [item["messages"] for item in narrow["items"]] == [5]
    assert narrow["balance"]["messages_received"] is None
    assert narrow["balance"]["balanced"]


def test_a_ledger_that_does_not_balance_says_so(
    own_api: ApiServer, platform_without_spark: Platform
) -> None:
    def balanced(**query: Any) -> bool:
        return bool(own_api.get("/v1/ledger", **query)["balance"]["balanced"])

    gateway = platform_without_spark.gateway
    fill(gateway)
    assert balanced()
    unbalance(gateway, "messages", day=DAY + timedelta(days=1))
    assert (balanced(), balanced(day=DAY)) == (False, True)
    unbalance(gateway, "rows", day=DAY)
    assert not balanced(day=DAY)


def test_drains_are_listed_newest_first(reading: ApiServer) -> None:
    assert [drain["drain_id"] for drain in reading.pages("/v1/drains", limit=2)] == [4, 3, 2, 1]
    assert [drain["drain_id"] for drain in reading.pages("/v1/drains", limit=2, day=DAY)] == [
        2,
        1,
    ]
    (held,) = reading.get("/v1/drains", state="held")["items"]
    assert held == reading.get("/v1/drains/4")
    assert held["note"] == "the books do not agree"


def test_devices_are_listed_with_when_they_were_last_heard(reading: ApiServer) -> None:
    devices = reading.pages("/v1/devices", limit=2)
    assert [device["device_id"] for device in devices] == list(DEVICES)
    first = reading.get(f"/v1/devices/{DEVICES[0]}")
    assert first == devices[0]
    assert first["auto"]
    assert first["last_received_at"] == "2026-04-28T09:00:00Z"
    assert devices[1]["last_received_at"] is None


def test_a_generated_client_finds_nothing(reading: ApiServer) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
            "run",
            f"{reading.url}/openapi.json",
            f"--header=Authorization: Bearer {reading.token}",
            "--max-examples=25",
            "--seed=7",
            "--suppress-health-check=all",
        ],
        cwd=reading.settings.home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_a_point_read_is_an_index_probe(records: Platform) -> None:
    engine = create_engine(records.settings.postgres_url or "")
    with engine.connect() as connection:
        values = projected([("big/device", {"t.c": {str(n): metric(n) for n in range(20_000)}})])
        CurrentInstances(connection).advance(values, drain_id=3)
        connection.execute(text("ANALYZE current_instance"))
        plan = _plan(connection, CurrentValueFilter("big/device", key="t.c", instance="77"))
        assert "current_instance_pkey" in plan
        assert "Seq Scan on current_instance" not in plan
        plan = _plan(connection, CurrentValueFilter(DEVICES[0]))
        assert "current_instance_by_family" in plan
    engine.dispose()


def _plan(connection: Connection, wanted: CurrentValueFilter) -> str:
    asked: list[tuple[str, Any]] = []

    @listens_for(connection, "before_cursor_execute")
    def note(*told: Any) -> None:
        asked.append((told[2], told[3]))

    CurrentValues(connection).page(wanted, after=None, limit=10)
    statement, values = asked[0]
    return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}", values))
