"""Reviews and policies over HTTP."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api_server import ApiServer
from tests.governed import HASH, OTHER, asked, queue, register
from tests.platform import Platform


@pytest.fixture
def client(shared_api: ApiServer) -> Iterator[httpx.Client]:
    with shared_api.client() as client:
        yield client


@pytest.fixture
def project(shared_platform: Platform) -> str:
    """A project of the test's own, with two devices that wait for the same schema."""
    name = str(uuid4())
    devices = [f"{name}-{number}" for number in range(2)]
    register(shared_platform.gateway, *devices, project=name)
    queue(shared_platform.gateway, *map(asked, devices), asked(devices[0], OTHER))
    return name


def listed(client: httpx.Client, project: str, **query: str) -> list[dict[str, Any]]:
    found = client.get("/v1/reviews", params={"project": project} | query)
    assert found.status_code == 200, found.text
    return list(found.json()["items"])


def post(client: httpx.Client, review: dict[str, Any], verb: str, **body: Any) -> httpx.Response:
    told = {"action_version": review["action_version"]} | body
    return client.post(f"/v1/reviews/{review['review_id']}/{verb}", json=told)


def test_reviews_are_listed_by_state_table_and_project(client: httpx.Client, project: str) -> None:
    found = listed(client, project)
    assert [review["schema_hash"] for review in found].count(HASH) == 2
    assert [review["review_id"] for review in found] == sorted(
        (review["review_id"] for review in found), reverse=True
    )
    assert len(listed(client, project, state="queued")) == 3
    assert listed(client, project, state="approved") == []
    assert listed(client, project, source_table="elsewhere") == []
    assert client.get("/v1/reviews", params={"stat": "queued"}).status_code == 422


def test_reviews_are_read_page_by_page(shared_api: ApiServer, project: str) -> None:
    assert len(shared_api.pages("/v1/reviews", limit=1, project=project)) == 3


def test_a_review_shows_its_evidence(client: httpx.Client, project: str) -> None:
    review = listed(client, project)[-1]
    evidence = client.get(f"/v1/reviews/{review['review_id']}").json()["evidence"]
    assert evidence["diff"] == {"dropped": ["old"]}
    assert evidence["senders"]["firmware_versions"] == {"1.4": 2}
    assert evidence["staged"] == {"rows": 0, "bytes": 0}
    assert evidence["downstream"]["keys"] == ["pumps.flow", "pumps.id", "pumps.mode"]
    assert evidence["dry_run"]["complete"]
    mirror = {"action": "mirror"}
    actions = {"flow": {"action": "ignore"}, "id": mirror, "mode": mirror}
    place = f"/v1/reviews/{review['review_id']}/dry-run"
    tried = client.post(place, json={"actions": actions}).json()
    assert tried["evidence"]["downstream"]["keys"] == ["pumps.id", "pumps.mode"]
    assert post(client, review, "dry-run", actions=actions).json() == tried
    waiting = actions | {"id": {"action": "defer"}}
    held = client.post(place, json={"actions": waiting}).json()["evidence"]
    assert held["downstream"] == {"keys": [], "assets": []}
    assert client.post(place, json={"action_version": 9}).status_code == 409
    unfit = client.post(place, json={"actions": {"flow": {"action": "mirror"}}})
    assert (unfit.status_code, unfit.json()["error_code"]) == (422, "unfit_actions")
    assert client.get("/v1/reviews/4711000").status_code == 404


def test_a_review_is_started_and_approved_for_the_project(
    client: httpx.Client, project: str
) -> None:
    review = listed(client, project)[-1]
    started = post(client, review, "start").json()
    assert (started["state"], started["action_version"]) == ("in_review", 2)
    stale = post(client, review, "approve")
    assert (stale.status_code, stale.json()["error_code"]) == (409, "conflict")
    assert post(client, started, "dry-run").status_code == 200
    done = post(client, started, "approve", note="seen").json()
    assert post(client, done, "dry-run").status_code == 409
    assert (done["state"], done["note"]) == ("approved", "seen")
    assert {action["action"] for action in done["actions"].values()} == {"mirror"}
    assert len(listed(client, project, state="approved")) == 2
    assert post(client, done, "approve").status_code == 409


def test_a_review_without_columns_is_not_approved_beside_one_that_shows_them(
    client: httpx.Client, shared_platform: Platform, project: str
) -> None:
    blind = f"{project}-blind"
    register(shared_platform.gateway, blind, project=project)
    queue(shared_platform.gateway, asked(blind, columns=None))
    review, telling = listed(client, project)[0], listed(client, project)[-1]["review_id"]

    for verb in ("approve", "dry-run"):
        refused = post(client, review, verb)
        assert (refused.status_code, refused.json()["error_code"]) == (409, "conflict")
        assert f"Review {telling} shows the columns of this schema" in refused.text
    assert listed(client, project)[0] == review


