"""Many reviews are rejected or abandoned at once, each with a line of the audit; none approved."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ilyama_protocol.governance.reviews import STEPS, ReviewState, ReviewVerb
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.audit import AuditFilter
from ilyama_resources.postgres.governance.reviews import ReviewFilter
from ilyama_service import reviewing as service
from ilyama_service.reviewing import ClosedTogether, Closing, ReviewNotFound
from tests.api_server import ApiServer
from tests.governed import CREATING, TABLE, act_on, asked, paused, queue, register, reviews
from tests.governed import reviewing as desk_of
from tests.platform import Platform

HASHES = [f"{number:064x}" for number in range(12)]
MOST = 5


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    """Two devices that send ever new schemas, of which some wait for room, and a good one."""
    gateway = platform_without_spark.gateway
    register(gateway, "dev-1", "dev-2", "dev-3")
    for device, count in (("dev-1", 8), ("dev-2", 3), ("dev-3", 1)):
        asking = [asked(device, HASHES[n], received_at=n) for n in range(count)]
        queue(gateway, *asking, most=MOST)
    return gateway


def close(gateway: Gateway, verb: ReviewVerb = ReviewVerb.REJECT, **named: Any) -> ClosedTogether:
    closing = Closing(verb, ReviewFilter(**named), "ann", "junk")
    with gateway.transaction() as tx:
        done = service.Reviewing(CREATING, most_open=MOST).close_all(tx, closing)
        tx.commit()
    return done


def states(gateway: Gateway, device_id: str) -> list[str]:
    return [review.state for review in reviews(gateway) if review.device_id == device_id]


def test_the_open_reviews_of_a_filter_are_closed_and_others_stay(gateway: Gateway) -> None:
    first = reviews(gateway)[0]
    desk_of(gateway, most=MOST).start(act_on(first))

    assert close(gateway, device_id="dev-1") == (5, 3)

    assert states(gateway, "dev-1") == ["rejected"] * 5 + ["queued"] * 3
    assert states(gateway, "dev-2") == ["queued"] * 3
    assert paused(gateway) == ["dev-1", "dev-2", "dev-3"]
    assert close(gateway, device_id="dev-1") == (3, 0)
    with pytest.raises(ReviewNotFound, match="open"):
        close(gateway, device_id="dev-1")


def test_each_has_its_own_version_and_line_of_the_audit(gateway: Gateway) -> None:
    started = desk_of(gateway, most=MOST).start(act_on(reviews(gateway)[0]))

    close(gateway, device_id="dev-1", state=ReviewState.IN_REVIEW)
    close(gateway, source_table=TABLE)

    closed = [review for review in reviews(gateway) if review.state == ReviewState.REJECTED]
    assert [review.action_version for review in closed] == [3] + [2] * 9
    assert {(r.decided_by, r.note, r.shared_from) for r in closed} == {("ann", "junk", None)}
    with gateway.transaction() as tx:
        lines = tx.audit.page(AuditFilter(verb="reject"), limit=100)[::-1]
    assert [line.resource for line in lines] == [f"review/{r.review_id}" for r in closed]
    assert lines[0].old == {"state": "in_review", "action_version": started.action_version}
    assert lines[0].new == {
        "state": "rejected",
        "action_version": 3,
        "note": "junk",
        "resumed": [],
    }


def test_at_most_so_many_are_closed_at_once_the_oldest_first(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_AT_ONCE", 4)

    assert close(gateway, source_table=TABLE) == (4, 8)

    closed = [review for review in reviews(gateway) if review.state == ReviewState.REJECTED]
    assert [r.schema_hash for r in closed] == HASHES[:4]
    assert {review.device_id for review in closed} == {"dev-1"}


@pytest.mark.parametrize("verb", [ReviewVerb.REJECT, ReviewVerb.ABANDON])
def test_a_lineage_goes_on_as_if_its_reviews_were_closed_one_by_one(
    gateway: Gateway, verb: ReviewVerb
) -> None:
    queue(gateway, asked("dev-2", HASHES[9], received_at=99), most=MOST)
    desk = desk_of(gateway, most=MOST)
    desk.approve(act_on(reviews(gateway)[-1]))
    assert paused(gateway) == ["dev-1", "dev-2", "dev-3"]

    assert close(gateway, verb, source_table=TABLE) == (9, 3)

    assert paused(gateway) == ["dev-1", "dev-3"]
    assert states(gateway, "dev-2") == [STEPS[verb].after] * 3 + ["approved"]
    with gateway.transaction() as tx:
        lines = tx.audit.page(AuditFilter(verb=verb), limit=100)
    resumed = [line.new["resumed"] for line in lines if line.new["resumed"]]
    assert resumed == [["dev-2"]] * 3


@pytest.fixture
def client(own_api: ApiServer) -> Iterator[httpx.Client]:
    with own_api.client() as client:
        yield client


def test_the_api_closes_them_once_for_each_key(gateway: Gateway, client: httpx.Client) -> None:
    body, key = {"device": "dev-2", "note": "junk"}, {"Idempotency-Key": str(uuid4())}
    tried = client.post("/v1/open-reviews/abandon", json=body | {"dry_run": True})
    assert (tried.status_code, tried.json()) == (200, {"closed": 0, "left": 3})
    assert states(gateway, "dev-2") == ["queued"] * 3

    answers = [client.post("/v1/open-reviews/abandon", json=body, headers=key) for _ in range(2)]

    assert [(a.status_code, a.json()) for a in answers] == [(200, {"closed": 3, "left": 0})] * 2
    assert states(gateway, "dev-2") == ["abandoned"] * 3
    with gateway.transaction() as tx:
        assert len(tx.audit.page(AuditFilter(verb="abandon"), limit=100)) == 3
    assert client.post("/v1/open-reviews/abandon", json=body).status_code == 404


def test_the_api_closes_not_simply_everything(gateway: Gateway, client: httpx.Client) -> None:
    for body in ({}, {"state": "queued"}, {"device": "dev-1", "state": "approved"}):
        assert client.post("/v1/open-reviews/reject", json=body).status_code == 422
    assert client.post("/v1/reviews/approve", json={"device": "dev-1"}).status_code == 405
    assert {review.state for review in reviews(gateway)} == {ReviewState.QUEUED}


def test_the_command_line_tells_first_and_closes_when_one_is_sure(
    platform_without_spark: Platform, gateway: Gateway
) -> None:
    words = ("review", "reject", "--device", "dev-1", "--table", TABLE, "--all")
    told = platform_without_spark.ilyama(*words)
    assert "would be rejected: 5" in told
    assert states(gateway, "dev-1") == ["queued"] * 5

    done = platform_without_spark.ilyama(*words, "--yes", "--note", "junk")

    assert "rejected now: 5. 3 more are open" in " ".join(done.split())
    assert states(gateway, "dev-1") == ["rejected"] * 5 + ["queued"] * 3
    refused = platform_without_spark.try_ilyama("review", "reject", "--device", "x", "--all", "-y")
    assert (refused.returncode, "no such review" in refused.stderr) == (1, True)
