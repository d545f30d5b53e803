"""The protocol page says what the code does."""

import json
import re
from pathlib import Path

from ilyama_protocol.messages import RowBatch
from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.topics import SYNC_PATHS, MessageKind
from ilyama_protocol.validation.rules import RULES
from tests.unit.protocol.payloads import verdict_on

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
CHECKS = re.findall(r"^\| (\d+) \|.*?\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)


def test_the_checks_are_those_of_the_rule_table() -> None:
    listed = [(int(number), code, action) for number, code, action in CHECKS]

    assert listed[: len(RULES)] == [(rule.number, rule.code, rule.code.action) for rule in RULES]
    assert {code for _, code, _ in listed} == {*RejectionCode} - {RejectionCode.BELOW_FLOOR}


def test_every_inbound_path_is_named() -> None:
    assert all(f"`{path}`" in PAGE for path in SYNC_PATHS)


def test_the_examples_are_valid() -> None:
    batch, columns = EXAMPLES

    verdict = verdict_on(MessageKind.ROWS, {**batch, "schema_columns": columns})

    assert isinstance(verdict, RowBatch)
