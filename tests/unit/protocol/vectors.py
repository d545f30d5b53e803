"""The published vectors of right answers, as parameters of tests."""

import json
from typing import Any

import pytest

from ilyama_protocol.testing.vectors import file_of


def vectors(name: str) -> list[Any]:
    # Not splitlines(): U+2028 inside a string does not end a line of JSON.
    lines = file_of(name).read_text(encoding="utf-8").strip().split("\n")
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]
