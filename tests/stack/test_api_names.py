"""One name for a device and one for a table, whatever is asked for; old names still work."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest

from ilyama_service.api.app import GROUPS
from tests.api_server import ApiServer

WITH_A_TABLE = [
    "/v1/conflicts",
    "/v1/gaps",
    "/v1/ledger",
    "/v1/lineages",
    "/v1/rejections",
    "/v1/rejections/each",
    "/v1/reviews",
]
LINEAGE_ROUTES = ["pause", "resume", "reset-materialization", "reset-sequence"]


@pytest.mark.parametrize("path", WITH_A_TABLE)
def test_lists_are_narrowed_by_device_and_table(shared_api: ApiServer, path: str) -> None:
    assert shared_api.get(path, device="acme/dev-1", table="pumps")["items"] == []


def test_no_parameter_and_no_member_has_another_name(shared_api: ApiServer) -> None:
    routes = shared_api.get("/openapi.json")["paths"]
    asked = {
        p["name"] for r in routes.values() for o in r.values() for p in o.get("parameters", ())
    }
    assert {"device", "table"} <= asked
    assert "source_table" not in asked
    sent = [
        set(content["schema"].get("properties", ()))
        for route in routes.values()
        for operation in route.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    assert len(sent) > len(GROUPS)
    assert [names for names in sent if "source_table" in names] == []


@pytest.mark.parametrize("path", ["/v1/gaps", "/v1/ledger", "/v1/reviews"])
def test_a_list_that_took_the_old_name_still_does(shared_api: ApiServer, path: str) -> None:
    assert shared_api.get(path, source_table="pumps") == shared_api.get(path, table="pumps")


@pytest.mark.parametrize("verb", LINEAGE_ROUTES)
def test_a_lineage_is_named_as_before_too(shared_api: ApiServer, verb: str) -> None:
    nobody = f"nobody/{uuid4()}"
    names = [{"device": nobody, "table": "t"}, {"device_id": nobody, "source_table": "t"}]
    with shared_api.client() as client:
        answers = [client.post(f"/v1/lineages/{verb}", json=body) for body in names]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()


def test_reviews_and_policies_are_named_as_before_too(shared_api: ApiServer) -> None:
    with shared_api.client() as client:
        counted = [
            client.post("/v1/open-reviews/reject", json={name: "pumps", "dry_run": True})
            for name in ("table", "source_table")
        ]
        chosen = client.put("/v1/policies", json={"project": "p", "source_table": "pumps"})
    assert [answer.json() for answer in counted] == [{"closed": 0, "left": 0}] * 2
    assert (chosen.status_code, chosen.json()["source_table"]) == (200, "pumps")


def test_a_name_of_today_beside_the_one_of_before_is_refused(shared_api: ApiServer) -> None:
    twice = {"table": "a", "source_table": "a"}
    with shared_api.client() as client:
        answers: list[httpx.Response] = [
            *(client.get(path, params=twice) for path in ("/v1/gaps", "/v1/ledger", "/v1/reviews")),
            client.put("/v1/policies", json=twice),
            client.post("/v1/open-reviews/reject", json=twice),
            client.post("/v1/lineages/pause", json=twice | {"device": "x"}),
        ]
    assert {answer.status_code for answer in answers} == {422}
    assert all("`source_table` is the old name" in answer.json()["message"] for answer in answers)
