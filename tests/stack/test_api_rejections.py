"""Rejections over HTTP: read in groups, looked at one by one, explained, replayed, discarded."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.postgres.audit import AuditFilter
from ilyama_resources.postgres.rejections import Rejection
from tests.api_server import ApiServer, api_server
from tests.damage import files_of, tear
from tests.platform import Platform
from tests.rejected_records import FIRMWARE, reject
from tests.unit.intake.traffic import NOW, TOPIC, batch, change

_drains = count(1)


def _messages(*payloads: bytes) -> list[Message]:
    segment_id = str(uuid4())
    properties = {"correlation_id": "c-1"}
    return [
        Message(segment_id, position, TOPIC, payload, NOW + position, 1, properties)
        for position, payload in enumerate(payloads)
    ]


def _bad(number: int, *, table: str = "pumps") -> bytes:
    payload = batch(change(number), number=number, table=table)
    return payload.replace(b'"format_version":1', b'"format_version":9')


@pytest.fixture
def rejected(shared_platform: Platform) -> list[Rejection]:
    """Two rejections of one table, one of another, and one that is no text at all."""
    payloads = (_bad(1), _bad(2), _bad(3, table="valves"), b"\xff\0")
    return reject(shared_platform, _messages(*payloads), drain_id=next(_drains))


@pytest.fixture
def client(shared_api: ApiServer) -> Iterator[httpx.Client]:
    with shared_api.client() as opened:
        yield opened


def _post(client: httpx.Client, path: str, **body: Any) -> httpx.Response:
    return client.post(f"/v1/rejections/{path}", json=body)


def test_rejections_are_listed_by_code_table_and_firmware(
    shared_api: ApiServer, rejected: list[Rejection]
) -> None:
    groups = shared_api.pages("/v1/rejections", limit=1)
    places = [(group["code"], group["source_table"], group["firmware_version"]) for group in groups]
    assert places == sorted(places)
    assert ("invalid_json", "", FIRMWARE) in places
    (pumps,) = shared_api.get(
        "/v1/rejections", code="unsupported_format_version", table="pumps", state="rejected"
    )["items"]
    assert pumps["devices"] == 1
    assert pumps["states"] == {"rejected": pumps["rejections"]}
    assert pumps["rejections"] >= 2
    assert pumps["sample"]["json_path"] == "$.format_version"
    assert shared_api.get("/v1/rejections", device="' OR 1=1 --")["items"] == []
    assert shared_api.get("/v1/rejections", code="\0", firmware="x")["items"] == []
    assert rejected


def test_a_rejection_is_shown_with_its_bytes_and_properties(
    shared_api: ApiServer, rejected: list[Rejection]
) -> None:
    found = shared_api.get(f"/v1/rejections/{rejected[0].rejection_id}")
    assert base64.b64decode(found["payload_base64"]) == _bad(1)
    assert found["payload_text"] == _bad(1).decode()
    assert found["user_properties"] == {"correlation_id": "c-1"}
    assert (found["state"], found["past_replays"]) == ("rejected", [])
    binary = shared_api.get(f"/v1/rejections/{rejected[3].rejection_id}")
    assert (binary["payload_base64"], binary["payload_text"]) == ("/wA=", None)


def test_a_rejection_is_replayed_once_and_discarded_never_after(
    client: httpx.Client, rejected: list[Rejection]
) -> None:
    name = rejected[0].rejection_id
    body = {"data_base64": base64.b64encode(batch(change(1), number=1)).decode()}
    answer = _post(client, f"{name}/replay", **body)
    assert (answer.status_code, answer.json()["state"]) == (202, "replayed")
    again = _post(client, f"{name}/replay", **body)
    assert (again.status_code, again.json()["error_code"]) == (409, "conflict")
    assert "under way" in again.json()["message"]
    assert _post(client, f"{name}/discard").status_code == 409
    (past,) = client.get(f"/v1/rejections/{name}").json()["past_replays"]
    assert (past["attempt"], past["corrected"], past["requested_by"]) == (1, True, "admin")
    assert [past[name] for name in ("segment_id", "position", "drain_id")] == [None] * 3


def test_what_was_discarded_is_not_replayed(
    client: httpx.Client, rejected: list[Rejection], shared_platform: Platform
) -> None:
    name = rejected[1].rejection_id
    explained = _post(client, f"{name}/explain", note="a bug of 2.1")
    assert (explained.status_code, explained.json()["state"]) == (200, "explained")
    assert _post(client, f"{name}/discard").json()["note"] == "a bug of 2.1"
    refused = _post(client, f"{name}/replay")
    assert (refused.status_code, refused.json()["error_code"]) == (409, "conflict")
    assert "it was discarded" in refused.json()["message"]
    with shared_platform.gateway.transaction() as tx:
        entries = tx.audit.page(AuditFilter(f"rejection/{name}"), limit=2)
    assert [(entry.actor, entry.verb) for entry in entries] == [
        ("admin", "discard"),
        ("admin", "explain"),
    ]


def test_a_group_is_replayed_and_nothing_else(
    client: httpx.Client, rejected: list[Rejection]
) -> None:
    group = {"code": "unsupported_format_version", "table": "valves", "firmware": FIRMWARE}
    answer = _post(client, "replay", **group)
    assert answer.status_code == 202
    assert answer.json()["replayed"] >= 1
    assert answer.json()["left"] == 0
    states = [
        client.get(f"/v1/rejections/{rejection.rejection_id}").json()["state"]
        for rejection in rejected
    ]
    assert states == ["rejected", "rejected", "replayed", "rejected"]
    assert _post(client, "replay", **group).status_code == 409
    assert _post(client, "replay", code="empty_batch").status_code == 404


def test_the_same_key_gets_the_same_answer_and_acts_once(
    client: httpx.Client, rejected: list[Rejection]
) -> None:
    first, second = (rejection.rejection_id for rejection in rejected[:2])
    key = {"Idempotency-Key": str(uuid4())}
    answers = [client.post(f"/v1/rejections/{first}/replay", headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].content == answers[1].content
    other = client.post(f"/v1/rejections/{second}/replay", headers=key)
    assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_key_reused")
    assert client.get(f"/v1/rejections/{first}").json()["replays"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param(f"{uuid4()}/replay", b"", 404, id="unknown"),
        pytest.param("one/replay", b"", 404, id="no-id"),
        pytest.param(f"{uuid4()}/replay", b'{"data_base64": "a"}', 422, id="no-base64"),
        pytest.param(f"{uuid4()}/replay", b'{"bytes": "YQ=="}', 422, id="misspelt"),
        pytest.param(f"{uuid4()}/explain", b"{}", 422, id="no-note"),
        pytest.param(f"{uuid4()}/explain", b"note", 422, id="no-json"),
        pytest.param("replay", b"{}", 422, id="no-code"),
        pytest.param("replay", b" " * 100_001, 413, id="large"),
    ],
)
def test_a_wrong_request_is_refused_with_a_sentence(
    client: httpx.Client, path: str, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/v1/rejections/{path}", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert sorted(answer.json()) == ["details", "error_code", "message"]


def test_a_rejection_whose_file_is_torn_is_shown_without_its_bytes(
    client: httpx.Client, rejected: list[Rejection], shared_platform: Platform
) -> None:
    warehouse, name = shared_platform.settings.warehouse, rejected[0].rejection_id
    (properties,) = files_of(warehouse, "raw_batches", rejected[0].drain_id)
    tear(properties)
    shown = client.get(f"/v1/rejections/{name}").json()
    assert (shown["payload_text"], shown["user_properties"]) == (_bad(1).decode(), None)
    assert shown["unreadable"] == [str(properties.relative_to(warehouse))]

    (payloads,) = files_of(warehouse, "rejected_batches", rejected[0].drain_id)
    tear(payloads)
    shown = client.get(f"/v1/rejections/{name}").json()
    assert (shown["code"], shown["payload_base64"]) == ("unsupported_format_version", None)
    torn = (payloads, properties)
    assert shown["unreadable"] == [str(file.relative_to(warehouse)) for file in torn]


def test_corrected_bytes_that_no_message_has_are_refused_at_once(
    platform_without_spark: Platform, tmp_path: Path
) -> None:
    platform = platform_without_spark
    (rejection,) = reject(platform, _messages(_bad(1)), drain_id=1)
    name, most = rejection.rejection_id, 1_000
    larger = tmp_path / "larger"
    larger.write_bytes(b"x" * (most + 1))
    limit = {"ILYAMA_PAYLOAD_MAX_BYTES": str(most)}
    refused = platform.try_ilyama("rejections", "replay", name, "--with", str(larger), **limit)
    assert refused.returncode == 1
    assert "Corrected bytes are at most 1,000" in refused.stderr
    assert "Traceback" not in refused.stderr
    with api_server(platform.settings, payload_max_bytes=most) as server, server.client() as opened:
        data = base64.b64encode(b"x" * (most + 1)).decode()
        answer = _post(opened, f"{name}/replay", data_base64=data)
        assert (answer.status_code, answer.json()["error_code"]) == (413, "body_too_large")
        assert "payload_too_large" in answer.json()["message"]
        fits = base64.b64encode(b"x" * most).decode()
        assert _post(opened, f"{name}/replay", data_base64=fits).status_code == 202
