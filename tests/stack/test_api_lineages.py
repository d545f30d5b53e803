"""Lineages over HTTP: listed, paused, resumed, their circuits closed, their numbers begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.intake.state import DeviceState, LineageState, TelemetryState, encode_state
from ilyama_resources.postgres.audit import AuditFilter
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.api_server import ApiServer
from tests.governed import asked, queue
from tests.platform import Platform

TABLE = "pumps / ☃"


@pytest.fixture
def device_id(shared_platform: Platform) -> str:
    """A registered device of the test's own."""
    name = str(uuid4())
    with shared_platform.gateway.transaction() as tx:
        tx.devices.register([RegisteredDevice(f"acme/{name}", "acme", name, None)], auto=False)
        tx.commit()
    return f"acme/{name}"


@pytest.fixture
def client(shared_api: ApiServer) -> Iterator[httpx.Client]:
    with shared_api.client() as opened:
        yield opened


def _post(client: httpx.Client, verb: str, device_id: str, **more: Any) -> httpx.Response:
    body = {"device": device_id, "table": TABLE} | more
    return client.post(f"/v1/lineages/{verb}", json=body)


def _lineage(api: ApiServer, device_id: str) -> dict[str, Any]:
    (found,) = api.get("/v1/lineages", device=device_id)["items"]
    return dict(found)


def test_an_operator_pauses_and_resumes_a_lineage_once(
    shared_api: ApiServer, shared_platform: Platform, client: httpx.Client, device_id: str
) -> None:
    paused = _post(client, "pause", device_id, note="a pump is replaced")
    assert paused.json()["pauses"] == ["operator"]
    assert _lineage(shared_api, device_id)["state"] == "paused"
    again = _post(client, "pause", device_id)
    assert (again.status_code, again.json()["error_code"]) == (409, "conflict")
    assert _post(client, "resume", device_id).json()["state"] == "active"
    assert _post(client, "resume", device_id).status_code == 409
    with shared_platform.gateway.transaction() as tx:
        entries = tx.audit.page(AuditFilter(f"lineage/{device_id}/{TABLE}"), limit=10)
    assert [entry.verb for entry in entries] == ["resume", "pause"]
    assert entries[1].new == {"pauses": ["operator"], "note": "a pump is replaced"}


@pytest.mark.parametrize("verb", ["pause", "resume", "reset-materialization", "reset-sequence"])
def test_what_nobody_knows_is_not_found(client: httpx.Client, device_id: str, verb: str) -> None:
    assert _post(client, verb, "nobody").status_code == 404
    assert _post(client, verb, device_id, table="\0").status_code == 404
    assert _post(client, verb, device_id, tenant="x").status_code == 422


def test_the_command_line_shows_no_lineage_of_a_device_that_nobody_knows(
    shared_platform: Platform, device_id: str
) -> None:
    refused = shared_platform.try_ilyama("lineages", "show", "nobody", TABLE)
    assert refused.returncode == 1
    assert "There is no device nobody." in refused.stderr
    assert "active" in shared_platform.ilyama("lineages", "show", device_id, TABLE)


def test_a_circuit_is_closed_only_when_it_is_open_and_no_review_is_in_progress(
    shared_platform: Platform, client: httpx.Client, device_id: str
) -> None:
    lineage = (device_id, TABLE)
    assert _post(client, "reset-materialization", device_id).status_code == 409
    with shared_platform.gateway.transaction() as tx:
        tx.pauses.add([lineage], PauseReason.CIRCUIT_OPEN)
        tx.pauses.add([lineage], PauseReason.BACKPRESSURE)
        tx.backlog.add([StagedSum(*lineage, "materialization_failed", "5c", 1, 5, 500)])
        tx.commit()
        assert tx.backlog.releasable(at_most_bytes=10) == []
    queue(shared_platform.gateway, asked(device_id, source_table=TABLE))
    assert _post(client, "reset-materialization", device_id).status_code == 409
    (review,) = client.get("/v1/reviews", params={"device": device_id}).json()["items"]
    decided = client.post(f"/v1/reviews/{review['review_id']}/reject", json={"action_version": 1})
    assert decided.status_code == 200
    after = _post(client, "reset-materialization", device_id)
    assert after.json()["pauses"] == ["backpressure", "schema_review"]
    with shared_platform.gateway.transaction() as tx:
        tx.pauses.clear([lineage], PauseReason.SCHEMA_REVIEW)
        (free,) = tx.backlog.releasable(at_most_bytes=10)
        assert (free.device_id, free.rows) == (device_id, 5)
        tx.backlog.release([free], drain_id=2)
        assert tx.backlog.releasable(at_most_bytes=10) == []
        tx.commit()


def test_errors_are_retried_only_when_there_are_some(
    shared_platform: Platform, client: httpx.Client, device_id: str
) -> None:
    refused = client.post("/v1/lineages/retry-errors")
    assert (refused.status_code, refused.json()["error_code"]) == (409, "conflict")
    with shared_platform.gateway.transaction() as tx:
        assert tx.audit.page(AuditFilter("lineages"), limit=1) == []
        tx.backlog.add([StagedSum(device_id, TABLE, "engine_error", "", 3, 0, 20)])
        tx.commit()
    assert client.post("/v1/lineages/retry-errors").json() == {"rows": 0}
    with shared_platform.gateway.transaction() as tx:
        tx.backlog.add([StagedSum(device_id, TABLE, "materialization_failed", "", 4, 7, 20)])
        tx.commit()
    assert client.post("/v1/lineages/retry-errors").json() == {"rows": 7}


def test_a_sequence_is_reset_once_and_only_for_telemetry(
    shared_platform: Platform, client: httpx.Client, device_id: str
) -> None:
    assert _post(client, "reset-sequence", device_id).status_code == 409
    lineage = LineageState(telemetry=TelemetryState(batch_seq=7))
    state = encode_state(DeviceState(lineages={TABLE: lineage})).decode()
    with shared_platform.gateway.transaction() as tx:
        tx.device_states.advance([(device_id, state)], drain_id=1)
        tx.commit()
    assert _post(client, "reset-sequence", device_id).status_code == 200
    assert _post(client, "reset-sequence", device_id).status_code == 409
    with shared_platform.gateway.transaction() as tx:
        (reset,) = tx.sequence_resets.of_devices([device_id])
        tx.sequence_resets.settle([reset])
        assert tx.sequence_resets.of_devices([device_id]) == []


def test_lineages_are_listed_page_by_page_with_what_is_staged_of_them(
    shared_api: ApiServer, shared_platform: Platform, device_id: str
) -> None:
    tables = [f"t{number}" for number in range(5)]
    with shared_platform.gateway.transaction() as tx:
        tx.pauses.add([(device_id, table) for table in tables], PauseReason.OPERATOR)
        place = (device_id, "t1", "lineage_paused", "5c")
        sums = [StagedSum(*place, drain, 10, 100) for drain in (1, 2)]
        tx.backlog.add(sums)
        tx.commit()
    found = shared_api.pages("/v1/lineages", limit=2, device=device_id)
    assert [entry["source_table"] for entry in found] == tables
    assert [entry["staged_rows"] for entry in found] == [0, 20, 0, 0, 0]
    assert shared_api.get("/v1/lineages", device=device_id, paused=False)["items"] == []
    assert shared_api.get("/v1/lineages", table="' OR 1=1 --\0")["items"] == []