def test_unfit_actions_say_why_by_column(client: httpx.Client, project: str) -> None:
    review = listed(client, project)[-1]
    refused = post(client, review, "approve", actions={"flow": {"action": "map", "key": "no"}})
    assert (refused.status_code, refused.json()["error_code"]) == (422, "unfit_actions")
    faults = {fault["column"] for fault in refused.json()["details"]["faults"]}
    assert faults == {"flow", "id", "mode"}
    assert post(client, review, "approve", actions={"id": {"action": "x"}}).status_code == 422
    assert post(client, review, "reject", actions={}).status_code == 422
    assert listed(client, project, state="queued")[-1] == review


@pytest.mark.parametrize("key", ["", "a\nb", "a\0b", "k" * 5_000, "other.__deleted"])
@pytest.mark.parametrize("verb", ["approve", "dry-run"])
def test_what_is_no_datapoint_key_gets_a_sentence(
    client: httpx.Client, project: str, verb: str, key: str
) -> None:
    review = listed(client, project)[-1]
    mirror = {"action": "mirror"}
    chosen = {"id": mirror, "mode": mirror, "flow": {"action": "map", "key": key}}
    refused = post(client, review, verb, actions=chosen)

    assert (refused.status_code, refused.json()["error_code"]) == (422, "unfit_actions")
    (fault,) = refused.json()["details"]["faults"]
    assert (fault["column"], fault["sentence"][:15]) == ("flow", "a datapoint key")


def test_the_same_key_acts_once(client: httpx.Client, project: str) -> None:
    review = listed(client, project)[-1]
    place = f"/v1/reviews/{review['review_id']}/reject"
    headers = {"Idempotency-Key": str(uuid4())}
    answers = [client.post(place, json={"action_version": 1}, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    other = client.post(place, json={"action_version": 2}, headers=headers)
    assert other.json()["error_code"] == "idempotency_key_reused"


def test_a_rejected_schema_is_asked_about_again_when_it_is_reopened(
    client: httpx.Client, project: str
) -> None:
    review = listed(client, project)[0]
    rejected = post(client, review, "reject").json()
    again = post(client, rejected, "reopen").json()
    assert (again["state"], again["schema_hash"]) == ("queued", review["schema_hash"])
    assert again["review_id"] > review["review_id"]
    assert post(client, again, "abandon").json()["state"] == "abandoned"


def test_a_column_that_was_left_for_later_is_decided(client: httpx.Client, project: str) -> None:
    review = listed(client, project)[-1]
    mirror, later = {"action": "mirror"}, {"action": "defer"}
    left = {"id": mirror, "mode": mirror, "flow": later}
    approved = post(client, review, "approve", actions=left).json()
    decided = {"flow": {"action": "ignore"}}
    assert post(client, review, "decide", actions=decided).status_code == 409
    assert post(client, approved, "decide").status_code == 422
    assert post(client, approved, "decide", actions={}).status_code == 422
    unfit = post(client, approved, "decide", actions={"mode": mirror})
    assert (unfit.status_code, unfit.json()["error_code"]) == (422, "unfit_actions")

    done = post(client, approved, "decide", actions=decided).json()

    assert (done["state"], done["action_version"]) == ("approved", 3)
    assert done["actions"]["flow"]["action"] == "ignore"


def test_policies_are_chosen_and_shown(shared_api: ApiServer, client: httpx.Client) -> None:
    project = str(uuid4())
    chosen = client.put("/v1/policies", json={"project": project, "first_schema": "review"})
    assert chosen.json()["holds"]["first_schema"] == "review"
    body = {"project": project, "table": "pumps", "allow_additive_continue": True}
    narrow = client.put("/v1/policies", json=body).json()
    assert narrow["holds"] == {
        "first_schema": "review",
        "allow_additive_continue": True,
        "allow_auto_create_datapoints": False,
    }
    shown = client.get("/v1/policies").json()
    assert shown["default"]["first_schema"] == "accept"
    paged = shared_api.pages("/v1/policies", limit=1)
    assert paged == shown["items"]
    assert [c["source_table"] for c in paged if c["project"] == project] == ["", "pumps"]
    assert client.get("/v1/policies", params={"cursor": "x"}).status_code == 404
    unnamed = client.put("/v1/policies", json={"project": project, "table": "a\nb"})
    assert (unnamed.status_code, unnamed.json()["error_code"]) == (422, "invalid_request")
    assert [told["where"] for told in unnamed.json()["details"]["errors"]] == ["body.table"]
    assert client.put("/v1/policies", json={"first_schema": "maybe"}).status_code == 422
