"""A mutation and the answer that its idempotency key gets again are one transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.audit import AuditFilter
from tests.api_server import ApiServer, api_server
from tests.governed import asked, queue, register, reviews
from tests.platform import Platform

KEY = {"Idempotency-Key": "k-1"}
BODY = {"action_version": 1, "note": "a typo in the firmware"}


@pytest.fixture
def place(platform_without_spark: Platform) -> str:
    """Where a review that waits is rejected."""
    gateway = platform_without_spark.gateway
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    return f"/v1/reviews/{reviews(gateway)[0].review_id}/reject"


def reject(server: ApiServer, place: str, **body: Any) -> httpx.Response:
    with server.client() as client:
        return client.post(place, json=BODY | body, headers=KEY)


def rejections_told(gateway: Gateway) -> int:
    with gateway.transaction() as tx:
        return len(tx.audit.page(AuditFilter(verb="reject"), limit=100))


@pytest.mark.parametrize(
    ("point", "done"), [("mutation.before", 0), ("mutation.after", 1)], ids=["before", "after"]
)
def test_a_retry_after_a_crash_at_the_commit_gets_the_answer_and_acts_once(
    platform_without_spark: Platform,
    place: str,
    point: str,
    done: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = platform_without_spark.gateway
    with monkeypatch.context() as doomed:
        doomed.setenv("CRASH_AT", point)
        with api_server(platform_without_spark.settings) as server:
            with suppress(httpx.TransportError):
                reject(server, place)
            assert server.process.wait(60) == CRASH_STATUS
    assert rejections_told(gateway) == done
    with api_server(platform_without_spark.settings) as server:
        retried = reject(server, place)
        assert (retried.status_code, retried.json()["state"]) == (200, "rejected")
        assert reject(server, place).content == retried.content
        other = reject(server, place, note="another reason")
    assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_key_reused")
    assert rejections_told(gateway) == 1


def test_equal_keys_that_come_to_two_processes_at_once_act_once(
    platform_without_spark: Platform, place: str
) -> None:
    settings = platform_without_spark.settings
    with api_server(settings) as one, api_server(settings) as two, ThreadPoolExecutor(16) as many:
        answers = list(many.map(lambda server: reject(server, place), [one, two] * 8))
    assert {(answer.status_code, answer.json()["state"]) for answer in answers} == {
        (200, "rejected")
    }
    assert len({answer.content for answer in answers}) == 1
    assert rejections_told(platform_without_spark.gateway) == 1


def test_what_was_refused_may_be_mended_under_the_same_key(own_api: ApiServer, place: str) -> None:
    assert reject(own_api, place, action_version=9).status_code == 409
    assert reject(own_api, place).status_code == 200
