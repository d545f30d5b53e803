"""The audit log keeps what it is told, and the database itself lets nobody change it."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from ilyama_resources.postgres import Gateway
from tests.platform import Platform

CHANGES = [
    "UPDATE {table} SET actor = 'nobody'",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
]


def _record(gateway: Gateway, *verbs: str) -> None:
    with gateway.transaction() as tx:
        for verb in verbs:
            tx.audit.record(actor="ann", verb=verb, resource="device/7", old={"a": 1}, new=None)
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
        assert tx.audit.page(limit=2, resource="device/8") == []
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
