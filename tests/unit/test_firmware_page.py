"""The page for firmware developers says what the code does."""

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.fingerprint import SchemaColumn, affinity_of, schema_hash
from ilyama_protocol.guessing import guessed_path
from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.testing.plugin import VECTOR_FIXTURES
from ilyama_protocol.testing.vectors import SHAPES, file_of
from ilyama_protocol.testing.verdicts import judged
from ilyama_protocol.topics import SYNC_PATHS
from ilyama_protocol.validation.rules import RULES
from ilyama_resources.settings import REPOSITORY
from ilyama_service.cli.app import app
from ilyama_service.simulator.scenarios.catalog import SCENARIOS

PAGE = (REPOSITORY / "docs" / "firmware.md").read_text(encoding="utf-8")
EXAMPLE = REPOSITORY / "docs" / "examples" / "firmware"
BATCHES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
CANONICAL, FINGERPRINT = re.findall(r"```text\n\s*(.*?)\n\s*```", PAGE)
[CREATE_TABLE] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_every_code_is_explained_with_its_action_in_the_order_of_the_checks() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (fix|split|upgrade|drop) \|", PAGE, re.MULTILINE)
    checked = [*dict.fromkeys(rule.code.value for rule in RULES)]

    assert listed == [(code.value, code.action.value) for code in RejectionCode]
    assert [code for code, _ in listed][: len(checked)] == checked


def test_every_scenario_is_listed_with_its_ends() -> None:
    section = PAGE.partition("## Scenarios")[2]
    listed = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", section, re.MULTILINE)

    expected = [(s.name, s.line.rstrip("."), s.ends()) for s in SCENARIOS.values()]
    assert listed == expected


@pytest.mark.parametrize("batch", BATCHES, ids=["rows", "telemetry"])
def test_the_batches_of_the_page_are_sound(batch: dict[str, Any]) -> None:
    path = guessed_path(json.dumps(batch).encode())

    assert path is not None
    judged(path, batch).assert_accepted()


def test_the_worked_example_is_right() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(CREATE_TABLE)
        asked = "SELECT name, type, pk, \"notnull\" FROM pragma_table_info('pump')"
        columns = [
            SchemaColumn(name, affinity_of(declared), pk_ordinal=pk, not_null=bool(not_null))
            for name, declared, pk, not_null in db.execute(asked)
        ]

    assert asked in PAGE
    assert schema_hash("pump", columns) == FINGERPRINT == BATCHES[0]["schema_hash"]
    assert hashlib.sha256(CANONICAL.encode()).hexdigest() == FINGERPRINT
    assert canonical_json(json.loads(CANONICAL)) == CANONICAL


def test_every_topic_fixture_and_file_of_vectors_is_named() -> None:
    names = [*SYNC_PATHS, *VECTOR_FIXTURES, *(file_of(name).name for name in SHAPES)]

    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_first_ten_minutes_go_as_they_are_told(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "station.py")]
    batch = subprocess.run(command, capture_output=True, check=True).stdout
    file = tmp_path / "batch.json"
    file.write_bytes(batch)

    sound = CliRunner().invoke(app, ["check", str(file)])
    broken = batch.replace(b'"last_commit_seq": 3', b'"last_commit_seq": 4')
    faulty = CliRunner().invoke(app, ["check", "-"], input=broken)

    assert sound.stdout == f"{file} on sync/rows/batch: accepted\n"
    assert sound.stdout.replace(str(file), "batch.json") in PAGE
    assert faulty.exit_code == 1
    assert all(line.strip() in PAGE for line in faulty.stdout.splitlines())
