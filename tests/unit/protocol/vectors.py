"""The project's vectors of right answers, as parameters of tests."""

import json
from pathlib import Path
from typing import Any

import pytest

DIRECTORY = Path(__file__).parents[2] / "vectors"


def vectors(name: str) -> list[Any]:
    # Not splitlines(): U+2028 inside a string does not end a line of JSON.
    lines = (DIRECTORY / f"{name}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]
