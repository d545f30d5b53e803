"""The documents say what the code says, and what they point at is there."""

import re
from pathlib import Path

import pytest

from docs.generate_tables import PAGE, tables_page
from ilyama_resources.settings import REPOSITORY, Settings, variable
from ilyama_service.cli.app import app

DOCS = REPOSITORY / "docs"
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")])
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
SOURCE_FILE = re.compile(r"`((?:ilyama_\w+|sensors|deploy|docs|tests)/[\w./]*)`")

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY))
)


def test_the_page_of_tables_is_what_the_contracts_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == tables_page(), "run `python -m docs.generate_tables`"


@each_document
def test_every_link_leads_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@each_document
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    found = ANCHOR.findall(document.read_text(encoding="utf-8"))
    targets = [(document.parent / path if path else document, anchor) for path, anchor in found]
    assert [anchor for page, anchor in targets if anchor not in _anchors(page)] == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_every_source_file_that_is_named_exists(document: Path) -> None:
    named = SOURCE_FILE.findall(document.read_text(encoding="utf-8"))
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_every_setting_is_explained() -> None:
    names = [variable(field) for field in Settings.model_fields]
    assert [name for name in names if f"| `{name}` |" not in OPERATIONS] == []


def test_every_command_is_explained() -> None:
    names = [command.name for command in app.registered_commands]
    names += [group.name for group in app.registered_groups]
    assert [name for name in names if f"| `ilyama {name}" not in OPERATIONS] == []


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    pages = sorted(path.name for path in (DOCS / "adr").glob("0*.md"))
    assert re.findall(r"^\| \[\d+\]\((.+?)\)", index, re.MULTILINE) == pages
