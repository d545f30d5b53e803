"""Which version the schema of the records has, and how it becomes the newest."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, inspect, text

_MIGRATIONS = files("ilyama_resources.postgres") / "migrations"
_VERSION_TABLE = "alembic_version"


def newest_version() -> str:
    """The version that this code expects."""
    scripts = (_MIGRATIONS / "versions").iterdir()
    numbers = [script.name.partition("_")[0] for script in scripts if script.name.endswith(".py")]
    return max(filter(str.isdigit, numbers))


def is_newest(connection: Connection) -> bool:
    """Whether the schema has the newest version; asks for no more than a row."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return False
    found = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return bool(found == newest_version())


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest version."""
    # Every process asks for the version, hardly any needs Alembic, which takes long to load.
    from alembic import command
    from alembic.config import Config

    config: Any = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
