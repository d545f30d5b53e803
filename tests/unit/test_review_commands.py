"""The words of `ilyama review`."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ilyama_protocol.governance.bindings import ColumnAction, Verb
from ilyama_protocol.governance.dry_run import DryRun
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_service.cli.commands.reviews import app
from ilyama_service.cli.reviews import actions_of, looked_at, named_actions
from ilyama_service.review_evidence import Trial
from tests.governed import HASH, SCHEMA, TABLE

REVIEW = Review(
    review_id=1,
    device_id="dev-1",
    source_table=TABLE,
    schema_hash=HASH,
    project_id=None,
    schema_class="breaking",
    state=ReviewState.QUEUED,
    action_version=1,
    columns=SCHEMA,
    seen_columns=(),
    evidence={},
    firmware_version="1",
    first_received_at=0,
    opened_by=1,
    opened_at=datetime(2026, 4, 28, tzinfo=UTC),
    started_at=None,
    decided_at=None,
    decided_by=None,
    note=None,
    actions=None,
    shared_from=None,
)
WORDS = {
    "mode=ignore": ("mode", ColumnAction(Verb.IGNORE)),
    "mode=map:site.mode": ("mode", ColumnAction(Verb.MAP, "site.mode")),
    "mode=auto_create_and_map": ("mode", ColumnAction(Verb.AUTO_CREATE_AND_MAP)),
    "a=b=defer": ("a=b", ColumnAction(Verb.DEFER)),
    "mode=map:k=with=equals": ("mode", ColumnAction(Verb.MAP, "k=with=equals")),
    "mode=map:k=ignore": ("mode", ColumnAction(Verb.MAP, "k=ignore")),
    "a=map=map:k=v": ("a=map", ColumnAction(Verb.MAP, "k=v")),
    "a=mirror:b=ignore": ("a=mirror:b", ColumnAction(Verb.IGNORE)),
    "a=mirrored=ignore": ("a=mirrored", ColumnAction(Verb.IGNORE)),
    "=a=ignore": ("=a", ColumnAction(Verb.IGNORE)),
    "two\nlines=ignore": ("two\nlines", ColumnAction(Verb.IGNORE)),
    "mode=map:k:with:colons": ("mode", ColumnAction(Verb.MAP, "k:with:colons")),
}


@pytest.mark.parametrize(("word", "expected"), WORDS.items())
def test_a_column_has_its_action(word: str, expected: tuple[str, ColumnAction]) -> None:
    name, action = expected
    assert named_actions([word]) == {name: action}


def test_columns_that_are_not_named_are_mirrored() -> None:
    actions = actions_of(REVIEW, named_actions(["mode=ignore"]))
    assert actions == {
        "id": ColumnAction(),
        "mode": ColumnAction(Verb.IGNORE),
        "flow": ColumnAction(),
    }


OTHER_WORDS = {
    "mode": "is not NAME=ACTION",
    "=ignore": "is not NAME=ACTION",
    "mode=forget": "is not NAME=ACTION",
    "mode=mirror:key": "only auto_create_and_map and map take a key",
    "mode=mirror:": "only auto_create_and_map and map take a key",
    "mode=map:": "is not empty",
    "mode=auto_create_and_map:": "is not empty",
    "mode=map:a\nb": "no control characters",
    "mode=auto_create_and_map:a\0b": "no control characters",
    "mode=auto_create_and_map:a\udcffb": "no control characters",
    f"mode=map:{'k' * 5_000}": "at most 512 characters",
    "mode=map:other.__deleted": "the platform's own",
}


@pytest.mark.parametrize(("word", "told"), OTHER_WORDS.items())
def test_other_words_get_a_sentence(word: str, told: str) -> None:
    with pytest.raises(typer.BadParameter, match=told):
        named_actions([word])


@pytest.mark.parametrize("again", ["mode=mirror", "mode=ignore", "mode=map:site.mode"])
def test_a_column_that_is_named_twice_is_refused(again: str) -> None:
    with pytest.raises(typer.BadParameter, match="mode is named twice"):
        named_actions(["mode=ignore", "flow=defer", again])


@pytest.mark.parametrize("verb", ["show", "approve", "decide"])
def test_words_are_read_before_anything_is_started(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ILYAMA_HOME", str(tmp_path / "home"))
    refused = CliRunner().invoke(app, [verb, "1", "--column", "a"])
    assert (refused.exit_code, (tmp_path / "home").exists()) == (2, False), refused.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "ID of a review, or --all"),
        (["7", "--all"], "not both"),
        (["7", "--table", "pumps"], "not both"),
        (["7", "--table", ""], "not both"),
        (["--all"], "Name a --table"),
        (["--all", "--state", "queued"], "Name a --table"),
        (["--all", "--table", "pumps", "--state", "approved"], "are closed"),
        (["--all", "--table", "pumps", "--version", "2"], "for one review"),
        (["--table", "pumps"], "ID of a review, or --all"),
    ],
)
@pytest.mark.parametrize("verb", ["reject", "abandon"])
def test_either_one_review_is_closed_or_all_of_a_filter(
    verb: str, words: list[str], told: str
) -> None:
    refused = CliRunner().invoke(app, [verb, *words], env={"COLUMNS": "200", "TERM": "dumb"})
    assert (refused.exit_code, told in refused.output) == (2, True), refused.output


def test_reviews_are_not_approved_together() -> None:
    refused = CliRunner().invoke(app, ["approve", "--all", "--table", "pumps"])
    assert refused.exit_code == 2


def test_a_dry_run_says_at_how_much_it_looked() -> None:
    whole = Trial(True, 9, 9, 2, 2, DryRun())
    some = Trial(False, 100_000, 1_700_000, 99, 100, DryRun())
    assert looked_at(whole, is_damaged=False) == "all"
    told = "100,000 of 1,700,000 rows from 99 of 100 devices"
    assert looked_at(some, is_damaged=False) == f"the oldest of each device, {told}"
    assert looked_at(some, is_damaged=True) == f"those that can be read, {told}"
