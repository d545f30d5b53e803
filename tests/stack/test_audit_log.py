"""The audit log keeps what it is told, and the database itself lets nobody change it."""

import json
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.audit import AuditFilter
from tests.api_server import ApiServer
from tests.platform import Platform

CHANGES = [
    "UPDATE {table} SET actor = 'nobody'",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
]


def _record(gateway: Gateway, *verbs: str, resource: str = "device/7") -> None:
    with gateway.transaction() as tx:
        for verb in verbs:
            tx.audit.record(actor="ann", verb=verb, resource=resource, old={"a": 1}, new=None)
        tx.commit()


def _execute(gateway: Gateway, statement: str) -> None:
    engine = create_engine(gateway.url)
    try:
        with engine.begin() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def _months(gateway: Gateway) -> list[str]:
    engine = create_engine(gateway.url)
    query = text(
        "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class "
        "ON oid = inhparent WHERE relname = 'audit_log' ORDER BY 1"
    )
    with engine.connect() as connection:
        names = list(connection.scalars(query))
    engine.dispose()
    return names


def test_what_is_recorded_is_read_newest_first_and_page_by_page(
    platform_without_spark: Platform,
) -> None:
    gateway = platform_without_spark.gateway
    _record(gateway, "one", "two", "three")
    with gateway.transaction() as tx:
        first = tx.audit.page(limit=2)
        second = tx.audit.page(limit=2, before=first[-1].audit_id)
        assert tx.audit.page(AuditFilter("device/8"), limit=2) == []
    assert [entry.verb for entry in [*first, *second]] == ["three", "two", "one"]
    assert (first[0].actor, first[0].old, first[0].new) == ("ann", {"a": 1}, None)


def test_a_line_falls_with_the_transaction_that_it_tells_of(
    platform_without_spark: Platform,
) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.audit.record(actor="ann", verb="register", resource="device/7", new="a\0b")
    with platform_without_spark.gateway.transaction() as tx:
        assert tx.audit.page(limit=2) == []


@pytest.mark.parametrize("change", CHANGES)
def test_the_database_refuses_to_change_the_log(
    platform_without_spark: Platform, change: str
) -> None:
    gateway = platform_without_spark.gateway
    _record(gateway, "register")
    for table in ["audit_log", *_months(gateway)]:
        with pytest.raises(ProgrammingError, match="the audit log is append-only"):
            _execute(gateway, change.format(table=table))
    with gateway.transaction() as tx:
        assert [entry.actor for entry in tx.audit.page(limit=2)] == ["ann"]


def test_each_month_has_a_partition_of_its_own(platform_without_spark: Platform) -> None:
    gateway = platform_without_spark.gateway
    for moment in (
        "2027-01-31 23:59:59.999999+00",
        "2027-02-01 00:00:00+00",
        "2027-02-28 12:00+14",
    ):
        _execute(gateway, f"SELECT ensure_audit_month('{moment}')")
        _execute(
            gateway,
            "INSERT INTO audit_log (at, actor, verb, resource) "
            f"VALUES ('{moment}', 'ann', 'register', 'device/7')",
        )
    assert _months(gateway) == ["audit_log_2027_01", "audit_log_2027_02"]


def test_the_log_is_read_over_http_page_by_page(
    shared_api: ApiServer, shared_platform: Platform
) -> None:
    resource = f"device/{uuid4()}"
    _record(shared_platform.gateway, "one", "two", "three", resource=resource)

    first = shared_api.get("/v1/audit", resource=resource, limit=2)
    rest = shared_api.get("/v1/audit", resource=resource, limit=2, cursor=first["next_cursor"])

    told = [*first["items"], *rest["items"]]
    assert [line["verb"] for line in told] == ["three", "two", "one"]
    assert {(line["actor"], line["resource"]) for line in told} == {("ann", resource)}
    assert (told[0]["old"], told[0]["new"], rest["next_cursor"]) == ({"a": 1}, None, None)
    chosen = shared_api.get("/v1/audit", resource=resource, verb="two", actor="ann")
    assert [line["verb"] for line in chosen["items"]] == ["two"]
    assert shared_api.get("/v1/audit", resource=resource, actor="bob")["items"] == []


def test_the_log_is_read_at_the_command_line(platform_without_spark: Platform) -> None:
    platform = platform_without_spark
    assert "Nobody has done anything yet" in platform.ilyama("audit")
    _record(platform.gateway, "pause", "resume")

    shown = platform.ilyama("audit", "--verb", "pause")
    lines = platform.ilyama("audit", "--json", "--limit", "1").splitlines()

    assert "pause" in shown
    assert "resume" not in shown
    assert [json.loads(line)["verb"] for line in lines] == ["resume"]
    refused = platform.try_ilyama("audit", "--limit", "99999999999999999999")
    assert refused.returncode == 2
    assert "--limit" in refused.stderr
