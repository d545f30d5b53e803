"""What bodies of mutations may hold: each member once, and of the type that is documented."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import BATCH, ApiServer

REJECTION = "/v1/rejections/7d5f0a3e-2f0c-4a51-9c27-3f0f3a1d5b9e"
ONE_COLUMN_TWICE = '{"a": {"action": "ignore"}, "a": {"action": "defer"}}'


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/reviews/1/start", '{"action_version": true}', "body.action_version"),
        ("/v1/reviews/1/start", '{"action_version": "1"}', "body.action_version"),
        ("/v1/reviews/1/start", '{"action_version": 1.5}', "body.action_version"),
        ("/v1/reviews/1/dry-run", '{"action_version": true}', "body.action_version"),
        ("/v1/rejections/discard", '{"code": "x", "dry_run": "no"}', "body.dry_run"),
        ("/v1/rejections/explain", '{"code": "x", "note": "y", "dry_run": 0}', "body.dry_run"),
        ("/v1/open-reviews/reject", '{"device": "x", "dry_run": 1}', "body.dry_run"),
        ("PUT /v1/policies", '{"allow_additive_continue": "on"}', "body.allow_additive_continue"),
        ("PUT /v1/policies", '{"allow_additive_continue": 1}', "body.allow_additive_continue"),
    ],
)
def test_a_value_of_another_type_is_refused(
    shared_api: ApiServer, path: str, body: str, where: str
) -> None:
    error = _refusal(shared_api, path, body)
    assert [found["where"] for found in error["details"]["errors"]] == [where]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rejections/replay", '{"code": "x", "code": "y"}'),
        ("/v1/rejections/replay", r'{"code": "x", "c\u006fde": "x"}'),
        (f"{REJECTION}/explain", '{"note": "a", "note": "b"}'),
        ("/v1/reviews/1/approve", '{"action_version": 1, "action_version": 1}'),
        ("/v1/reviews/1/approve", f'{{"action_version": 1, "actions": {ONE_COLUMN_TWICE}}}'),
        ("PUT /v1/policies", '{"first_schema": "accept", "first_schema": "review"}'),
        ("/v1/lineages/pause", '{"device": "a", "device": "b", "table": "t"}'),
        ("/v1/devices", '{"topic_slug": "a", "device_name": "b", "device_name": "c"}'),
    ],
)
def test_a_body_that_says_something_twice_is_refused(
    shared_api: ApiServer, path: str, body: str
) -> None:
    error = _refusal(shared_api, path, body)
    assert "appears twice" in error["details"]["errors"][0]["message"]


def test_an_event_that_says_something_twice_refuses_its_batch(api: ApiServer) -> None:
    body = '[{"specversion": "1.0", "subject": "a", "id": "1", "source": "s", "type": "t", '
    body += '"data_base64": "", "subject": "b"}]'
    with api.client() as client:
        answer = client.post("/v1/ingest", content=body, headers={"Content-Type": BATCH})
    assert (answer.status_code, answer.json()["details"]["index"]) == (422, 0)
    assert "appears twice" in answer.json()["message"]


def _refusal(server: ApiServer, path: str, body: str) -> Any:
    method, _, path = path.rpartition(" ")
    with server.client() as client:
        answer = client.request(method or "POST", path, content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
    return answer.json()
