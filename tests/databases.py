"""Fresh databases for tests: copies of one that was migrated once on their server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from typing import Any
from uuid import uuid4

import psycopg2
from alembic.config import Config
from psycopg2 import sql
from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from ilyama_resources.postgres import Gateway

MIGRATIONS = files("ilyama_resources.postgres") / "migrations"


def fresh_database(postgres_url: str) -> str:
    """Make a database with the newest schema and nothing in it, and return its URL."""
    template, name = template_name(), f"test_{uuid4().hex[:12]}"
    with closing(Gateway(postgres_url)) as shared:
        with shared.lock(f"database {template}"):
            if not _exists(postgres_url, template):
                _make_template(shared, template)
        _execute(postgres_url, "CREATE DATABASE {} TEMPLATE {}", name, template)
    return _beside(postgres_url, name)


def migrate(records: Connection, way: Callable[[Config, str], None], revision: str) -> None:
    """Take the records up or down to a revision."""
    config: Any = Config()
    config.set_main_option("script_location", "ilyama_resources:postgres/migrations")
    config.attributes["connection"] = records
    way(config, revision)
    records.commit()


def template_name() -> str:
    """The name of the migrated database: other migrations, another name."""
    digest = hashlib.sha256()
    scripts = (*MIGRATIONS.iterdir(), *(MIGRATIONS / "versions").iterdir())
    for script in sorted(scripts, key=lambda script: script.name):
        if script.name.endswith(".py"):
            digest.update(script.read_bytes())
    return f"migrated_{digest.hexdigest()[:12]}"


def _make_template(shared: Gateway, template: str) -> None:
    """Migrate a draft: only what is whole gets the name, whoever is killed meanwhile."""
    draft = f"draft_{template}"
    _execute(shared.url, "DROP DATABASE IF EXISTS {}", draft)
    with closing(Gateway(shared.ensure_database(draft))) as gateway:
        gateway.migrate()
    _execute(shared.url, "ALTER DATABASE {} RENAME TO {}", draft, template)


def _exists(postgres_url: str, name: str) -> bool:
    with closing(_connected(postgres_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
        return cursor.fetchone() is not None


def _execute(postgres_url: str, command: str, *names: str) -> None:
    with closing(_connected(postgres_url)) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL(command).format(*map(sql.Identifier, names)))


def _connected(postgres_url: str) -> psycopg2.extensions.connection:
    url = make_url(postgres_url).set(drivername="postgresql")
    connection = psycopg2.connect(url.render_as_string(hide_password=False))
    connection.autocommit = True
    return connection


def _beside(postgres_url: str, name: str) -> str:
    return make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
