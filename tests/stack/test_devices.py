"""Devices are registered, put into projects and moved: over HTTP and by the command."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ilyama_protocol.governance.bindings import Actions, Binding, ColumnAction, Verb, mirrored
from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_protocol.intake.state import DeviceState, encode_state
from ilyama_resources.postgres.audit import AuditFilter
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.api_server import ApiServer
from tests.governed import (
    HASH,
    SCHEMA,
    TABLE,
    act_on,
    asked,
    paused,
    queue,
    register,
    reviewing,
    reviews,
)
from tests.platform import Platform

ALL = mirrored([column.name for column in SCHEMA])
HOLDING: Actions = ALL | {"id": ColumnAction(Verb.DEFER)}


@pytest.fixture
def client(shared_api: ApiServer) -> Iterator[httpx.Client]:
    with shared_api.client() as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A device's name that no other test has."""
    return f"dev {uuid4()} ☃"


def _register(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/v1/devices", json={"topic_slug": "acme", "device_name": name} | more)


def _move(client: httpx.Client, device_id: str, **places: Any) -> httpx.Response:
    return client.post(f"/v1/devices/{device_id}/move", json=places)


def _staged(platform: Platform, device_id: str, *, drain_id: int = 7) -> StagedSum:
    """Rows of a device that wait for the review of their schema."""
    rows = StagedSum(device_id, TABLE, StagingReason.SCHEMA_REVIEW, HASH, drain_id, 3, 60)
    with platform.gateway.transaction() as tx:
        tx.backlog.add([rows])
        tx.commit()
    return rows


def _released(platform: Platform) -> list[tuple[str, int]]:
    with platform.gateway.transaction() as tx:
        free = tx.backlog.releasable(at_most_bytes=1_000_000)
    return [(found.device_id, found.rows) for found in free]


def test_a_device_is_registered_once_and_moved(
    shared_api: ApiServer, shared_platform: Platform, client: httpx.Client, name: str
) -> None:
    made = _register(client, name, project_id="waterworks", firmware_version="2.1")
    assert made.status_code == 201, made.text
    device_id = f"acme/{name}"
    assert shared_api.get(f"/v1/devices/{device_id}") == made.json()
    assert (made.json()["device_id"], made.json()["auto"]) == (device_id, False)
    again = _register(client, name, device_id=str(uuid4()))
    assert (again.status_code, again.json()["error_code"]) == (409, "conflict")
    assert f"as device {device_id}" in again.json()["message"]

    moved = _move(client, device_id, project_id=None, fleet_id="north")
    assert (moved.json()["project_id"], moved.json()["fleet_id"]) == (None, "north")
    assert _move(client, device_id, fleet_id="north").status_code == 409
    with shared_platform.gateway.transaction() as tx:
        lines = tx.audit.page(AuditFilter(f"device/{device_id}"), limit=10)
    assert [line.verb for line in lines] == ["move", "register"]
    assert lines[0].old["project_id"] == "waterworks"
    assert lines[1].new["firmware_version"] == "2.1"


def test_an_id_of_its_own_is_taken_once_and_projects_are_listed(
    shared_api: ApiServer, client: httpx.Client, name: str
) -> None:
    own, project = str(uuid4()), str(uuid4())
    assert _register(client, name, device_id=own, project_id=project).status_code == 201
    taken = _register(client, f"{name} 2", device_id=own)
    assert (taken.status_code, taken.json()["message"]) == (
        409,
        f"There is a device {own} already.",
    )
    found = shared_api.pages("/v1/devices", limit=1, project=project)
    assert [device["device_id"] for device in found] == [own]


def test_a_registration_that_is_sent_twice_is_made_once(client: httpx.Client, name: str) -> None:
    body, key = {"topic_slug": "", "device_name": name}, {"Idempotency-Key": str(uuid4())}
    answers = [client.post("/v1/devices", json=body, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["device_id"] == name
    other = client.post("/v1/devices", json=body | {"org_id": "o"}, headers=key)
    assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_key_reused")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"topic_slug": "devices"}, id="reserved"),
        pytest.param({"topic_slug": "$SYS"}, id="the broker's own"),
        pytest.param({"topic_slug": "a/b"}, id="slug of two levels"),
        pytest.param({"device_name": "a/b"}, id="name of two levels"),
        pytest.param({"device_name": "a+"}, id="wildcard"),
        pytest.param({"device_name": "a\0"}, id="U+0000"),
        pytest.param({"device_name": ""}, id="no name"),
        pytest.param({"device_name": "x" * 2_000}, id="too long"),
        pytest.param({"device_id": "acme/another"}, id="the id of another root"),
        pytest.param({"device_id": "a#"}, id="an id that no topic has"),
        pytest.param({"project_id": ""}, id="empty project"),
        pytest.param({"project_id": "\0"}, id="project with U+0000"),
        pytest.param({"tenant": "x"}, id="unknown member"),
    ],
)
def test_a_device_that_cannot_be_called_so_is_refused_and_told_where(
    client: httpx.Client, told: dict[str, str]
) -> None:
    answer = client.post("/v1/devices", json={"topic_slug": "acme", "device_name": "dev"} | told)
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
    (member,) = told
    assert [found["where"] for found in answer.json()["details"]["errors"]] == [f"body.{member}"]


def test_only_a_known_device_is_moved_and_somewhere(client: httpx.Client, name: str) -> None:
    assert _move(client, "no/one", project_id="p").status_code == 404
    assert _register(client, name).status_code == 201
    assert _move(client, f"acme/{name}").status_code == 422
    assert _move(client, f"acme/{name}", project_id="").status_code == 422
    assert httpx.post(f"{client.base_url}/v1/devices").status_code == 401


def test_the_command_registers_shows_lists_and_moves(shared_platform: Platform) -> None:
    name, project = f"dev-{uuid4()}", f"project-{uuid4()}"
    ilyama, refused = shared_platform.ilyama, shared_platform.try_ilyama
    device_id = f"acme/{name}"
    assert device_id in ilyama("devices", "register", "acme", name, "--project", project)
    again = refused("devices", "register", "acme", name)
    assert (again.returncode, "is registered already" in again.stderr) == (1, True)
    unfit = refused("devices", "register", "cdc", name)
    assert (unfit.returncode, "the slug is not devices or cdc" in unfit.stderr) == (1, True)
    assert f"project     {project}" in ilyama("devices", "show", device_id)
    assert device_id in ilyama("devices", "list", "--project", project, COLUMNS="40")
    moved = ilyama("devices", "move", device_id, "--project", "")
    assert "follow it" in moved
    assert "No such device." in ilyama("devices", "list", "--project", project)
    assert refused("devices", "move", device_id).returncode == 2
    assert "belongs there already" in refused("devices", "move", device_id, "--project", "").stderr
    assert refused("devices", "show", "nobody").returncode == 1


def test_an_id_that_stands_for_another_device_is_refused(client: httpx.Client, name: str) -> None:
    first, own = str(uuid4()), str(uuid4())
    assert _register(client, first, topic_slug="", device_id=own).status_code == 201
    confused = _register(client, name, device_id=first)
    assert (confused.status_code, "would be taken for" in confused.json()["message"]) == (409, True)
    back = _register(client, own, topic_slug="", device_id=str(uuid4()))
    assert (back.status_code, "knows a device" in back.json()["message"]) == (409, True)
    assert _register(client, own, topic_slug="").status_code == 409


def test_an_id_of_its_own_waits_until_no_drain_can_have_given_another(
    platform_without_spark: Platform,
) -> None:
    platform, words = platform_without_spark, ("devices", "register", "acme", "dev-1", "--id", "x")
    with platform.gateway.transaction() as tx:
        tx.drains.open(1, date(2026, 8, 1), origin="live")
        tx.commit()
    beside = platform.try_ilyama(*words)
    assert (beside.returncode, "A drain is under way" in beside.stderr) == (1, True)
    with platform.gateway.transaction() as tx:
        tx.drains.hold(1, "held")
        tx.commit()
    platform.ilyama(*words)
    with platform.gateway.transaction() as tx:
        state = encode_state(DeviceState(next_received_at=1)).decode()
        tx.device_states.advance([("acme/dev-2", state)], drain_id=1)
        tx.commit()
    late = platform.try_ilyama("devices", "register", "acme", "dev-2", "--id", "y")
    assert (late.returncode, "knows a device acme/dev-2" in late.stderr) == (1, True)


def test_an_open_review_of_a_device_is_decided_in_the_project_it_moves_to(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    for device, project in (("dev-1", "old"), ("dev-2", "new")):
        platform.ilyama("devices", "register", "acme", device, "--id", device, "--project", project)
    queue(platform.gateway, asked("dev-1"))
    rows = _staged(platform, "dev-1")
    platform.ilyama("devices", "move", "dev-1", "--project", "new")
    (review,) = reviews(platform.gateway)
    assert (review.project_id, review.state, review.action_version) == ("new", "queued", 2)
    reviewing(platform.gateway).approve(act_on(review))
    assert (paused(platform.gateway), _released(platform)) == ([], [("dev-1", rows.rows)])


def test_what_the_new_project_has_approved_answers_the_reviews_of_a_device_that_joins(
    platform_without_spark: Platform,
) -> None:
    platform, gateway = platform_without_spark, platform_without_spark.gateway
    for device, project in (("dev-1", "old"), ("dev-2", "new")):
        platform.ilyama("devices", "register", "acme", device, "--id", device, "--project", project)
    queue(gateway, asked("dev-2"))
    reviewing(gateway).approve(act_on(reviews(gateway)[0]))
    queue(gateway, asked("dev-1"))
    _staged(platform, "dev-1")
    assert (paused(gateway), _released(platform)) == (["dev-1"], [])
    platform.ilyama("devices", "move", "dev-1", "--project", "new")
    approved, answered = reviews(gateway)
    assert (answered.state, answered.shared_from) == ("approved", approved.review_id)
    assert (paused(gateway), _released(platform)) == ([], [("dev-1", 3)])


def test_rows_that_were_approved_in_a_project_are_released_after_the_device_has_left_it(
    platform_without_spark: Platform,
) -> None:
    platform, gateway = platform_without_spark, platform_without_spark.gateway
    platform.ilyama("devices", "register", "acme", "dev-1", "--id", "dev-1", "--project", "old")
    queue(gateway, asked("dev-1"))
    _staged(platform, "dev-1")
    reviewing(gateway).approve(act_on(reviews(gateway)[0]))
    platform.ilyama("devices", "move", "dev-1", "--project", "")
    assert _released(platform) == [("dev-1", 3)]


def test_a_rejected_schema_is_asked_again_for_the_project_in_which_the_device_is(
    platform_without_spark: Platform,
) -> None:
    platform, gateway = platform_without_spark, platform_without_spark.gateway
    platform.ilyama("devices", "register", "acme", "dev-1", "--id", "dev-1", "--project", "old")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    rejected = desk.reject(act_on(reviews(gateway)[0]))
    _staged(platform, "dev-1")
    platform.ilyama("devices", "move", "dev-1", "--project", "new")
    again = desk.reopen(act_on(rejected))
    assert (rejected.project_id, again.project_id) == ("old", "new")
    desk.approve(act_on(again))
    assert (paused(gateway), _released(platform)) == ([], [("dev-1", 3)])


def test_an_approval_that_keeps_a_device_paused_is_asked_again_in_the_project_it_moves_to(
    platform_without_spark: Platform,
) -> None:
    platform, gateway = platform_without_spark, platform_without_spark.gateway
    register(gateway, "dev-1", "dev-2", project="old")
    queue(gateway, asked("dev-1"), asked("dev-2"))
    desk = reviewing(gateway)
    desk.approve(act_on(reviews(gateway)[0]), HOLDING)
    _staged(platform, "dev-1")
    platform.ilyama("devices", "move", "dev-1", "--project", "new")
    again = reviews(gateway)[-1]
    assert (again.device_id, again.state, again.project_id) == ("dev-1", "queued", "new")
    desk.approve(act_on(desk.reopen(act_on(reviews(gateway)[1]))))
    assert (paused(gateway), _released(platform)) == (["dev-1"], [])
    desk.approve(act_on(again))
    assert (paused(gateway), _released(platform)) == ([], [("dev-1", 3)])


@pytest.mark.parametrize("before", ["held", "by policy, then rejected"])
def test_an_approval_is_kept_in_place_of_what_bound_the_device_before_it_had_a_project(
    platform_without_spark: Platform, before: str
) -> None:
    platform, gateway = platform_without_spark, platform_without_spark.gateway
    register(gateway, "dev-1")
    desk = reviewing(gateway)
    queue(gateway, asked("dev-1"))
    if before == "held":
        desk.approve(act_on(reviews(gateway)[0]), HOLDING)
    else:
        with gateway.transaction() as tx:
            tx.bindings.accept([PolicyAcceptance(None, TABLE, HASH, Binding(1), "dev-1")])
            tx.commit()
        desk.reject(act_on(reviews(gateway)[0]))
    _staged(platform, "dev-1")
    platform.ilyama("devices", "move", "dev-1", "--project", "old")
    register(gateway, "dev-2", project="old")
    queue(gateway, asked("dev-2"))
    desk.approve(act_on(reviews(gateway)[-1]))
    with gateway.transaction() as tx:
        tx.pauses.clear([("dev-1", TABLE)], PauseReason.SCHEMA_REVIEW)
        tx.commit()
    assert _released(platform) == [("dev-1", 3)]
    platform.ilyama("devices", "move", "dev-1", "--project", "")
    assert _released(platform) == [("dev-1", 3)]
