"""The schema of the records: migrated where it is missing, and copied for tests."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, inspect

from ilyama_resources.postgres import Gateway
from tests import databases
from tests.databases import fresh_database, template_name

COPIES = 4


@pytest.fixture
def empty(postgres_url: str) -> str:
    """A database without tables."""
    with closing(Gateway(postgres_url)) as shared:
        return shared.ensure_database(f"test_{uuid4().hex[:12]}")


@pytest.fixture
def no_template(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a template that nobody has made yet."""
    name = f"migrated_{uuid4().hex[:12]}"
    monkeypatch.setattr(databases, "template_name", lambda: name)
    return name


def is_migrated(url: str) -> bool:
    with closing(Gateway(url)) as gateway:
        return gateway.is_migrated()


def schema_of(url: str) -> dict[str, Any]:
    engine = create_engine(url)
    found = inspect(engine)
    schema = {
        table: [
            [str(column) for column in found.get_columns(table)],
            found.get_pk_constraint(table),
            found.get_indexes(table),
            found.get_check_constraints(table),
            found.get_unique_constraints(table),
        ]
        for table in (*found.get_table_names(), *found.get_view_names())
    }
    engine.dispose()
    return schema


def test_what_has_no_tables_is_migrated_by_many_at_once(empty: str) -> None:
    assert not is_migrated(empty)
    gateways = [Gateway(empty) for _ in range(COPIES)]
    with ThreadPoolExecutor(COPIES) as pool:
        list(pool.map(Gateway.migrate, gateways))
    for gateway in gateways:
        assert gateway.is_migrated()
        gateway.close()


def test_a_copy_is_like_what_was_migrated(empty: str, postgres_url: str) -> None:
    with closing(Gateway(empty)) as gateway:
        gateway.migrate()
    assert "drain" in schema_of(empty)
    assert schema_of(fresh_database(postgres_url)) == schema_of(empty)


@pytest.mark.usefixtures("no_template")
def test_the_first_copies_are_asked_for_at_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(COPIES) as pool:
        made = list(pool.map(lambda _: fresh_database(postgres_url), range(COPIES)))
    assert len({*made}) == COPIES
    assert all(map(is_migrated, made))


def test_what_somebody_left_half_made_is_not_copied(postgres_url: str, no_template: str) -> None:
    with closing(Gateway(postgres_url)) as shared:
        shared.ensure_database(f"draft_{no_template}")
    assert is_migrated(fresh_database(postgres_url))


def test_other_migrations_are_another_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = template_name()
    shutil.copytree(Path(str(databases.MIGRATIONS)), tmp_path / "migrations")
    monkeypatch.setattr(databases, "MIGRATIONS", tmp_path / "migrations")
    assert template_name() == before
    newest = max((tmp_path / "migrations" / "versions").glob("0*.py"))
    newest.write_text(newest.read_text() + "# changed\n")
    assert template_name() != before
