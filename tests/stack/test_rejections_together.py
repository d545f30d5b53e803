"""Rejections are found one by one, and a group is explained or discarded: by HTTP and command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.postgres.audit import AuditFilter
from ilyama_resources.postgres.rejections import Rejection
from tests.api_server import ApiServer
from tests.platform import Platform
from tests.rejected_records import FIRMWARE, reject
from tests.unit.intake.traffic import NOW, TOPIC, batch, change

CODE = "unsupported_format_version"
_drains = count(1)


@pytest.fixture
def client(shared_api: ApiServer) -> Iterator[httpx.Client]:
    with shared_api.client() as opened:
        yield opened


@pytest.fixture
def table() -> str:
    """A table that no other test has."""
    return f"table-{uuid4()}"


@pytest.fixture
def rejected(shared_platform: Platform, table: str) -> list[Rejection]:
    """Three rejections of the table, the oldest first."""
    segment_id, drain_id = str(uuid4()), next(_drains)
    payloads = [batch(change(n), number=n, table=table) for n in range(3)]
    bad = [payload.replace(b'"format_version":1', b'"format_version":9') for payload in payloads]
    messages = [Message(segment_id, n, TOPIC, bytes_, NOW + n) for n, bytes_ in enumerate(bad)]
    return reject(shared_platform, messages, drain_id=drain_id)


def _post(client: httpx.Client, verb: str, **body: Any) -> httpx.Response:
    return client.post(f"/v1/rejections/{verb}", json={"code": CODE} | body)


def _states(api: ApiServer, table: str) -> set[tuple[str, str | None]]:
    found = api.pages("/v1/rejections/each", limit=100, table=table)
    return {(each["state"], each["note"]) for each in found}


def test_every_rejection_of_a_group_is_found_and_replayed_alone(
    shared_api: ApiServer, client: httpx.Client, rejected: list[Rejection], table: str
) -> None:
    mine = {"code": CODE, "table": table, "firmware": FIRMWARE, "device": "acme/dev-1"}
    found = shared_api.pages("/v1/rejections/each", limit=1, **mine, state="rejected")
    assert [each["position"] for each in found] == [2, 1, 0]
    oldest = found[-1]["rejection_id"]
    assert client.post(f"/v1/rejections/{oldest}/replay").json()["state"] == "replayed"
    left = shared_api.get("/v1/rejections/each", table=table, state="rejected")["items"]
    assert [each["rejection_id"] for each in left] == [
        rejection.rejection_id for rejection in rejected[:0:-1]
    ]
    assert client.get("/v1/rejections/each", params={"cursor": "x"}).status_code == 404
    assert client.get("/v1/rejections/each", params={"colour": "x"}).status_code == 422


def test_a_group_is_explained_once_and_then_discarded(
    shared_api: ApiServer,
    shared_platform: Platform,
    client: httpx.Client,
    rejected: list[Rejection],
    table: str,
) -> None:
    why = f"a bug of 2.1 {uuid4()}"
    assert _post(client, "explain", table=table, note=why, dry_run=True).json() == {
        "explained": 0,
        "left": len(rejected),
    }
    assert _states(shared_api, table) == {("rejected", None)}
    key = {"Idempotency-Key": str(uuid4())}
    body = {"code": CODE, "table": table, "note": why}
    done = [client.post("/v1/rejections/explain", json=body, headers=key) for _ in range(2)]
    assert [answer.json() for answer in done] == [{"explained": 3, "left": 0}] * 2
    assert _states(shared_api, table) == {("explained", why)}
    again = _post(client, "explain", table=table, note=why)
    assert again.status_code == 409
    assert "not explained by this note" in again.json()["message"]

    assert _post(client, "discard", table=table, dry_run=True).json() == {"discarded": 0, "left": 3}
    assert _post(client, "replay", table=table, dry_run=True).json() == {"replayed": 0, "left": 3}
    assert _post(client, "discard", table=table).json() == {"discarded": 3, "left": 0}
    assert _states(shared_api, table) == {("discarded", why)}
    assert _post(client, "discard", table=table).status_code == 409
    assert _post(client, "discard", table="none").status_code == 404
    assert client.post("/v1/rejections/discard", json={}).status_code == 422
    with shared_platform.gateway.transaction() as tx:
        lines = tx.audit.page(AuditFilter("rejections"), limit=2)
    group = {"code": CODE, "source_table": table}
    assert [(line.verb, line.new) for line in lines] == [
        ("discard", group | {"discarded": 3, "note": None}),
        ("explain", group | {"explained": 3, "note": why}),
    ]


def test_what_is_replayed_meanwhile_is_left_alone(
    shared_api: ApiServer, client: httpx.Client, rejected: list[Rejection], table: str
) -> None:
    client.post(f"/v1/rejections/{rejected[0].rejection_id}/replay")
    assert _post(client, "discard", table=table, note="no").json() == {"discarded": 2, "left": 0}
    assert _states(shared_api, table) == {("replayed", None), ("discarded", "no")}


def test_the_command_finds_each_explains_a_group_and_discards_it(
    shared_platform: Platform, rejected: list[Rejection], table: str
) -> None:
    def rejections(*words: str) -> str:
        return shared_platform.ilyama("rejections", *words, "--table", table, COLUMNS="80")

    group = ("--code", CODE)
    told = rejections("list", "--each").splitlines()
    assert [line.split()[0] for line in told[::3]] == [r.rejection_id for r in rejected[::-1]]
    as_json = rejections("list", "--each", "--json", "--limit", "2").splitlines()
    assert [json.loads(line)["position"] for line in as_json] == [2, 1]
    assert f"{CODE}  {table}" in rejections("list")

    counted = rejections("explain", *group, "--note", "why")
    assert "would be explained: 3" in counted
    assert "say --yes" in counted
    assert "explained now: 3" in rejections("explain", *group, "--note", "why", "--yes")
    assert "would be replayed: 3" in rejections("replay", *group)
    assert "would be discarded: 3" in rejections("discard", *group)
    assert "discarded now: 3" in rejections("discard", *group, "--yes")
    refused = shared_platform.try_ilyama("rejections", "discard", *group, "--table", table, "--yes")
    assert (refused.returncode, "is open" in refused.stderr) == (1, True)
